"""Collectives between hosts that are multicast (S8): with loss, to deaf hosts, and where there is none."""

import os
import re
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import check
from hosts import Cluster

GROUPS = "ip daddr 239.0.0.0/8"
TABLE = "multicast"
ALGORITHMS = "bcast=multicast,barrier=multicast,allreduce=multicast,allgather=multicast"
FORCED = {"TUTTI_MULTICAST": "on", "TUTTI_ALGORITHM": ALGORITHMS, "TUTTI_COUNTERS": "1"}
# Number of random operations of a test. TUTTI_TEST_BROADCASTS=10000 sets more by hand.
MANY = int(os.environ.get("TUTTI_TEST_BROADCASTS", "0"))


@pytest.fixture(scope="module")
def four(tutti, hosts):
    """Creates four hosts with two ranks on each."""
    return Cluster(tutti.name, hosts(4), 2)


@pytest.fixture
def rules(four):
    """Filters the packets that reach hosts, by a rule of nftables. The rules are removed at the end."""

    def on(rule, names=None):
        for host in names or four.testbed.hosts:
            chain = f"chain input {{ type filter hook input priority 0; {rule}\n}}" if rule else ""
            text = f"add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{chain}\n}}\n"
            command = [str(word) for word in four.testbed.on(host, "nft", "-f", "-")]
            subprocess.run(command, input=text, text=True, check=True, timeout=60)

    yield on
    on("")


def counted(job, name):
    """Returns the sum over all ranks of the multicast counter of this name."""
    lines = re.findall(r"rank \d+: multicast (.*)", job.err)
    return sum(int(value) for line in lines for value in re.findall(rf"\b{name}=(\d+)", line))


def run(cluster, seed, broadcasts, *arguments, env=None, ranks=8):
    program = cluster.compile("multicast.c")
    arguments = (seed, max(broadcasts, MANY), *arguments)
    job = cluster.run(ranks, program, *arguments, env={**FORCED, **(env or {})}, seconds=200 + MANY)
    check(job)
    left = cluster.testbed.idle()
    assert not left, left
    return job


@pytest.mark.parametrize("window", ["2", "256"])
def test_random_broadcasts(four, window):
    job = run(four, 1, 100, 300000, 300, env={"TUTTI_MULTICAST_WINDOW": window})
    assert counted(job, "messages") > 100 and counted(job, "demoted") == 0


def test_long_blocks_take_turns(four):
    turns = ALGORITHMS.replace("allgather=multicast", "allgather=multicast_turns")
    assert counted(run(four, 8, 60, 300000, env={"TUTTI_ALGORITHM": turns}), "demoted") == 0


def test_sixteen_hosts(tutti, hosts):
    job = run(Cluster(tutti.name, hosts(16), 1), 9, 40, 60000, ranks=16)
    assert counted(job, "messages") > 20


def test_loss(four, rules):
    rules(f"{GROUPS} numgen random mod 100 < 10 drop")
    job = run(four, 2, 60, 200000)
    assert counted(job, "lacked") > 0 and counted(job, "repaired") > 0


def test_loss_of_everything(four, rules):
    rules("meta l4proto udp numgen random mod 100 < 10 drop")
    run(four, 3, 60, 50000)


@pytest.mark.parametrize("seed", range(int(os.environ.get("TUTTI_TEST_SEEDS", "1"))))
def test_lost_doubled_and_late(four, seed):
    """A tenth of all datagrams on each way is lost, a tenth comes twice, a tenth behind later ones."""
    for host in four.testbed.hosts:
        four.testbed.act("loss", host, 10, "--twice", 10, "--late", 10)
    try:
        job = run(four, 10 + seed, 60, 50000)
    finally:
        for host in four.testbed.hosts:
            four.testbed.act("loss", host, 0)
    assert counted(job, "again") > 0 and counted(job, "repaired") > 0


def test_no_multicast_at_all(four, rules):
    rules(f"{GROUPS} drop")
    assert counted(run(four, 4, 60, 100000), "messages") == 0


def test_one_host_is_deaf(four, rules):
    rules(f"{GROUPS} drop", ["n2"])
    run(four, 5, 60, 100000)


def test_multicast_dies_in_the_middle(four, rules):
    """The filter comes at a time of its own: results are right whenever that is."""
    timer = threading.Timer(1.0, rules, (f"{GROUPS} drop", ["n2", "n3"]))
    timer.start()
    try:
        run(four, 6, 150, 100000, 4000)
    finally:
        timer.join()


def test_no_room_for_messages(four):
    """Messages that no rank waits for yet are dropped if there is no room. In the end they come as ordinary
    messages."""
    run(four, 7, 60, 100000, 2000, env={"TUTTI_UNEXPECTED_BYTES": "4096"})


@pytest.mark.parametrize("filter", ["", f"{GROUPS} drop"], ids=["there", "not there"])
def test_members_agree_whatever_each_can_repeat(four, rules, filter):
    """The program does not ask for multicast. The ranks find out whether it pays, at the same operation
    everywhere."""
    rules(filter)
    program = four.compile("multicast_counts.c")
    job = four.run(8, program, 300, env={"TUTTI_COUNTERS": "1"}, seconds=100)
    check(job)
    assert (counted(job, "messages") > 100) == (not filter), job


def test_who_multicasts_nothing_has_no_thread(four):
    """Two hosts: there is nothing to be had of it, and nothing to pay for it."""
    program = four.compile("multicast_counts.c")
    job = four.begin(4, program, 100000, options=("--timeout", "100"))
    try:
        own = []
        for _ in range(100):
            own = [pid for _, pid, name in four.testbed.processes() if name == "multicast_count"]
            if len(own) == 4:
                break
            time.sleep(0.05)
        time.sleep(2)
        threads = "".join(file.read_text() for pid in own for file in Path(f"/proc/{pid}/task").glob("*/comm"))
    finally:
        job.process.terminate()
        job.wait(20)
    assert threads.count("multicast_count") >= 4 and "tutti-repairs" not in threads, threads
