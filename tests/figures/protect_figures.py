"""Measures the cost of each TUTTI_PROTECT between hosts: one row a cell, for docs/measurements/README.md.

usage: python protect_figures.py [--rate 1gbit] [--rounds 15] [--seconds 0.2]

The modes take turns in each round, so that a busy machine slows all of them. A row shows the median time with the
greeting alone, and for each mode the median over the rounds of its time beside that of the same round.
"""

import argparse
import statistics
from pathlib import Path

from hosts import Cluster, Testbed

MODES = ["greeting", "authenticate", "encrypt", "auto"]


def cells(job):
    """Microseconds by cell."""
    rows = [line.split() for line in job.out.splitlines()]
    assert job.status == 0 and rows, job
    return {(name, int(bytes)): float(time) for name, bytes, time in rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", default="0.2")
    options = parser.parse_args()
    testbed = Testbed(2, options.rate)
    cluster = Cluster("tutti", testbed, 1)
    program = cluster.compile(Path(__file__).with_suffix(".c"))
    rounds = []
    for number in range(options.rounds):
        order = MODES[number % len(MODES):] + MODES[:number % len(MODES)]
        run = {mode: cells(cluster.run(2, program, options.seconds, env={"TUTTI_PROTECT": mode})) for mode in order}
        rounds.append(run)
    print(f"| {options.rate} | " + " | ".join(MODES) + " |")
    for cell in rounds[0][MODES[0]]:
        first = statistics.median(run[MODES[0]][cell] for run in rounds)
        beside = [statistics.median(run[mode][cell] / run[MODES[0]][cell] for run in rounds) for mode in MODES[1:]]
        print(f"| {cell[0]} {cell[1]} | {first:.1f} us | " + " | ".join(f"{100 * (one - 1):+.1f} %" for one in beside) + " |")
    testbed.down()


if __name__ == "__main__":
    main()
