"""Measures collectives between hosts (S8, S9): one line a figure, for docs/measurements.

usage: python net_figures.py s8|s9|chain|slow|loss [--hosts 4,8,16] [--rate 1gbit] [--per 1]
    [--rounds 100000] [--percent 10] [--only WORDS,...] [--peers mpich,openmpi]

The other libraries give the processor away while they wait, as hosts here share processors.
"""

import argparse
import re
import subprocess

from hosts import Cluster, Testbed
from hosts import peers as installed
from daemons import Daemons

MULTICAST = {"TUTTI_MULTICAST": "on", "TUTTI_OFFLOAD": "off"}
# Without the choice, which each rank simulates at the first operation of a shape.
AT_ONCE = {**MULTICAST, "TUTTI_ALGORITHM": "bcast=multicast"}
HOSTS = {"TUTTI_MULTICAST": "off", "TUTTI_OFFLOAD": "off"}
KERNEL = {"TUTTI_MULTICAST": "off", "TUTTI_OFFLOAD": "on"}
MIB = 1 << 20


def counters(testbed, way):
    """Returns the bytes that each host has sent (`tx`) or received (`rx`)."""
    file = f"/sys/class/net/eth0/statistics/{way}_bytes"
    read = [testbed.on(host, "cat", file) for host in testbed.hosts]
    done = [subprocess.run([str(word) for word in words], capture_output=True, text=True) for words in read]
    return [int(one.stdout) for one in done]


def figures(job):
    """Returns the lines that rank 0 has printed."""
    lines = [line for line in job.out.splitlines() if re.search(r" us | mean ", line)]
    return lines or [f"failed: {job}"]


class Bench:
    def __init__(self, hosts, rate, per, only=(), peers=()):
        self.testbed = Testbed(hosts, rate)
        self.hosts, self.per, self.only = hosts, per, only
        self.cluster = Cluster("tutti", self.testbed, per)
        self.program = self.cluster.compile("net_figures.c")
        self.peers = {name: mpi for name, mpi in installed(self.testbed, per).items() if name in peers}

    def wants(self, *words):
        """Returns true if the user asked for a measurement of these words."""
        return not self.only or any(str(word) in self.only for word in words)

    def rows(self, words, ways):
        """Prints a line for each of Tutti's paths and for each other library."""
        for name, env in ways:
            say(self.hosts, name, *figures(self.run(*words, env=env)))
        for name, mpi in self.peers.items():
            job = mpi.run(self.hosts * self.per, mpi.compile("net_figures.c"), *words, seconds=60)
            say(self.hosts, name, *figures(job))

    def run(self, *words, env=None, seconds=100):
        return self.cluster.run(self.hosts * self.per, self.program, *words, env=env, seconds=seconds)

    def end(self):
        self.testbed.down()


def say(*words):
    print(*words, flush=True)


def bytes_of(bench, size):
    """Returns a line with the bytes that the root and all hosts send in one broadcast, divided by its
    payload."""
    sent = []
    for words in (("once", 8), ("once", size)):
        before = counters(bench.testbed, "tx")
        bench.run(*words, env=AT_ONCE)
        sent.append([after - then for then, after in zip(before, counters(bench.testbed, "tx"))])
    more = [large - small for small, large in zip(*sent)]
    return f"bytes {size}: root {more[0] / size:.3f} all {sum(more) / size:.3f}"


def s8(bench):
    for size in (MIB, 64 * MIB) if bench.wants("bytes") else ():
        say(bench.hosts, bytes_of(bench, size))
    loops = (("bcast", 8, 400), ("bcast", 65536, 100), ("bcast", MIB, 15), ("fixed", 65536, 100), ("fixed", MIB, 15))
    for words in (*loops, ("bcast", 16 * MIB, 2), ("once", 64 * MIB)):
        if bench.wants(*words[:2]):
            multicast = AT_ONCE if words[0] == "once" else MULTICAST
            bench.rows(words, (("multicast", multicast), ("hosts", HOSTS)))
    for window in ("2", "64") if bench.wants("window") else ():
        env = {**AT_ONCE, "TUTTI_MULTICAST_WINDOW": window}
        say(bench.hosts, f"window {window}", *figures(bench.run("fixed", 64, 2000, env=env)))


def slow(bench):
    """Limits one host to a tenth of the rate of the others."""
    bench.testbed.slow_down("n1", "100mbit")
    for words in (("bcast", 65536, 50), ("fixed", 65536, 50), ("fixed", MIB, 5)):
        bench.rows(words, (("multicast", MULTICAST), ("chosen", {}), ("hosts", HOSTS)))


def s9(bench):
    daemons = Daemons(bench.testbed)
    try:
        for words in (("barrier", 1000), ("skew", 64, 1200, 300), ("skew", 64, 0, 300), ("bcast", 64, 1000)):
            if bench.wants(words[0]):
                bench.rows(words, (("kernel", KERNEL), ("hosts", HOSTS), ("multicast", MULTICAST)))
        threaded = {"TUTTI_PROGRESS_THREAD": "1"}
        for name, env in (("kernel, thread", KERNEL), ("hosts, thread", HOSTS)) if bench.wants("thread") else ():
            say(bench.hosts, name, *figures(bench.run("skew", 64, 1200, 300, env={**env, **threaded})))
    finally:
        daemons.end()
    if bench.wants("allgather"):
        ring = {**HOSTS, "TUTTI_ALGORITHM": "allgather=ring"}
        bench.rows(("allgather", 16384, 50), (("multicast", MULTICAST), ("hosts", HOSTS), ("ring", ring)))


def chain(bench):
    """Measures a hop of a broadcast along all hosts: in the kernel, through processes that poll, and through
    processes that sleep."""
    daemons = Daemons(bench.testbed)
    along = {"TUTTI_ALGORITHM": "bcast=kary:radix=1"}
    asleep = {"TUTTI_SPIN_US": "0", "TUTTI_DEBUG": "yield_rounds=0"}
    try:
        say(bench.hosts, "kernel", *figures(bench.run("chain", 100, 1, env={**KERNEL, **along})))
        say(bench.hosts, "looking", *figures(bench.run("chain", 100, 0, env={**HOSTS, **along})))
        say(bench.hosts, "asleep", *figures(bench.run("chain", 100, 0, env={**HOSTS, **along, **asleep})))
    finally:
        daemons.end()


def loss(bench, rounds, percent):
    """Barriers in the kernel, some packets lost."""
    daemons = Daemons(bench.testbed)
    for host in bench.testbed.hosts:
        bench.testbed.act("loss", host, percent)
    try:
        env = {**KERNEL, "TUTTI_SILENCE_MS": "30000"}
        say(bench.hosts, "loss", *figures(bench.run("longest", rounds, 1000, env=env, seconds=1000)))
    finally:
        daemons.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["s8", "s9", "chain", "slow", "loss"])
    parser.add_argument("--hosts", default="4,8,16")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--per", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100000)
    parser.add_argument("--percent", type=float, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--peers", default="")
    given = parser.parse_args()
    only, peers = (list(filter(None, words.split(","))) for words in (given.only, given.peers))
    for hosts in given.hosts.split(","):
        bench = Bench(int(hosts), given.rate if given.name in ("s8", "slow") else "", given.per, only, peers)
        measures = {"s8": s8, "s9": s9, "chain": chain, "slow": slow, "loss": lambda bench: loss(bench, given.rounds, given.percent)}
        try:
            measures[given.name](bench)
        finally:
            bench.end()


if __name__ == "__main__":
    main()
