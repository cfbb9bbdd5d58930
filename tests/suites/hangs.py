"""Generated jobs that hang, and how many of them are explained: the guilty ranks and calls named in time.

    hangs.py [--count 100] [--seed 1] [--hosts] [--at-once 4]
"""

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from hangs import cases  # noqa: E402
from harness import Mpi  # noqa: E402
from hosts import Cluster, Testbed  # noqa: E402

# Time in which a hang has to be explained, in seconds from the start of the job.
LIMIT = 10


def explained(mpi, case):
    """Runs a job with the default setting. Returns what its report lacks, and the seconds it took."""
    if case.is_python:
        words = [sys.executable, ROOT / "tests/programs/hangs.py", *case.words]
    else:
        words = [mpi.compile("hangs.c"), *case.words]
    start = time.monotonic()
    job = mpi.begin(case.ranks, *words, env={"TUTTI_HANG": "abort"})
    job.until(lambda _, err: "TUTTI_HANG=off" in err, seconds=3 * LIMIT)
    seconds = time.monotonic() - start
    outcome = job.wait(10)
    fault = case.fault(outcome.err)
    return fault or (None if seconds <= LIMIT else f"after {seconds:.1f} s"), seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", action="store_true", help="four hosts of a testbed, instead of one")
    parser.add_argument("--at-once", type=int, default=4, help="jobs beside each other, which mostly sleep")
    options = parser.parse_args()
    os.environ["XDG_CACHE_HOME"] = str(ROOT / "build" / "test-cache")
    testbed = Testbed(4, share=[ROOT]) if options.hosts else None
    mpi = Cluster("tutti", testbed, 8) if testbed else Mpi("tutti")
    faults, times = [], []
    try:
        mpi.compile("hangs.c")
        some = cases(options.count, options.seed)
        with ThreadPoolExecutor(options.at_once) as pool:
            for case, (fault, seconds) in zip(some, pool.map(lambda case: explained(mpi, case), some)):
                times.append(seconds)
                if fault:
                    faults.append(case)
                    print(f"{case}: {fault}", flush=True)
    finally:
        if testbed:
            testbed.down()
    good = options.count - len(faults)
    print(f"hangs: {good} of {options.count} explained within {LIMIT} s, median {statistics.median(times):.1f} s")
    return 0 if good >= 0.95 * options.count else 1


if __name__ == "__main__":
    sys.exit(main())
