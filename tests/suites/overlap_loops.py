"""Compares random programs (`support/loop_programs.py`) with their sequential programs, many of them, under
sanitizers.

usage: overlap_loops.py --count 2000 --seed 7; a failure is repeated by --seed 7 --only N.
"""

import argparse
import collections
import random
import sys
import tempfile

from harness import Mpi
from loop_programs import check, reasons


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--mpi", default="tutti")
    parser.add_argument("--go-on", action="store_true", help="go on after a failure")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    numbers = range(options.first, options.first + options.count) if options.only is None else [options.only]
    outcomes = collections.Counter()
    for done, number in enumerate(numbers):
        if done % 20 == 0:
            print(f"{done} of {len(numbers)}: {dict(outcomes)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcomes[check(Mpi(options.mpi), folder, options.seed, number)] += 1
            except AssertionError as wrong:
                if not options.go_on:
                    raise
                outcomes["wrong"] += 1
                print(wrong, flush=True)
    print(f"{len(numbers)} programs on {options.mpi}: {dict(outcomes)}")
    print("\n".join(f"{count} refused: {reason}" for reason, count in reasons.most_common()))
    return 0 if not outcomes["wrong"] and outcomes["refused"] <= max(1, len(numbers) / 2) else 1


if __name__ == "__main__":
    sys.exit(main())
