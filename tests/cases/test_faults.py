"""Faults that end a job on several hosts, and faults that do not: lost hosts and launchers, cables cut for a
moment and for good."""

import os
import signal
import time

import pytest

from harness import by_age
from hosts import Cluster

# The launcher is to give up a host that is silent for so long; the others end at the same time.
SILENCE_SECONDS = 5


@pytest.fixture(scope="module")
def four(hosts):
    """Creates four hosts that come back after each fault."""
    return hosts(4)


@pytest.fixture
def cluster(tutti, four):
    """Puts two ranks on each host, and restores every host afterwards."""
    yield Cluster(tutti.name, four, 2)
    for host in four.hosts[1:]:
        four.act("join", host, check=False)


def begin(cluster, seconds, options=()):
    """Starts a job of eight ranks that sleep, and waits until all of them do."""
    job = cluster.begin(8, "sh", "-c", f"echo ready; sleep {seconds}", options=["--radix", "2", *options],
                        env={"TUTTI_SILENCE_MS": str(1000 * SILENCE_SECONDS)})
    assert job.until(lambda out, _: out.count("ready") == 8), job.errors()
    return job


def finish(job, seconds):
    """Waits for the end and returns exit status and output. Remaining processes are left alone."""
    status = job.process.wait(seconds)
    return status, job.errors()


def ranks_left(testbed, seconds=10):
    """Returns the ranks and daemons that still run after some time, when none should."""
    limit = time.monotonic() + seconds
    while True:
        left = [entry for entry in testbed.processes() if entry[2] in ("sleep", "sh", "mpirun", "tutti-node")]
        if not left or time.monotonic() > limit:
            return left
        time.sleep(0.1)


@pytest.mark.parametrize("fault, host", [("kill", "n1"), ("cut", "n1"), ("kill", "n3"), ("cut", "n3")])
def test_a_lost_host_is_named_and_the_others_end(cluster, four, fault, host):
    job = begin(cluster, 1000)
    four.act(fault, host)
    said = f"mpirun: host {host} is lost: nothing was heard of it for {SILENCE_SECONDS} s (TUTTI_SILENCE_MS); the job was ended\n"
    assert finish(job, SILENCE_SECONDS + 15) == (1, said)
    # The daemon of a host that was cut off, and those below it, notice by themselves.
    assert not ranks_left(four)


def test_a_cable_cut_for_a_second_is_survived(cluster, four):
    job = begin(cluster, 5)
    four.act("cut", "n1")
    time.sleep(1)
    four.act("join", "n1")
    assert finish(job, 30) == (0, "")
    assert not ranks_left(four)


def test_nothing_outlives_a_killed_launcher(cluster, four):
    begin(cluster, 1000)
    launcher = by_age(pid for host, pid, name in four.processes() if host == "n0" and name == "mpirun")[0]
    os.kill(launcher, signal.SIGKILL)
    assert not ranks_left(four)


def test_a_killed_daemon_ends_the_job_at_once(cluster, four):
    job = begin(cluster, 1000)
    daemon = next(pid for host, pid, name in four.processes() if host == "n2" and name == "tutti-node")
    os.kill(daemon, signal.SIGKILL)
    said = "mpirun: host n2 is lost: the launcher's daemon on it has ended; the job was ended\n"
    assert finish(job, 30) == (1, said)
    assert not ranks_left(four)
