"""A place: an environment or a mishap that users have, in which a job must come out right or end with one
clear sentence.

To add places, write a file of this folder with a list PLACES (`one_host.py`, `several_hosts.py`, ...);
`run.py` finds all of them. The fields of a place describe the start of the job. Actions are done by

- `inside`, a context manager over a Site: prepares the place before the job starts (a firewall, a limit, a
  folder) and restores it afterwards, whatever happened. It may change the fields of `site.start`;
- `during`, called while the job runs, once its program has printed "ready": a kill, a pause, a cut cable. It
  calls `site.mishap()` after the mishap: seconds count from there.
"""

import contextlib
import re
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable

from harness import Job, marked


@dataclass(frozen=True)
class Expect:
    """Outcomes that are good at a place: the right results, an end with a sentence that matches this regular
    expression, or one of these statuses."""

    right: bool = True
    sentence: str = ""
    statuses: tuple = ()


RIGHT = Expect()
# In the words of a program: how many random operations there are to be, at least.
OPERATIONS = "{operations}"


def told(sentence):
    """Expects that the job cannot run. A line of standard error has to match."""
    return Expect(False, sentence)


def right_or_told(sentence):
    """Accepts either result."""
    return Expect(True, sentence)


def ends(*statuses):
    """Expects one of these statuses and no message, because the user caused the end: signals and broken
    pipes."""
    return Expect(False, "", statuses)


@dataclass
class Start:
    """Command line of the job: [before] mpirun [placement] [options] -n RANKS [within] program
    [arguments]."""

    ranks: int = 4
    program: str = "places.c"  # of tests/c, or a command that is found as it is (no .c)
    arguments: tuple = ("200000",)  # of places.c: the longest message in bytes
    options: tuple = ()
    before: tuple = ()  # words that start mpirun: ("prlimit", "--nofile=64")
    within: tuple = ()  # words that start each rank: ("unshare", "-Ur")
    env: dict = field(default_factory=dict)
    stdin: object = subprocess.DEVNULL
    placed: bool = True  # on several hosts: whether the testbed's hosts and agent go on the command line


@dataclass(frozen=True)
class Place:
    """One row of the table."""

    name: str
    start: Start = field(default_factory=Start)
    expect: Expect = RIGHT
    says: str = ""  # a remark that has to be made, though results are right: a regular expression
    hosts: int = 0  # 0: this host as it is; N: a testbed of N hosts, ranks dealt out evenly
    inside: Callable = None  # @contextmanager def inside(site): ...; yield; ...
    during: Callable = None  # def during(site, job): ...
    # Commands that must exist, "root", "cgroup", or functions that return the reason against it. Otherwise
    # the row is skipped.
    needs: tuple = ()
    right: str = r"(?m)^ok$"  # what standard output of right results matches, once
    light: bool = False  # takes part in `make test` too
    long: bool = False  # takes minutes: only with --long
    seconds: float = 15  # from the mishap (the start, where there is none) to the end
    shared: bool = True  # False: takes a testbed of its own, as it spoils it


