"""Compares random stencils (`support/stencils.py`) with their sequential programs, many of them, also on
other libraries.

usage: overlap_stencils.py --count 500 --seed 7 --mpi mpich (or impi); a failure is repeated by --seed 7 --only N.
"""

import argparse
import random
import sys
import tempfile

from harness import Mpi
from stencils import one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--mpi", default="tutti")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    numbers = range(options.first, options.first + options.count) if options.only is None else [options.only]
    refused = 0
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            refused += one(Mpi(options.mpi), folder, options.seed, number) == 0
    print(f"{len(numbers)} stencils equal on {options.mpi}, {refused} of them refused")
    return 0 if refused <= len(numbers) / 10 else 1


if __name__ == "__main__":
    sys.exit(main())
