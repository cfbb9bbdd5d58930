"""Measures collectives between hosts (S8, S9): one line a figure, for docs/measurements.md.

usage: python net_figures.py s8|s9|loss [--hosts 4,8,16] [--rate 1gbit] [--per 1] [--rounds 100000]
"""

import argparse
import re
import subprocess

from hosts import Cluster, Testbed
from test_offload import Daemons

MULTICAST = {"TUTTI_MULTICAST": "on", "TUTTI_OFFLOAD": "off"}
HOSTS = {"TUTTI_MULTICAST": "off", "TUTTI_OFFLOAD": "off"}
KERNEL = {"TUTTI_MULTICAST": "off", "TUTTI_OFFLOAD": "on"}
MIB = 1 << 20


def counters(testbed, way):
    """Bytes that each host has sent (`tx`) or got (`rx`)."""
    file = f"/sys/class/net/eth0/statistics/{way}_bytes"
    read = [testbed.on(host, "cat", file) for host in testbed.hosts]
    done = [subprocess.run([str(word) for word in words], capture_output=True, text=True) for words in read]
    return [int(one.stdout) for one in done]


def figures(job):
    """The lines that rank 0 has printed."""
    lines = [line for line in job.out.splitlines() if re.search(r" us | mean ", line)]
    return lines or [f"failed: {job}"]


class Bench:
    def __init__(self, hosts, rate, per, mpi="tutti"):
        self.testbed = Testbed(hosts, rate)
        self.hosts, self.per = hosts, per
        self.cluster = Cluster(mpi, self.testbed, per)
        self.program = self.cluster.compile("net_figures.c")

    def run(self, *words, env=None, seconds=100):
        return self.cluster.run(self.hosts * self.per, self.program, *words, env=env, seconds=seconds)

    def end(self):
        self.testbed.down()


def say(*words):
    print(*words, flush=True)


def bytes_of(bench, size):
    """What the root sends and all hosts send, over the payload: one broadcast less none."""
    sent = []
    for words in (("once", 8), ("once", size)):
        before = counters(bench.testbed, "tx")
        bench.run(*words, env={**MULTICAST, "TUTTI_ALGORITHM": "bcast=multicast"})
        sent.append([after - then for then, after in zip(before, counters(bench.testbed, "tx"))])
    more = [large - small for small, large in zip(*sent)]
    return f"bytes {size}: root {more[0] / size:.3f} all {sum(more) / size:.3f}"


def s8(bench):
    for size in (MIB, 64 * MIB):
        say(bench.hosts, bytes_of(bench, size))
    loops = (("bcast", 8, 400), ("bcast", 65536, 100), ("bcast", MIB, 15), ("fixed", 65536, 100), ("fixed", MIB, 15))
    for words in (*loops, ("bcast", 16 * MIB, 2), ("once", 64 * MIB)):
        for name, env in (("multicast", MULTICAST), ("hosts", HOSTS)):
            say(bench.hosts, name, *figures(bench.run(*words, env=env)))
    for window in ("2", "64"):
        env = {**MULTICAST, "TUTTI_ALGORITHM": "bcast=multicast", "TUTTI_MULTICAST_WINDOW": window}
        say(bench.hosts, f"window {window}", *figures(bench.run("fixed", 64, 2000, env=env)))


def s9(bench):
    daemons = Daemons(bench.testbed)
    try:
        for words in (("barrier", 1000), ("skew", 64, 1200, 300), ("skew", 64, 0, 300), ("bcast", 64, 1000)):
            for name, env in (("kernel", KERNEL), ("hosts", HOSTS), ("multicast", MULTICAST)):
                say(bench.hosts, name, *figures(bench.run(*words, env=env)))
        threaded = {"TUTTI_PROGRESS_THREAD": "1"}
        for name, env in (("kernel, thread", KERNEL), ("hosts, thread", HOSTS)):
            say(bench.hosts, name, *figures(bench.run("skew", 64, 1200, 300, env={**env, **threaded})))
    finally:
        daemons.end()
    for name, env in (("multicast", MULTICAST), ("hosts", HOSTS)):
        say(bench.hosts, name, *figures(bench.run("allgather", 16384, 50, env=env)))
    ring = {**HOSTS, "TUTTI_ALGORITHM": "allgather=ring"}
    say(bench.hosts, "ring", *figures(bench.run("allgather", 16384, 50, env=ring)))


def loss(bench, rounds):
    """Barriers in the kernel, a tenth of the packets lost."""
    daemons = Daemons(bench.testbed)
    for host in bench.testbed.hosts:
        bench.testbed.act("loss", host, 10)
    try:
        env = {**KERNEL, "TUTTI_SILENCE_MS": "30000"}
        say(bench.hosts, "loss", *figures(bench.run("longest", rounds, 1000, env=env, seconds=1000)))
    finally:
        daemons.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=["s8", "s9", "loss"])
    parser.add_argument("--hosts", default="4,8,16")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--per", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100000)
    given = parser.parse_args()
    for hosts in given.hosts.split(","):
        bench = Bench(int(hosts), given.rate if given.name == "s8" else "", given.per)
        try:
            {"s8": s8, "s9": s9, "loss": lambda bench: loss(bench, given.rounds)}[given.name](bench)
        finally:
            bench.end()


if __name__ == "__main__":
    main()
