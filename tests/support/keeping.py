"""Jobs that are saved and restarted: functions that the tests of checkpoints share.

No test knows how long a job lasts, nor how far it has come. A gate, which is a file, holds it back from its
end: until the test opens the gate it can be kept or killed at any instant. What a job has to come to is
waited for.
"""

import os
import random
import re
import signal
import subprocess
import time

from harness import Job, by_age, marked

# Limit of every wait, in seconds. A wait that takes longer counts as hung.
PATIENCE = 180
# Reasons for which a checkpoint is refused while a job begins.
EARLY = "is no mpirun", "under way already", "is not started yet"


class Gate:
    """A file: without it a job of kept.c does not end."""

    def __init__(self, path):
        self.path = path
        self.env = {"KEPT_GATE": str(path)}

    def open(self):
        self.path.touch()

    def close(self):
        self.path.unlink()


def checksum(text):
    found = re.findall(r"^checksum (\w+)$", text, re.M)
    return found[-1] if found else None


def ends_right(outcome, expected):
    """Returns true if a job has ended well, left nothing and printed the expected checksum."""
    return outcome.status == 0 and checksum(outcome.out) == expected and not outcome.left


def instants(name):
    """Prints a seed and returns the random generator that it starts."""
    seed = int(os.environ.get("SEED", time.time_ns()))
    print("seed", seed)
    return random.Random(f"{seed}{name}")


def until(holds, what):
    """Waits until `holds()`, which comes."""
    limit = time.monotonic() + PATIENCE
    while not (value := holds()):
        assert time.monotonic() < limit, what() if callable(what) else what
        time.sleep(0.01)
    return value


def lasting(measure, rounds, seconds):
    """Finds a number of rounds, at least `rounds`, that lasts about `seconds` with this build on this
    machine. Returns the number, the expected result and the time; `measure` returns the last two for a number
    of rounds. The time only serves to draw instants."""
    for _ in range(16):
        expected, took = measure(rounds)
        if took >= seconds:
            break
        rounds *= 2
    return rounds, expected, took


def command(mpi, *words):
    words = [str(word) for word in (mpi.prefix / "bin" / "tutti", *words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)


def keep(mpi, job, *options):
    """Takes a checkpoint of a job of this host, as soon as the job is there."""
    return kept(lambda: command(mpi, "checkpoint", job.process.pid, *options), job)


def kept(ask, job):
    """Requests a checkpoint until the job is ready for one, and returns the last answer."""
    limit = time.monotonic() + PATIENCE
    while True:
        done = ask()
        if not any(reason in done.stderr for reason in EARLY):
            return done
        assert job.process.poll() is None, f"the job is over: {done}\n{job.output()}\n{job.errors()}"
        assert time.monotonic() < limit, done
        time.sleep(0.02)


def keep_and_stop(mpi, job, place):
    """Keeps a job of this host and ends it."""
    ends_kept(keep(mpi, job, "--stop", "--dir", place), job)


def ends_kept(done, job):
    """Checks that the checkpoint was written and that the job ends with it."""
    assert done.returncode == 0, done
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and not outcome.left, outcome


def restart(mpi, place, before, *options, **more):
    """Restarts the job of a set. `before` is the job from which the set came."""
    return Job([mpi.mpirun, *options, "--restart", place], mpi.env, mark=before.mark, **more)


def newest(place):
    """Returns the number of the newest complete set, or 0."""
    names = [entry.name for entry in place.iterdir()] if place.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=0)


def until_kept(job, place, before=0):
    """Waits for a whole set that is newer than `before`: its number."""
    def is_newer():
        assert job.process.poll() is None, f"the job is over: {job.output()}\n{job.errors()}"
        return newest(place) if newest(place) > before else None
    return until(is_newer, lambda: f"there is no set: {job.errors()}")


def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""


def kill(job, victim):
    """Kills a process of a job: its mpirun, its daemon, or a rank."""
    def found():
        if victim == "supervisor":
            return [job.process.pid]
        wanted = {"node": "tutti-node", "rank": "kept"}[victim]
        return [pid for pid in by_age(marked(job.mark)) if name_of(pid) == wanted]
    os.kill(until(found, f"there is no {victim}")[0], signal.SIGKILL)
