"""Compiles and runs MPI programs for the tests, with a time limit, and kills all remaining processes.

The library under test is the staged Tutti; `--mpi mpich` runs the same tests on MPICH from build/peers,
which shows that the programs are right. Tests of Tutti's own behaviour are then skipped.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import peers

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests" / "programs"
BUILT = ROOT / "build" / "tests"
MARK = "JOB_MARK"


def hang_up_as_usual():
    """Restores the default actions of signals. A test run under nohup ignores SIGHUP, one in the background
    of a script SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Outcome:
    """Result of a run: status as a shell sees it, texts, seconds, and whether it had to be killed."""

    status: int
    out: str
    err: str
    seconds: float
    timed_out: bool
    left: list

    def __str__(self):
        state = "timed out" if self.timed_out else f"status {self.status}"
        return f"{state} after {self.seconds:.1f} s\n--- stdout\n{self.out[-3000:]}\n--- stderr\n{self.err[-3000:]}"


def check(outcome):
    """Asserts that a program which checks itself has ended well and printed `ok`."""
    assert outcome.status == 0 and not outcome.timed_out and "ok" in outcome.out.split(), str(outcome)


def by_age(pids):
    """Sorts processes by age, the oldest first. Their numbers do not show the age, because numbers start
    again from the beginning."""
    def started(pid):
        try:
            # Behind the name, which may be anything (proc(5), field 22).
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        except (FileNotFoundError, ProcessLookupError):
            return 0
    return sorted(pids, key=lambda pid: (started(pid), pid))


def marked(mark):
    """Returns the processes whose environment carries `mark`, without zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def end(mark):
    """Kills every process with this mark, by number."""
    for _ in range(5):
        for pid in marked(mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if not marked(mark):
            return
        time.sleep(0.05)


@contextlib.contextmanager
def locked(path):
    """Holds the lock file `path`. Test processes that run at the same time prepare a shared file one after
    the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Job:
    """A running job. Its output goes to files, so that no process has to read it meanwhile. `stdout` is
    another file or pipe for its standard output."""

    def __init__(self, command, env, stdin=subprocess.DEVNULL, cwd=None, mark=None, stdout=None):
        # Ranks that are made from a checkpoint have the environment of before: their jobs share a mark.
        self.mark = mark or uuid.uuid4().hex
        self.command = [str(word) for word in command]
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.start = time.monotonic()
        self.process = subprocess.Popen(
            self.command, env={**env, MARK: self.mark}, stdin=stdin, stdout=stdout or self.out, stderr=self.err, cwd=cwd,
            start_new_session=True, preexec_fn=hang_up_as_usual)

    def output(self):
        """Returns the standard output so far."""
        return self._so_far(self.out)

    def errors(self):
        """Returns the standard error so far."""
        return self._so_far(self.err)

    def until(self, ready, seconds=30):
        """Waits until `ready(output, errors)`; returns whether it came to that."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if ready(self.output(), self.errors()):
                return True
            if self.process.poll() is not None:
                return ready(self.output(), self.errors())
            time.sleep(0.02)
        return False

    def wait(self, seconds, grace=20):
        """Waits for the end and kills the processes that still run then. Processes that outlive the launcher
        are in `left`."""
        try:
            status, timed_out = self.process.wait(seconds), False
        except subprocess.TimeoutExpired:
            status, timed_out = None, True
        elapsed = time.monotonic() - self.start
        left = [] if timed_out else self._left(grace)
        end(self.mark)
        status = self.process.wait() if status is None else status
        return Outcome(128 - status if status < 0 else status, self.output(), self.errors(), elapsed, timed_out, left)

    @staticmethod
    def _so_far(file):
        """Returns the file's text without moving its position. The job shares the position and would
        otherwise write elsewhere."""
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")

    def _left(self, grace):
        """Waits up to `grace` seconds for the end of all processes, and returns those that are left."""
        limit = time.monotonic() + grace
        while (left := marked(self.mark)) and time.monotonic() < limit:
            time.sleep(0.02)
        return left


class Mpi:
    """An MPI library: how it compiles and starts programs."""

    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]

    def __init__(self, name):
        self.name = name
        self.is_tutti = name == "tutti"
        self.prefix = ROOT / "build" / ("stage" if self.is_tutti else f"peers/{name}")
        self.mpirun = self.prefix / "bin" / ("mpirun" if self.is_tutti else "mpiexec")
        self.mpicc = self.prefix / "bin" / "mpicc" if self.is_tutti else peers.compiler(name)
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("TUTTI_")}
        if not self.is_tutti:
            self.env |= peers.environment(name)

    def compile(self, source, *flags, name=None):
        """Returns the program made from `source` (called `name` where it is built with several `flags`).
        Compiles it again only when a source is newer."""
        source = Path(source) if Path(source).is_absolute() else SOURCES / source
        program = BUILT / self.name / (name or source.stem)
        inputs = [source, *SOURCES.glob("*.h"), *source.parent.glob("*.h"), self.prefix / "include" / "mpi.h"]
        with locked(program.parent / f".{program.name}.lock"):
            if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in inputs):
                self._translate(source, program, flags)
        return program

    def _translate(self, source, program, flags):
        """Compiles and links `source`. Libraries among the flags follow the source, which needs them."""
        compiler = self.mpicc, "-std=gnu11"
        if source.suffix == ".cpp":
            compiler = self.mpicc.with_name("mpicxx"), "-std=c++14"
        command = [*compiler, "-O2", "-g", *self.warnings, "-pthread", "-o", program, source, *flags]
        made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        assert made.returncode == 0, f"{source.name} does not compile:\n{made.stderr}"

    def command(self, ranks, program, *arguments, options=()):
        """Returns the command line of a job."""
        return [self.mpirun, *options, "-n", ranks, program, *arguments]

    def begin(self, ranks, program, *arguments, options=(), env=None, **more):
        """Starts a job and returns it while it runs."""
        return Job(self.command(ranks, program, *arguments, options=options), {**self.env, **(env or {})}, **more)

    def run_words(self, words, env=None, seconds=120, **more):
        """Runs a job from start to end. The words are all that follow mpirun."""
        return Job([self.mpirun, *words], {**self.env, **(env or {})}, **more).wait(seconds)

    def run(self, ranks, program, *arguments, options=(), env=None, seconds=120, **more):
        """Runs a job from start to end."""
        return self.begin(ranks, program, *arguments, options=options, env=env, **more).wait(seconds)


class Front(Mpi):
    """Programs compiled with another library's header and wrapper, on Tutti: through the front of that
    library's ABI."""

    # The header is not ours, and has less than the standard's.
    warnings = ["-w", "-Werror=implicit-function-declaration", "-DMPI_Psend_init_c=MPI_Psend_init", "-DMPI_Precv_init_c=MPI_Precv_init"]

    def __init__(self, abi):
        super().__init__("tutti")
        self.name, self.abi = f"front-{abi}", abi
        self.folder = self.prefix / "lib" / "tutti" / abi
        self.prefix = ROOT / "build" / "peers" / abi
        self.mpicc = self.prefix / "bin" / "mpicc"
        self.env["LD_LIBRARY_PATH"] = str(self.folder)
