"""Jobs of several hosts that are kept and made again: on the same hosts, on fewer, on other addresses."""

import os
import shutil
import time

import pytest

from daemons import Daemons
from hosts import Cluster, Testbed, refusal
from keeping import PATIENCE, Gate, ends_kept, ends_right, instants, kept
from keeping_hosts import ask, begin, keep, lasting_on, restart

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


def test_a_job_beside_netd_is_kept(beds, place, shared):
    """By default it does without netd if it was started to write checkpoints; otherwise the message names netd."""
    cluster = Cluster(beds[0].name, beds[0].testbed, 1)
    gate = Gate(shared / f"gate-{time.time_ns()}")
    program = cluster.compile("kept.c")
    rounds, expected, _ = lasting_on(cluster, program, ranks=2)
    daemons = Daemons(cluster.testbed, ())
    try:
        job = begin(cluster, program, (rounds, "all"), place, env=gate.env, ranks=2)
        assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
        ends_kept(keep(cluster, job, "--stop"), job)
        gate.open()
        outcome = restart(cluster, place, job, cluster.testbed.hosts[:2]).wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
        gate.close()
        words = [cluster.mpirun, *cluster.place(2), "-n", 2, program, rounds, "all"]
        job = cluster.launch(words, env=gate.env)
        assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
        done = kept(lambda: ask(cluster, job, "--dir", shared / "beside"), job)
        assert done.returncode == 1 and "a connection of Tutti's own with `tutti netd`" in done.stderr, done
        gate.open()
        outcome = job.wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
    finally:
        daemons.end()


# Adds the numbers that it reads, one a line; waits for a file in the middle, and at the end.
SUMS = """
import os, sys, time
def wait():
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.005)
total, last = 0, int(sys.argv[2])
for line in sys.stdin:
    total += int(line)
    if int(line) == last // 2:
        print("half", flush=True)
        wait()
wait()
print("sum", total, flush=True)
"""


def test_the_input_of_a_rank_on_another_host_is_continued(beds, place, shared):
    """What mpirun has read ahead and the rank has not is read again."""
    cluster, last = Cluster(beds[0].name, beds[0].testbed, 1), 100000
    gate, program, file = Gate(shared / f"gate-{time.time_ns()}"), shared / "sums.py", shared / "numbers"
    program.write_text(SUMS)
    file.write_text("".join(f"{number}\n" for number in range(1, last + 1)))
    words = [cluster.mpirun, *cluster.place(2), "--stdin", 1, "--checkpoint-dir", place, "-n", 2, "python3",
             program, gate.path, last]
    with file.open() as stdin:
        job = cluster.launch(words, stdin=stdin)
        assert job.until(lambda out, err: "half" in out, PATIENCE), job.errors()
        ends_kept(keep(cluster, job, "--stop"), job)
    gate.open()
    where = ["--agent", cluster.testbed.agent, "--host", ",".join(cluster.testbed.hosts[:2])]
    with file.open() as stdin:
        words = [cluster.mpirun, *where, "--restart", place]
        outcome = cluster.launch(words, stdin=stdin, mark=job.mark).wait(PATIENCE)
    assert outcome.status == 0 and f"sum {last * (last + 1) // 2}" in outcome.out, outcome
