"""`make overlap`: from sequential C to MPI that hides its communication, on shaped hosts: a table, two time
lines.

For each kernel: the sequential program translated by `tutti overlap --measure`, once as it is and once with
`--no-overlap`, and the same kernel written by hand with an exchange in each step
(tests/programs/overlap_by_hand.c); all compute the same bits. Times are of the whole region, with filling,
tuning and gathering. Each host has its share of the processors (a control group) and a link of its own rate.
Then the traces of one kernel without and with overlap, drawn by `tutti trace`. With `--node N` it is N ranks
of this host instead, and only the table.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from harness import ROOT, SOURCES, Mpi
from hosts import Cluster, Testbed, refusal
from stencils import FLAGS, TOOL, translate

# Kernel, size, steps, rate of each link. Sizes and rates are such that communicating alone takes about as
# long as computing alone, where hosts can send that fast (not of fdtd-2d, heat-2d and heat-3d). By hand,
# kernels in one dimension run a tenth of the steps, and count ten times: each step waits for a message.
KERNELS = [
    ("fdtd-1d", 40_000, 120_000, "24mbit"),
    ("jacobi-1d", 40_000, 120_000, "50mbit"),
    ("seidel-2d", 800, 1500, "300mbit"),
    ("adi-2d", 800, 1500, "600mbit"),
    ("heat-2d", 700, 2400, "1000mbit"),
    ("fdtd-2d", 700, 1600, "1000mbit"),
    ("heat-3d", 150, 200, "2000mbit"),
]
GROUPS = Path("/sys/fs/cgroup/cpu")


class Node:
    """Ranks of this host, which share its processors as they are."""

    groups, step_factor = [], 1

    def __init__(self, count, folder):
        self.count, self.folder, self.mpi = count, folder, Mpi("tutti")
        self.start = "env"

    def shape(self, rate):
        """Nothing is between them."""

    def run(self, program, *arguments, env=None, output=None):
        """Runs a program with standard output to a file, and returns its standard error."""
        output = output or self.folder / "output"
        words = self.mpi.command(self.count, self.start, program, *arguments)
        with open(output, "wb") as out:
            done = subprocess.run([str(word) for word in words], stdout=out, stderr=subprocess.PIPE, env={**self.mpi.env, **(env or {})}, timeout=300)
        assert done.returncode == 0, done.stderr.decode()
        return done.stderr.decode()

    def down(self):
        """Nothing is left."""


class Hosts(Node):
    """Hosts with one rank each, each with its share of the processors."""

    step_factor = 10

    def __init__(self, count, folder, is_shared):
        self.count, self.folder = count, folder
        self.testbed = Testbed(count, "", share=[folder])
        self.mpi = Cluster("tutti", self.testbed, 1)
        self.groups = []
        if is_shared and count > os.cpu_count() and os.access(GROUPS, os.W_OK):
            self.groups = [GROUPS / f"overlap-{os.getpid()}-{host}" for host in self.testbed.hosts]
        for group in self.groups:
            group.mkdir()
            # Short periods: a host computes at its rate in each of them. A quarter is left to the processes
            # that transfer the messages.
            period = int(1000 / self.share())
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text("1000")
        self.start = folder / "start"
        enter = f"echo $$ > {GROUPS}/overlap-{os.getpid()}-$(hostname)/cgroup.procs\n" if self.groups else ""
        self.start.write_text(f"#!/bin/sh\n{enter}exec \"$@\"\n")
        self.start.chmod(0o755)

    def share(self):
        """Returns the share of the processors that each host gets, where hosts share them."""
        return Fraction(3 * os.cpu_count(), 4 * self.count)

    def shape(self, rate):
        """Shapes the links with small bursts, so that a link does not save up what it did not send during
        computation."""
        for host in self.testbed.hosts:
            words = f"tc qdisc replace dev eth0 root tbf rate {rate} burst 3200 latency 400ms".split()
            subprocess.run(self.testbed.on(host, *words), check=True)

    def down(self):
        self.testbed.down()
        for group in self.groups:
            group.rmdir()


def build(mpi, folder, kernel, *options):
    """Builds the program of a kernel."""
    target = folder / f"{kernel}{''.join(options)}.c"
    refused = translate(SOURCES / "overlap" / f"{kernel}.c", target, *options)
    assert not refused, refused
    return compiled(mpi.mpicc, target, target.with_suffix(""))


def compiled(compiler, source, program):
    subprocess.run([compiler, *FLAGS, "-O3", source, "-o", program, "-lm"], check=True)
    return program


def numbers(text):
    """Returns the table that a measured program prints, as a dictionary."""
    return {name: float(value) for name, value in re.findall(r"^(T_\w+|ROR) +(-?[0-9.]+)", text, re.M)}


def least(runs):
    return min(runs, key=lambda one: one["T_exec"])


def compare(hosts, kernel, size, steps, rate, repeats):
    """Measures a kernel at one rate of the links and prints its line of the table."""
    folder = hosts.folder
    hosts.shape(rate)
    sequential = compiled("cc", SOURCES / "overlap" / f"{kernel}.c", folder / "sequential")
    expected = subprocess.run([sequential, str(size), str(steps)], capture_output=True).stdout
    output = folder / "output"
    by_hand = compiled(hosts.mpi.mpicc, SOURCES / "overlap_by_hand.c", folder / "by-hand")
    waiting, overlapped = (build(hosts.mpi, folder, kernel, "--measure", *more) for more in (["--no-overlap"], []))
    found, way = {"hand": [], "waiting": [], "overlapped": []}, ""
    for _ in range(repeats):
        for name, words in (("hand", [by_hand, kernel]), ("waiting", [waiting]), ("overlapped", [overlapped])):
            fewer = hosts.step_factor if name == "hand" and kernel.endswith("1d") else 1
            text = hosts.run(*words, size, steps // fewer)
            assert fewer > 1 or output.read_bytes() == expected, f"{kernel}: {name} has other results"
            found[name].append(numbers(text))
            found[name][-1]["T_exec"] *= fewer
            way = re.sub(r".*overlap: ((?:tiles|step by)[^\n]*).*", r"\1", text, flags=re.S)
    hand, waiting, overlapped = (least(found[name]) for name in ("hand", "waiting", "overlapped"))
    computed = min(waiting["T_comp"], overlapped["T_comp"])
    best = min(hand["T_exec"], waiting["T_exec"])
    # Cost that communication adds to the best version that waits for it.
    ratio = best / computed - 1
    gain = 100 * (1 - overlapped["T_exec"] / best)
    hidden = 100 * (best - overlapped["T_exec"]) / min(computed, best - computed) if best > computed else 0
    print(f"{kernel:10} {rate:>8} {hand['T_exec']:8.3f} {waiting['T_exec']:8.3f} {computed:8.3f} {ratio:6.2f} {overlapped['T_comm']:8.3f} "
          f"{overlapped['T_exec']:8.3f} {gain:5.0f}% {overlapped['ROR']:5.0f}% {hidden:5.0f}%  {way}", flush=True)


def beside_devito(hosts, python, size, steps, rate, repeats):
    """Compares heat-2d by `tutti overlap` with Devito, whose mode `full` computes while halos travel."""
    hosts.shape(rate)
    program = build(hosts.mpi, hosts.folder, "heat-2d", "--measure")
    library = hosts.mpi.prefix / "lib" / "libmpi_abi.so.1"
    found = {"tutti overlap": [], "Devito basic": [], "Devito full": []}
    for _ in range(repeats):
        found["tutti overlap"].append(numbers(hosts.run(program, size, steps))["T_exec"])
        for mode in ("basic", "full"):
            env = {"DEVITO_MPI": mode, "MPI4PY_MPIABI": "mpiabi", "MPI4PY_LIBMPI": str(library), "TMPDIR": str(hosts.folder),
                   "PATH": f"{hosts.mpi.prefix / 'bin'}:{os.environ['PATH']}"}
            hosts.run(python, ROOT / "tests" / "figures" / "devito_heat.py", size, steps, env=env)
            found[f"Devito {mode}"].append(float((hosts.folder / "output").read_text().split()[-1]))
    print(f"heat-2d {size}^2, {steps} steps, {rate}: " + ", ".join(f"{name} {min(times):.3f} s" for name, times in found.items()), flush=True)


def time_lines(hosts, where, kernel, size, steps, rate):
    """Draws a kernel without and with overlap."""
    hosts.shape(rate)
    few = min(steps, 120)
    for more, name in ((["--no-overlap"], "waiting"), ([], "overlapped")):
        program = build(hosts.mpi, hosts.folder, kernel, *more)
        trace = where / f"{name}.json"
        env = {"TUTTI_TRACE": str(trace), "OVERLAP_SPAN": "0", "OVERLAP_HEIGHT": "8", "OVERLAP_WIDTH": "8"}
        hosts.run(program, size, few, env=env)
        subprocess.run([TOOL, "trace", trace, "--svg", where / f"{name}.svg"], check=True, timeout=60)
    print(f"time lines of {kernel}, {few} steps on {hosts.count} hosts: without overlap {where / 'waiting.svg'}, with overlap {where / 'overlapped.svg'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--node", type=int, help="instead of hosts: so many ranks of this one")
    parser.add_argument("--rate", help="another rate for all")
    parser.add_argument("--steps", type=float, default=1, help="so many times the steps")
    parser.add_argument("--only", help="one kernel")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lines", help="only the time lines, of this kernel")
    parser.add_argument("--no-lines", action="store_true", help="only the table")
    parser.add_argument("--devito", help="instead: heat-2d beside Devito, of the virtual environment of this Python")
    parser.add_argument("--whole", action="store_true", help="hosts take what they get of the processors")
    options = parser.parse_args()
    if not options.node and (why := refusal()):
        sys.exit(f"overlap: {why}")
    where = ROOT / "build" / "overlap"
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        hosts = Node(options.node, Path(name)) if options.node else Hosts(options.hosts, Path(name), not options.whole)
        try:
            share = f"each {hosts.share()} of a processor" if hosts.groups else f"{os.cpu_count()} processors in all"
            if options.devito:
                return beside_devito(hosts, Path(options.devito).absolute(), 1000, int(1500 * options.steps), options.rate or "100mbit", options.repeats)
            print(f"{options.node or options.hosts} {'ranks' if options.node else 'hosts'}, {share}; seconds, least of {options.repeats}; `added` is what communication adds to the best that waits")
            print(f"{'kernel':10} {'rate':>8} {'by hand':>8} {'waiting':>8} {'T_comp':>8} {'added':>6} {'T_comm':>8} {'T_exec':>8} {'gain':>6} {'ROR':>6} {'hidden':>6}  way")
            for kernel, size, steps, rate in KERNELS:
                if options.only not in (None, kernel) or options.lines:
                    continue
                compare(hosts, kernel, size, int(steps * options.steps), options.rate or rate, options.repeats)
            if not options.no_lines and not options.node:
                of = options.lines or options.only or "seidel-2d"
                time_lines(hosts, where, *next(one for one in KERNELS if one[0] == of))
        finally:
            hosts.down()


if __name__ == "__main__":
    main()
