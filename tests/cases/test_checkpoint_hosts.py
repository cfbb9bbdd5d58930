"""Jobs of several hosts that are kept and made again: on the same hosts, on fewer, on other addresses."""

import os
import shutil
import time

import pytest

from hosts import Cluster, Testbed, refusal
from keeping import PATIENCE, Gate, ends_kept, ends_right, instants
from keeping_hosts import begin, keep, lasting_on, restart

# Connections as they come: from the start, after some messages, none at all.
WAYS = {"static": {"TUTTI_CONNECTIONS": "static"}, "on demand": {"TUTTI_CONNECT_MESSAGES": "3"},
        "datagrams": {"TUTTI_CONNECTIONS": "never"},
        "multicast": {"TUTTI_MULTICAST": "on", "TUTTI_ALGORITHM": "bcast=multicast,allreduce=multicast"}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A directory that all hosts see."""
    folder = tmp_path_factory.mktemp("sets")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def beds(mpi, shared):
    """Two testbeds of four hosts: the second has other hosts, whose addresses differ."""
    if not mpi.is_tutti:
        pytest.skip("only Tutti keeps jobs")
    if why := refusal():
        pytest.skip(why)
    first, second = Testbed(4, share=[shared]), Testbed(4, share=[shared])
    yield Cluster(mpi.name, first, 2), Cluster(mpi.name, second, 2)
    first.down()
    second.down()


@pytest.fixture
def place(shared):
    """A directory of sets."""
    folder = shared / f"{time.time_ns()}"
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("way", WAYS)
def test_a_job_of_four_hosts_goes_on(beds, place, shared, way):
    """On the same hosts, on others, on two, on one; each restart is kept again, the first at once."""
    first, second = beds
    chance = instants(way)
    gate = Gate(shared / f"gate-{time.time_ns()}")
    program = first.compile("kept.c")
    rounds, expected, seconds = lasting_on(first, program, WAYS[way])
    job = begin(first, program, (rounds, "all"), place, {**WAYS[way], **gate.env})
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    time.sleep(chance.random() * seconds / 3)
    ends_kept(keep(first, job, "--stop"), job)
    chain = [(first, 4), (second, 4), (second, 2), (first, 1)]
    for cluster, hosts in chain * max(1, int(os.environ.get("INSTANTS", 4)) // len(chain)):
        job = restart(cluster, place, job, cluster.testbed.hosts[:hosts])
        time.sleep(chance.random() * seconds / 4)
        ends_kept(keep(cluster, job, "--stop"), job)
    gate.open()
    outcome = restart(first, place, job, first.testbed.hosts).wait(PATIENCE)
    assert ends_right(outcome, expected) and not outcome.err, outcome
    assert not first.testbed.idle(seconds=60) and not second.testbed.idle(seconds=60)
