"""Measures the cost of each TUTTI_PROTECT between hosts: one row a cell, for docs/measurements.

usage: python protect_figures.py [--rate 1gbit] [--rounds 20] [--seconds 0.1]

The modes take turns in each round. A row shows the least time of all rounds with the greeting alone, and that
of each mode beside it: what else runs on the machine makes times longer, never shorter.
"""

import argparse
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
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", default="0.1")
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
        least = {mode: min(run[mode][cell] for run in rounds) for mode in MODES}
        first = least[MODES[0]]
        beside = [f"{100 * (least[mode] / first - 1):+.1f} %" for mode in MODES[1:]]
        print(f"| {cell[0]} {cell[1]} | {first:.1f} us | " + " | ".join(beside) + " |")
    testbed.down()


if __name__ == "__main__":
    main()
