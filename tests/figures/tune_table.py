"""Measures what tuning at run time costs and gains (S11): 60 programs of loops, mixes and changing
communicators, tuned beside untuned.

usage: python tests/figures/tune_table.py [--short] [--only WORD] [--no-hosts] [--rate 1gbit] [--seconds S]

Each program (tests/programs/tune_table.c) has rounds on a communicator that is tuned and on one that is
not, in slices of some milliseconds in turn. Columns, tuned to untuned: while it learns, the second half of
that, and afterwards; then to the best of what can be forced, for loops of one operation. The budget counts
the time of the whole program, half of which is not tuned. Sums are compared with the forced algorithms too,
though tuning tries only those that add in the same order; such lines have a star and do not count for the
last figure.

60 programs take about 9 minutes, --short one: every fifth program, of a shorter time.
"""

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from harness import SOURCES, Mpi
from hosts import Cluster, Testbed, refusal
from tune_scenarios import Place

SMALL = "bcast:8,allreduce:8,allgather:8,barrier:0,alltoall:16,reduce:64"
THIRTEEN = "bcast:8,allreduce:8,allgather:64,barrier:0,alltoall:16,reduce:64,bcast:512,allreduce:1024,bcast:64,allgather:8,allreduce:64,reduce:8,bcast:16"
SINGLE = ["bcast:8", "bcast:4096", "bcast:262144", "allreduce:8", "allreduce:8192", "allreduce:262144", "alltoall:1024", "alltoall:65536",
          "allgather:64", "allgather:32768", "reduce:4096", "ibcast:65536", "iallreduce:16384", "ialltoall:8192"]
SUMS = ("reduce", "allreduce", "ireduce", "iallreduce")


def programs(hosts):
    """Returns kind, operations, ranks and work beside each operation of every program."""
    if hosts == 1:
        for ranks in (2, 4):
            yield from (("loop", one, ranks, 2000 if one.startswith("i") else 0) for one in SINGLE)
        for ranks in (1, 2, 4, 8):
            yield ("loop", SMALL, ranks, 0)
            yield ("mix", SMALL, ranks, 0)
            yield ("dup", "allreduce:8,bcast:8,allreduce:248,bcast:248,allreduce:488,bcast:488", ranks, 0)
        for ranks in (2, 4):
            yield ("loop", THIRTEEN, ranks, 0)
            yield ("mix", THIRTEEN, ranks, 0)
            yield ("loop", "bcast:32768,allreduce:8", ranks, 20000)
            yield ("mix", "ibcast:1024,iallreduce:512,bcast:65536", ranks, 1000)
    else:
        yield from (("loop", one, hosts, 0) for one in ("bcast:8", "bcast:65536", "allreduce:65536", "alltoall:4096", "allgather:16384"))
        yield from ((kind, SMALL, hosts, 0) for kind in ("loop", "mix", "dup"))
        yield ("loop", "ibcast:65536", hosts, 20000)
        yield ("loop", THIRTEEN, 2 * hosts, 0)
        yield ("loop", "allreduce:1024", 2 * hosts, 0)
        yield ("mix", "bcast:1024,alltoall:8192", hosts, 0)


class Table(Place):
    """Environment in which the programs run."""

    def __init__(self, mpi, folder, hosts):
        self.mpi, self.folder, self.hosts = mpi, folder, hosts
        self.program = folder / f"table{hosts}"
        subprocess.run([mpi.mpicc, "-O2", SOURCES / "tune_table.c", "-o", self.program], check=True)

    def judge(self, program, seconds):
        """Returns the ratios of a program, and the name of the best forced algorithm."""
        kind, operations, ranks, work = program
        name, _, size = operations.partition(":")
        forced = []
        if kind == "loop" and "," not in operations and ranks > 1:
            blocking = name.removeprefix("i")
            forced = [f"{blocking}={algorithm}" for algorithm in self.algorithms(blocking, size, ranks)]
        words = [kind, operations, work, seconds, seconds / 2 if kind == "loop" else 0, *forced]
        command = [str(word) for word in self.mpi.command(ranks, self.program, *words)]
        model = self.folder / "model"
        model.write_text("")
        done = subprocess.run(command, env={**self.mpi.env, "TUTTI_MODEL_FILE": str(model)}, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        *ratios, best = done.stdout.split()
        return [float(ratio) for ratio in ratios], forced[int(best) - 1] if int(best) else "untuned"


def row(table, program, seconds):
    """Prints a program's line. Returns its ratios; that to the best only where it counts."""
    kind, operations, ranks, work = program
    (learning, half, after, to_best), best = table.judge(program, seconds)
    is_single = kind == "loop" and "," not in operations and ranks > 1
    is_sum = operations.startswith(SUMS)
    last = f"{to_best:6.3f}{'*' if is_sum else ' '} ({best})" if is_single else ""
    print(f"{table.hosts} host(s) {ranks} ranks {kind:4} {operations[:34]:34} +{work:<6} {learning:6.3f} {half:6.3f} {after:6.3f} {last}", flush=True)
    return learning, after if kind == "loop" else None, to_best if is_single and not is_sum else None


def run(table, chosen, seconds, rows):
    rows.extend(row(table, program, seconds) for program in chosen)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="", help="programs whose line has this word")
    parser.add_argument("--no-hosts", action="store_true")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--seconds", type=float, default=0, help="of the first part of a program")
    options = parser.parse_args()
    seconds = options.seconds or (2 if options.short else 5)

    def chosen(hosts):
        found = [program for program in programs(hosts) if options.only in " ".join(map(str, program))]
        return found[::5] if options.short else found

    rows = []
    with tempfile.TemporaryDirectory() as name:
        run(Table(Mpi("tutti"), Path(name), 1), chosen(1), seconds, rows)
        if not options.no_hosts and chosen(4):
            if why := refusal():
                print(f"no hosts: {why}")
            else:
                testbed = Testbed(4, options.rate, share=[name])
                try:
                    for program in chosen(4):
                        run(Table(Cluster("tutti", testbed, program[2] // 4), Path(name), 4), [program], seconds, rows)
                finally:
                    testbed.down()
    learning, after, to_best = ([ratio for ratio in column if ratio is not None] for column in zip(*rows))
    print(f"{len(rows)} programs: on to off, mean {statistics.geometric_mean(learning):.3f}, worst {max(learning):.3f}")
    if after:
        print(f"{len(after)} loops afterwards: mean {statistics.geometric_mean(after):.3f}, worst {max(after):.3f}")
    if to_best:
        print(f"{len(to_best)} loops of one operation: at most 1.05 of the best forced in {100 * sum(ratio <= 1.05 for ratio in to_best) / len(to_best):.0f} %")


if __name__ == "__main__":
    main()
