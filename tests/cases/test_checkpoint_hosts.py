"""Jobs of several hosts that are kept and made again: on the same hosts, on fewer, on other addresses."""

import os
import shutil
import time

import pytest

from daemons import Daemons
from hosts import Cluster, Testbed, refusal
from keeping import PATIENCE, Gate, checksum, ends_kept, ends_right, instants, kept, lasting
from keeping_hosts import ask, begin, keep, lasting_on, restart

# Connections as they come: from the start, after some messages, none at all.
WAYS = {"static": {"TUTTI_CONNECTIONS": "static"}, "on demand": {"TUTTI_DEBUG": "connect_messages=3"},
        "datagrams": {"TUTTI_CONNECTIONS": "never"},
        "multicast": {"TUTTI_MULTICAST": "on", "TUTTI_ALGORITHM": "bcast=multicast,allreduce=multicast"}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Creates a directory that all hosts see."""
    folder = tmp_path_factory.mktemp("sets")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def beds(mpi, shared):
    """Creates two testbeds of four hosts. The second has other hosts, whose addresses differ."""
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
    """Creates a directory of sets."""
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


@pytest.fixture
def netd(beds):
    """Returns both testbeds with one rank per host, and `tutti netd` on all of their hosts."""
    daemons = []
    try:
        for cluster in beds:
            daemons.append(Daemons(cluster.testbed, ()))
        yield [Cluster(cluster.name, cluster.testbed, 1) for cluster in beds]
    finally:
        for one in daemons:
            one.end()


def begin_beside_netd(cluster, program, rounds, env, ranks=4):
    """Starts a job whose collectives the kernel performs. `auto` would give that up if netd were slow."""
    words = [cluster.mpirun, *cluster.place(ranks), "-n", ranks, program, rounds, "kernel"]
    job = cluster.launch(words, env={"TUTTI_EXPLAIN": "1", "TUTTI_OFFLOAD": "on", **env})
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    assert "the kernel does small collectives of communicator 0" in job.errors(), job.errors()
    return job


def lasting_beside_netd(cluster, program):
    def measure(rounds):
        outcome = cluster.run(4, program, rounds, "kernel", seconds=PATIENCE)
        assert outcome.status == 0, outcome
        return checksum(outcome.out), outcome.seconds
    return lasting(measure, 200, 1)


def test_a_job_whose_collectives_the_kernel_does_goes_on(netd, place, shared):
    """On the same hosts and on others; it is kept while it goes on, and with losses."""
    first, second = netd
    chance, gate = instants("netd"), Gate(shared / f"gate-{time.time_ns()}")
    program = first.compile("kept.c")
    rounds, expected, seconds = lasting_beside_netd(first, program)
    job = begin_beside_netd(first, program, rounds, gate.env)
    for host in first.testbed.hosts:
        first.testbed.act("loss", host, 5)
    try:
        for options in ((), ("--stop",)):
            time.sleep(chance.random() * seconds / 3)
            done = kept(lambda: ask(first, job, "--dir", place, *options), job)
            assert done.returncode == 0, done
        ends_kept(done, job)
        for cluster in [second, first] * max(1, int(os.environ.get("INSTANTS", 4)) // 2):
            job = restart(cluster, place, job, cluster.testbed.hosts)
            time.sleep(chance.random() * seconds / 3)
            ends_kept(keep(cluster, job, "--stop"), job)
        gate.open()
        outcome = restart(second, place, job, second.testbed.hosts).wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
    finally:
        for host in first.testbed.hosts:
            first.testbed.act("loss", host, 0)


def test_without_netd_such_a_job_says_why_it_does_not_go_on(netd, place, shared):
    """On fewer hosts than before; a job that was started to write checkpoints goes on there, as it has no
    netd."""
    first, gate = netd[0], Gate(shared / f"gate-{time.time_ns()}")
    program = first.compile("kept.c")
    job = begin_beside_netd(first, program, 1000, gate.env)
    ends_kept(kept(lambda: ask(first, job, "--dir", place, "--stop"), job), job)
    gate.open()
    outcome = restart(first, place, job, first.testbed.hosts[:2]).wait(PATIENCE)
    assert outcome.status not in (0, None) and not outcome.left, outcome
    assert "restart the job on as many hosts as it had" in outcome.err, outcome
    outcome = restart(first, place, job, first.testbed.hosts).wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out), outcome
    gate.close()
    shutil.rmtree(place)
    job = begin(first, program, (1000, "kernel"), place, {**gate.env, "TUTTI_EXPLAIN": "1"}, ranks=4)
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    assert "the kernel does small" not in job.errors(), job.errors()
    ends_kept(keep(first, job, "--stop"), job)
    gate.open()
    outcome = restart(first, place, job, first.testbed.hosts[:2]).wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out), outcome


def test_files_over_io_servers_go_on_on_other_hosts(beds, place, shared):
    """The servers are started where the job is now, over the files of a file system that all hosts see."""
    first, second = beds
    chance, gate = instants("servers"), Gate(shared / f"gate-{time.time_ns()}")
    root = shared / f"files-{time.time_ns()}"
    root.mkdir()
    options, env = ["--io-servers", 2, "--io-root", root, "--io-mode", "forward"], {"KEPT_FILE": "tutti:kept"}
    program = first.compile("kept.c")

    def measure(rounds):
        outcome = first.run(4, program, rounds, "file", options=options, env=env, seconds=PATIENCE)
        assert outcome.status == 0 and checksum(outcome.out), outcome
        return checksum(outcome.out), outcome.seconds
    rounds, expected, seconds = lasting(measure, 200, 1)
    job = begin(first, program, (rounds, "file"), place, {**env, **gate.env}, options, ranks=4)
    for cluster in (second, first):
        time.sleep(chance.random() * seconds / 3)
        ends_kept(keep(first if cluster is second else second, job, "--stop"), job)
        job = restart(cluster, place, job, cluster.testbed.hosts[:2])
    gate.open()
    outcome = job.wait(PATIENCE)
    assert ends_right(outcome, expected) and not outcome.err, outcome


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
    """Input that mpirun has read ahead and the rank has not yet read is read again."""
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
