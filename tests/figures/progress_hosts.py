"""Measures how much of a non-blocking collective is hidden behind computation that calls no MPI, on shaped
hosts (S11): Tutti, MPICH and Open MPI, each without and with its progress thread.

usage: python tests/figures/progress_hosts.py [--rates 200mbit,1gbit] [--bytes 64K,1M] [--operations NAME,...]
    [--libraries NAME,...] [--seconds S] [--repeats N]

Four hosts of one rank each (tests/programs/progress_ror.c). The computation takes as long as the operation
alone; ROR is the share of the shorter of both that was hidden (barigou-2016, chapter 4). As the hosts share
processors that all compute, what the operation itself takes of them cannot be hidden: "of" is about the most
that can be (the looks of who waits are in it). Libraries in shuffled order; the median of all repeats counts.
Open MPI gives the processor away while it waits.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys

from hosts import Cluster, Testbed, peers, refusal

OPERATIONS = ["bcast", "allreduce", "alltoall", "allgather"]
THREADED = {"TUTTI_PROGRESS_THREAD": "1"}


def libraries(testbed):
    """Returns by name: the library, options of its launcher, and the settings that start its progress
    thread."""
    tutti = Cluster("tutti", testbed, 1)
    found = {"tutti": (tutti, (), {}), "tutti-thread": (tutti, (), THREADED)}
    others = peers(testbed, 1)
    if mpich := others.get("mpich"):
        found |= {"mpich": (mpich, (), {}), "mpich-thread": (mpich, (), {"MPIR_CVAR_ASYNC_PROGRESS": "1"})}
    if openmpi := others.get("openmpi"):
        found |= {"openmpi": (openmpi, (), {}), "openmpi-thread": (openmpi, ("--mca", "btl_tcp_progress_thread", "1"), {})}
    return found


def measure(library, words):
    """Returns the seconds and ROR of a run, or the reason why there are none."""
    mpi, options, env = library
    command = [str(word) for word in mpi.command(4, mpi.compile("progress_ror.c"), *words, options=options)]
    try:
        done = subprocess.run(command, env={**mpi.env, **env}, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "no end in 60 s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return [float(word) for word in done.stdout.split()[-5:]]


def row(found, operation, size, rate, options):
    """Prints a line: for each library T_comm in milliseconds, ROR and about the greatest possible ROR."""
    runs, failed = {name: [] for name in found}, {}
    for _ in range(options.repeats):
        for name in random.sample(sorted(found), len(found)):
            got = measure(found[name], [operation, size, options.seconds])
            if isinstance(got, str):
                failed[name] = got
            else:
                runs[name].append(got)
    cells = []
    for name, values in runs.items():
        middle = [statistics.median(column) for column in zip(*values)]
        if not middle:
            cells.append(f"{name} -")
            continue
        most = 1 - middle[4] / (len(os.sched_getaffinity(0)) * middle[0])
        cells.append(f"{name} {middle[0] / 1e3:.2f} ms {100 * middle[3]:.0f} of {100 * most:.0f} %")
    print(f"i{operation} {size >> 10} KiB {rate}: {'; '.join(cells)}", flush=True)
    for name, why in failed.items():
        print(f"  {name}: {why}", flush=True)


def size_of(word):
    """Returns the bytes of a text such as 64K or 1M."""
    return int(word.rstrip("KM")) << {"K": 10, "M": 20}.get(word[-1], 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", default="200mbit,1gbit")
    parser.add_argument("--bytes", default="64K,1M")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--libraries", default="")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if why := refusal():
        sys.exit(f"progress_hosts: {why}")
    for rate in options.rates.split(","):
        testbed = Testbed(4, rate)
        try:
            found = libraries(testbed)
            wanted = options.libraries.split(",") if options.libraries else list(found)
            found = {name: library for name, library in found.items() if name in wanted}
            print(f"4 hosts of one rank, {rate}; T_comm and ROR, median of {options.repeats}", flush=True)
            for operation in options.operations.split(","):
                for size in map(size_of, options.bytes.split(",")):
                    row(found, operation, size, rate, options)
        finally:
            testbed.down()


if __name__ == "__main__":
    main()
