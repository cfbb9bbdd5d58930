"""Places on one host: restrictions of containers, sandboxes, CI runners and users, and events during a
running job."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import BUILT
from place import Place, Start, ends, right_or_told, told

HERE = Path(__file__).resolve().parent
LONG = ("20000", "60")  # of places.c: goes on until something ends it
SHORT = ("20000",)


def shell(script):
    """Returns words that run a script before the command that follows. In the script, `"$@"` is that
    command."""
    return ("sh", "-c", script + '; exec "$@"', "sh")


def mounts(script):
    """Runs a script as `shell` does, in a mount namespace of its own."""
    return ("unshare", "--mount", "--propagation", "private", *shell(script))


def limits(**wanted):
    """Returns words that limit the command that follows, as ulimit does: limits(nofile=32)."""
    return ("prlimit", *(f"--{name}={value}" for name, value in wanted.items()))


# ---- system calls that a filter refuses ----


def filtered(error, calls, inner=False):
    """Runs the job (with `inner` only its ranks) under a filter."""

    @contextlib.contextmanager
    def inside(site):
        program = BUILT / "refuse"
        source = HERE / "refuse.c"
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            program.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cc", "-O2", "-o", program, source], check=True, timeout=60)
        words = (program, error, calls)
        if inner:
            site.start.within = words
        else:
            site.start.before = (*site.start.before, *words)
        yield

    return inside


def refused(error):
    """Returns rows of the calls that a job cannot do without, under one kind of filter."""
    needed = {
        "epoll_create1": "epoll_create1", "signalfd4": "signalfd", "prctl": "prctl", "getrandom": "getrandom", "pipe2": "pipe2",
        "clone,clone3,vfork": "fork", "setpgid": "setpgid", "ftruncate": "ftruncate",
    }
    return [
        Place(f"filter: {calls} gives {error}", inside=filtered(error, calls), expect=told(f"{name}: .*allow {name}"),
              light=error == "EPERM" and name == "epoll_create1")
        for calls, name in needed.items()
    ]


FILTERS = [
    *(Place(f"filter of a container, {error}", inside=filtered(error, "container"), light=error == "EPERM") for error in ("EPERM", "ENOSYS")),
    *(Place(f"filter: memfd_create gives {error}: a file stands in", inside=filtered(error, "memfd_create"), light=error == "EPERM")
      for error in ("EPERM", "ENOSYS")),
    Place("filter: memfd_create, and /dev/shm of 64 KiB", Start(before=mounts("mount -t tmpfs -o size=64k none /dev/shm")),
          inside=filtered("EPERM", "memfd_create"), expect=right_or_told("shared memory"), needs=("root",)),
    Place("filter: memfd_create, and no room anywhere",
          Start(env={"TMPDIR": "/dev/shm"}, before=mounts("for at in /dev/shm /tmp /var/tmp; do mount -t tmpfs -o size=64k none $at; done")),
          inside=filtered("EPERM", "memfd_create"), expect=told("memfd_create: .*has room for"), needs=("root",)),
    *(Place(f"filter: {calls} gives EPERM", inside=filtered("EPERM", calls))
      for calls in ("process_vm_readv,process_vm_writev", "userfaultfd,madvise,mremap,mincore,fallocate", "socket,socketpair,bind",
                    "sched_setaffinity,sched_getaffinity,getcpu", "eventfd2,timerfd_create,pidfd_open,rseq,membarrier,statx,prlimit64")),
    *refused("EPERM"),
    *refused("ENOSYS"),
]

# ---- missing resources ----

MISSING = [
    Place("a host as it is", light=True),
    Place("no /dev/shm", Start(before=mounts("mount -t tmpfs -o ro none /dev/shm")), needs=("root",)),
    Place("/dev/shm of 64 KiB", Start(before=mounts("mount -t tmpfs -o size=64k none /dev/shm")), needs=("root",)),
    Place("no /sys", Start(before=mounts("mount -t tmpfs -o ro none /sys")), needs=("root",), light=True),
    Place("no /proc", Start(before=mounts("mount -t tmpfs -o ro none /proc")), expect=right_or_told("/proc"), needs=("root",)),
    Place("no network, not even loopback", Start(before=("unshare", "--net")), needs=("root",), light=True),
    Place("no HOME, no PATH, no TMPDIR", Start(before=("sh", "-c", 'exec env -i JOB_MARK="$JOB_MARK" "$@"', "sh")), light=True),
    Place("HOME that is not there", Start(env={"HOME": "/nowhere", "TMPDIR": "/nowhere"})),
    Place("a read-only file system", Start(before=mounts(
        "mount -o bind / /mnt; mount -o remount,ro,bind / /; for at in /dev/shm /tmp; do mount -t tmpfs -o ro none $at; done")),
        needs=("root",)),
    Place("another user, without rights", Start(before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")), needs=("root",)),
    Place("root of a user namespace, as in a container without root",
          Start(before=("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"))),
    Place("a root without capabilities", Start(before=("setpriv", "--bounding-set=-all", "--inh-caps=-all")), needs=("root",)),
    Place("one processor for 8 ranks", Start(ranks=8, before=("taskset", "-c", "0"), arguments=("20000",))),
]

# ---- limits ----


@contextlib.contextmanager
def memory_group(site, mib):
    """Puts the job into a control group with a limit of memory (cgroup version 1 or 2)."""
    root = Path("/sys/fs/cgroup/memory") if Path("/sys/fs/cgroup/memory").exists() else Path("/sys/fs/cgroup")
    group = root / f"tutti-places-{os.getpid()}"
    group.mkdir()
    try:
        name = "memory.max" if (group / "memory.max").exists() else "memory.limit_in_bytes"
        (group / name).write_text(str(mib << 20), encoding="ascii")
        site.start.before = shell(f"echo $$ > {group}/cgroup.procs")
        yield
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def memory(mib):
    """Runs the job in such a control group."""
    return lambda site: memory_group(site, mib)


VIRTUAL = r"ulimit -v"
LIMITS = [
    *(Place(f"ulimit -v {mib} MiB", Start(before=limits(**{"as": mib << 20})), expect=right_or_told(VIRTUAL), light=mib == 256)
      for mib in (16, 64, 256, 1024, 8192)),
    Place("ulimit -n 16", Start(before=limits(nofile=16)), expect=right_or_told("ulimit -n")),
    Place("ulimit -n 64, 8 ranks", Start(ranks=8, arguments=SHORT, before=limits(nofile=64)), expect=right_or_told("ulimit -n")),
    Place("ulimit -n 1024, limit raised where that is allowed", Start(arguments=SHORT, before=limits(nofile="256:4096"))),
    Place("ulimit -u 3", Start(before=("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", *limits(nproc=3))),
          expect=right_or_told("ulimit -u"), needs=("root",)),
    Place("ulimit -l 0", Start(before=limits(memlock=0))),
    Place("ulimit -s 256 KiB", Start(before=limits(stack=256 << 10))),
    Place("ulimit -s unlimited", Start(before=limits(stack="unlimited:unlimited"))),
    Place("ulimit -f 1 MiB", Start(before=limits(fsize=1 << 20)), expect=right_or_told("ulimit -f")),
    Place("64 MiB of memory", Start(arguments=("100000",)), inside=memory(64), expect=right_or_told("lack of memory"), needs=("root", "cgroup")),
    Place("memory for the launcher alone", Start(arguments=("4000000",)), inside=memory(24), expect=told("lack of memory"),
          needs=("root", "cgroup")),
]

# ---- input and output ----


def terminal(*words):
    """Returns words that give the command a terminal of its own; see terminal.py."""
    return (sys.executable, HERE / "terminal.py", *words)


BROKEN_PIPE = 128 + signal.SIGPIPE
STREAMS = [
    Place("standard input closed", Start(arguments=SHORT, before=shell("exec <&-")), light=True),
    Place("standard output closed", Start(arguments=SHORT, before=shell("exec >&-")), right=r"(?!)", expect=ends(0, 1, BROKEN_PIPE)),
    Place("standard output and error closed", Start(arguments=SHORT, before=shell("exec >&- 2>&-")), expect=ends(0, 1, BROKEN_PIPE)),
    Place("all three closed", Start(arguments=SHORT, before=shell("exec <&- >&- 2>&-")), expect=ends(0, 1, BROKEN_PIPE)),
    Place("standard output full (/dev/full)", Start(arguments=SHORT, before=shell("exec >/dev/full")), expect=told("[Nn]o space left"), light=True),
    Place("reader of the output gone", Start(arguments=SHORT, before=("bash", "-c", '"$@" | exec 0<&-; exit ${PIPESTATUS[0]}', "bash")),
          expect=ends(0, BROKEN_PIPE)),
    Place("terminal frozen for 3 s (Ctrl-S)", Start(arguments=("20000", "2"), before=terminal("freeze", "3")), right=r"(?m)^ok\r?$"),
    Place("terminal gone", Start(arguments=LONG, before=terminal("hangup")), expect=ends(0, 128 + signal.SIGHUP)),
    Place("descriptors closed before MPI_Init", Start(program="closes.c", arguments=("before",)), expect=told("descriptor")),
    Place("descriptors closed after MPI_Init", Start(program="closes.c", arguments=("after",)), expect=right_or_told("descriptor")),
    Place("program loads a lot: stack, heap and descriptors", Start(program="closes.c", arguments=("many",))),
]

# ---- events during a running job ----


def send(whom, number):
    """Sends a signal to `supervisor`, `node` or `rank`."""

    def during(site, job):
        supervisor, node, ranks = site.running(job)
        os.kill({"supervisor": supervisor, "node": node, "rank": ranks[-1]}[whom], number)
        site.mishap()

    return during


def pause(seconds):
    """Stops all processes of the job for some seconds, like a virtual machine that migrates."""

    def during(_site, job):
        supervisor, node, ranks = _site.running(job)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in (supervisor, node, *ranks):
                os.kill(pid, number)
            time.sleep(seconds if number == signal.SIGSTOP else 0)

    return during


RUNNING = Start(arguments=LONG)
MISHAPS = [
    Place("kill -9 of mpirun", RUNNING, during=send("supervisor", signal.SIGKILL), expect=ends(137), light=True),
    Place("kill -9 of the launcher's second process", RUNNING, during=send("node", signal.SIGKILL), expect=told("launcher's own process was killed"),
          light=True),
    Place("kill -9 of a rank", RUNNING, during=send("rank", signal.SIGKILL), expect=told(r"rank \d+ .* was killed by signal 9"), light=True),
    Place("segmentation fault of a rank", RUNNING, during=send("rank", signal.SIGSEGV), expect=told("signal 11")),
    Place("Ctrl-C", RUNNING, during=send("supervisor", signal.SIGINT), expect=ends(130)),
    Place("SIGTERM, as of a batch system", RUNNING, during=send("supervisor", signal.SIGTERM), expect=ends(143)),
    Place("all processes stopped for 7 s", Start(arguments=("20000", "2")), during=pause(7)),
]

# ---- requests that cannot be fulfilled ----


@contextlib.contextmanager
def empty_host_file(site):
    site.start.options = ("--hostfile", site.file("hosts", "# none\n\n"))
    yield


@contextlib.contextmanager
def foreign_library(site):
    """A program that requires a library of another name and path (DT_RPATH), so that Tutti's front does not
    serve it."""
    library, source, program = (site.file(name, "int main(void) { return 0; }\n") for name in ("libmpi.so.40", "program.c", "program"))
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", library, source], check=True, timeout=60)
    subprocess.run(["cc", "-Wl,--no-as-needed", "-o", program, source, library, f"-Wl,--disable-new-dtags,-rpath,{site.folder}"], check=True, timeout=60)
    site.start.program, site.start.arguments = str(program), ()
    yield


def fifo(variable):
    """Gives a setting that names a file a FIFO without a writer."""

    @contextlib.contextmanager
    def inside(site):
        path = site.folder / "fifo"
        os.mkfifo(path)
        site.made.add(path)
        site.start.env[variable] = str(path)
        yield

    return inside


def link(variable):
    """Gives a setting that names an output file a link to a file that must not change."""

    @contextlib.contextmanager
    def inside(site):
        target, path = site.file("precious", "precious\n"), site.folder / "link"
        path.symlink_to(target)
        site.made.add(path)
        site.start.env[variable] = str(path)
        yield
        assert target.read_text(encoding="utf-8") == "precious\n", "a file was written through a link"

    return inside


MISTAKES = [
    Place("an empty host file", inside=empty_host_file, expect=told("names no host"), light=True),
    Place("a program of another MPI library", inside=foreign_library, expect=told(r"linked to libmpi\.so\.40"), light=True),
    Place("the model file is a FIFO", Start(arguments=SHORT), inside=fifo("TUTTI_MODEL_FILE"), expect=right_or_told("TUTTI_MODEL_FILE"), light=True),
    Place("the model file is a device", Start(arguments=SHORT, env={"TUTTI_MODEL_FILE": "/dev/zero"}), expect=right_or_told("TUTTI_MODEL_FILE")),
    Place("the trace is a FIFO", Start(arguments=SHORT), inside=fifo("TUTTI_TRACE"), expect=right_or_told("trace"), light=True),
    Place("the trace is a link", Start(arguments=SHORT), inside=link("TUTTI_TRACE"), expect=right_or_told("trace")),
    Place("the trace is a device", Start(arguments=SHORT, env={"TUTTI_TRACE": "/dev/full"}), expect=right_or_told("trace")),
]

PLACES = [*MISSING, *FILTERS, *LIMITS, *STREAMS, *MISHAPS, *MISTAKES]