class Site:
    """Environment in which a place is tried: this host, or the hosts of a testbed."""

    def __init__(self, mpi, place, folder, testbed=None, operations=1000):
        self.mpi, self.place, self.folder, self.testbed = mpi, place, folder, testbed
        self.hosts = testbed.hosts if testbed else []
        self.start = replace(place.start, env={"TMPDIR": str(folder), **place.start.env})
        self.operations = operations
        self.since = None
        self.made = set()  # files of the place itself, which are no leftovers

    def file(self, name, text=""):
        """A file of the place."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        self.made.add(path)
        return path

    def mishap(self):
        """Records that the mishap has happened. Seconds count from now."""
        self.since = time.monotonic()

    def command(self, host, *words):
        """Returns the command line that runs `words` on a host of the testbed."""
        return [str(word) for word in self.testbed.on(host, *words)]

    def on(self, host, *words, check=True):
        """Runs a command on a host of the testbed; its output."""
        done = subprocess.run(self.command(host, *words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 or not check, f"{host}: {words}: {done.stderr}"
        return done.stdout

    def pids(self, name, host=None):
        """Returns the processes of this name on the hosts of the testbed, or on one of them."""
        return [pid for at, pid, what in self.testbed.processes() if what == name and host in (None, at)]

    def compile(self, source, *flags):
        """Compiles a program of tests/programs."""
        return self.mpi.compile(source, *flags)

    def running(self, job):
        """Returns the launcher's two processes and the ranks (or their starters) of a job on this host:
        (supervisor, node, [ranks])."""
        supervisor = next(pid for pid in marked(job.mark) if name_of(pid) == "mpirun" and name_of(parent_of(pid)) != "mpirun")
        node = next(pid for pid in children_of(supervisor) if name_of(pid) == "tutti-node")
        return supervisor, node, children_of(node)

    def words(self):
        """Returns the job's command line."""
        start = self.start
        program = self.compile(start.program) if start.program.endswith((".c", ".cpp")) else start.program
        mpirun = [self.mpi.mpirun]
        if self.testbed and start.placed:
            each = -(-start.ranks // len(self.hosts))
            mpirun += ["--agent", self.testbed.agent, "--host", ",".join(f"{host}:{each}" for host in self.hosts)]
        words = [*start.before, *mpirun, *start.options, "-n", start.ranks, *start.within, program, *start.arguments]
        words = [str(word).replace(OPERATIONS, str(self.operations)) for word in words]
        return self.command(self.hosts[0], *words) if self.testbed else words


def children_of(pid):
    """Returns the children of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def name_of(pid):
    """Returns the short name of a process, or an empty one."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def parent_of(pid):
    """Returns the parent of a process, or 0."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


@dataclass
class Row:
    """Result of one place: a row of the table."""

    place: Place
    what: str
    good: bool
    seconds: float = 0
    left: str = "nothing"
    detail: str = ""


def judge(place, outcome):
    """Classifies an outcome and returns (text, whether it is good)."""
    said = [line for line in outcome.err.splitlines() if line.strip()]
    found = [line for line in said if place.expect.sentence and re.search(place.expect.sentence, line)]
    if outcome.timed_out:
        return "HUNG", False
    if "FAILED" in outcome.out:
        return "WRONG results", False
    if outcome.status in place.expect.statuses:
        return f"ends with status {outcome.status}", True
    if outcome.status == 0 and len(re.findall(place.right, outcome.out)) == 1:
        if place.says and not any(re.search(place.says, line) for line in said):
            return f"right, but does not say {place.says}", False
        if place.expect.right:
            return ("right" if not said else f"right; says: {said[0]}"), True
        return "right, but was to be refused", False
    if outcome.status == 0:
        return "WRONG: ends with 0 and without results", False
    if found:
        return f"told: {found[0]}", True
    return f"UNCLEAR: status {outcome.status}, {said[-1] if said else 'without a word'}", False


def attempt(site):
    """Tries the place: its row."""
    place = site.place
    with contextlib.ExitStack() as stack:
        if place.inside:
            stack.enter_context(place.inside(site))
        job = Job(site.words(), {**site.mpi.env, **site.start.env}, stdin=site.start.stdin, cwd=site.folder)
        try:
            if place.during:
                assert job.until(lambda out, _: "ready" in out, 30), f"the job does not begin: {job.errors()}"
                place.during(site, job)
        finally:
            outcome = job.wait(place.seconds + 45)
        ended = job.start + outcome.seconds
        what, good = judge(place, outcome)
        seconds = ended - (site.since or job.start)
        left = remains(site, outcome)
    return Row(place, what, good and left == "nothing", seconds, left, str(outcome))


def remains(site, outcome):
    """Returns the remaining processes and files of the job."""
    left = [f"process {pid}" for pid in outcome.left]
    if site.testbed:
        left += [f"{name} on {host}" for host, _, name in site.testbed.idle(seconds=5)]
    left += [f"file {path}" for path in Path("/dev/shm").glob("tutti-*")]
    left += [f"file {path.name}" for path in site.folder.iterdir() if path not in site.made]
    return ", ".join(left) or "nothing"
