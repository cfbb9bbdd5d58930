"""Helpers for tests of whole jobs: the processes of ranks, and checks that nothing is left."""

import re
import time


def gone(outcome):
    """Checks that the job ended by itself and left no process."""
    assert not outcome.timed_out, str(outcome)
    assert outcome.left == [], f"processes left: {outcome.left}\n{outcome}"


def pids(output):
    """Process numbers by rank, as `job wait` prints them."""
    return {int(rank): int(pid) for pid, rank in re.findall(r"pid (\d+) (\d+)", output)}


def waiting(mpi, job, ranks, **more):
    """Starts a job all of whose ranks wait."""
    running = mpi.begin(ranks, job, "wait", **more)
    assert running.until(lambda out, _: len(pids(out)) == ranks), running.errors()
    time.sleep(0.2)
    return running
