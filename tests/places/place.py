"""A place: an environment or a mishap that users have, in which a job must come out right or end with one clear sentence.

What plugs in is a file of this folder with a list PLACES (`one_host.py`, `several_hosts.py`, ...); `run.py` finds them all. A place says in
its fields how the job is started; what needs code is done by

- `inside`, a context manager over a Site: makes the place before the job starts (a firewall, a limit, a folder) and takes it away
  afterwards, whatever happened. It may change the fields of `site.start`;
- `during`, called while the job runs: a kill, a pause, a cut cable. It calls `site.mishap()` when it has done that: seconds count from there.
"""

import contextlib
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from harness import Job  # noqa: E402


@dataclass(frozen=True)
class Expect:
    """What may come of a place: the right results, or the end with a sentence that this regular expression finds."""

    right: bool = True
    sentence: str = ""


RIGHT = Expect()


def told(sentence):
    """The job cannot be done; a line of standard error has to match."""
    return Expect(False, sentence)


def right_or_told(sentence):
    """Either is good."""
    return Expect(True, sentence)


@dataclass
class Start:
    """How the job is started: [before] mpirun [placement] [options] -n RANKS [within] program [arguments]."""

    ranks: int = 4
    program: str = "places.c"  # of tests/c, or a command that is found as it is (no .c)
    arguments: tuple = ("200000",)  # of places.c: the longest message in bytes
    options: tuple = ()
    before: tuple = ()  # words that start mpirun: ("prlimit", "--nofile=64")
    within: tuple = ()  # words that start each rank: ("unshare", "-Ur")
    env: dict = field(default_factory=dict)
    stdin: object = subprocess.DEVNULL


@dataclass(frozen=True)
class Place:
    """One row of the table."""

    name: str
    start: Start = field(default_factory=Start)
    expect: Expect = RIGHT
    hosts: int = 0  # 0: this host as it is; N: a testbed of N hosts, ranks dealt out evenly
    inside: Callable = None  # @contextmanager def inside(site): ...; yield; ...
    during: Callable = None  # def during(site, job): ...
    needs: tuple = ()  # commands that must be there, or "root", "cgroup"; else the row is skipped and says so
    right: str = r"(?m)^ok$"  # what standard output of right results matches, once
    light: bool = False  # takes part in `make test` too
    seconds: float = 15  # from the mishap (the start, where there is none) to the end
    shared: bool = True  # False: takes a testbed of its own, as it spoils it


class Site:
    """Where a place is tried: this host, or the hosts of a testbed."""

    def __init__(self, mpi, place, folder, testbed=None):
        self.mpi, self.place, self.folder, self.testbed = mpi, place, folder, testbed
        self.hosts = testbed.hosts if testbed else []
        self.start = replace(place.start, env={"TMPDIR": str(folder), **place.start.env})
        self.since = None

    def mishap(self):
        """It has happened: from now on seconds count."""
        self.since = time.monotonic()

    def command(self, host, *words):
        """The command line that runs `words` on a host of the testbed."""
        return [str(word) for word in self.testbed.on(host, *words)]

    def on(self, host, *words, check=True):
        """Runs a command on a host of the testbed; its output."""
        done = subprocess.run(self.command(host, *words), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 or not check, f"{host}: {words}: {done.stderr}"
        return done.stdout

    def pids(self, name, host=None):
        """Processes of this name on the hosts of the testbed (on one of them)."""
        return [pid for at, pid, what in self.testbed.processes() if what == name and host in (None, at)]

    def compile(self, source, *flags):
        """A program of tests/c."""
        return self.mpi.compile(source, *flags)

    def words(self):
        """The job's command line."""
        start = self.start
        program = self.compile(start.program) if start.program.endswith((".c", ".cpp")) else start.program
        mpirun = [self.mpi.mpirun]
        if self.testbed:
            each = -(-start.ranks // len(self.hosts))
            mpirun += ["--agent", self.testbed.agent, "--host", ",".join(f"{host}:{each}" for host in self.hosts)]
        words = [*start.before, *mpirun, *start.options, "-n", start.ranks, *start.within, program, *start.arguments]
        words = [str(word) for word in words]
        return self.command(self.hosts[0], *words) if self.testbed else words


@dataclass
class Row:
    """What happened."""

    place: Place
    what: str
    good: bool
    seconds: float = 0
    left: str = "nothing"
    detail: str = ""


def judge(place, outcome):
    """What an outcome is: (what, whether it is good)."""
    said = [line for line in outcome.err.splitlines() if line.strip()]
    if outcome.timed_out:
        return "HUNG", False
    if outcome.status == 0 and len(re.findall(place.right, outcome.out)) == 1:
        if place.expect.right:
            return ("right" if not said else f"right; says: {said[0]}"), True
        return "right, but was to be refused", False
    if outcome.status == 0:
        return "WRONG: ends with 0 and without results", False
    if "FAILED" in outcome.out:
        return "WRONG results", False
    found = [line for line in said if place.expect.sentence and re.search(place.expect.sentence, line)]
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
                place.during(site, job)
        finally:
            outcome = job.wait(place.seconds + 45)
        ended = job.start + outcome.seconds
        what, good = judge(place, outcome)
        seconds = ended - (site.since or job.start)
        left = remains(site, outcome)
    return Row(place, what, good and left == "nothing", seconds, left, str(outcome))


def remains(site, outcome):
    """What is left behind: processes and files."""
    left = [f"process {pid}" for pid in outcome.left]
    if site.testbed:
        left += [f"{name} on {host}" for host, _, name in site.testbed.idle(seconds=5)]
    left += [f"file {path.name}" for path in site.folder.iterdir()]
    return ", ".join(left) or "nothing"
