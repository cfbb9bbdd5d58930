"""Jobs of several hosts that are kept and made again: on the same hosts, on fewer, on other addresses."""

import os
import shutil
import subprocess
import time

import pytest

from hosts import Cluster, Testbed, refusal
from keeping import PATIENCE, Gate, checksum, ends_kept, ends_right, instants, kept, lasting, name_of, until

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


def mpirun_of(job):
    """The process of mpirun itself, below what puts it into the namespaces of a host."""
    def found():
        assert job.process.poll() is None, f"the job is over: {job.output()}\n{job.errors()}"
        pid = job.process.pid
        while name_of(pid) != "mpirun":
            try:
                children = open(f"/proc/{pid}/task/{pid}/children").read().split()
            except OSError:
                return None
            if not children:
                return None
            pid = int(children[0])
        return pid
    return until(found, "there is no mpirun")


def begin(cluster, program, arguments, place, env=None, options=(), ranks=8):
    words = [*cluster.place(ranks), "--checkpoint-dir", place, *options, "-n", ranks, program, *arguments]
    return cluster.launch([cluster.mpirun, *words], env=env)


def restart(cluster, place, before, hosts, options=(), env=None):
    """The job of a set goes on; `before` is a job that it was."""
    where = ["--agent", cluster.testbed.agent, "--host", ",".join(hosts)]
    return cluster.launch([cluster.mpirun, *where, *options, "--restart", place], env=env, mark=before.mark)


def keep(cluster, job, *options):
    """A checkpoint, as soon as the job is there."""
    return kept(lambda: ask(cluster, job, *options), job)


def ask(cluster, job, *options):
    words = [cluster.prefix / "bin" / "tutti", "checkpoint", mpirun_of(job), *options]
    words = [str(word) for word in cluster.testbed.on("n0", *words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)


def reference(cluster, program, arguments, env=None, ranks=8):
    outcome = cluster.run(ranks, program, *arguments, env=env, seconds=PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out), outcome
    return checksum(outcome.out), outcome.seconds


def lasting_on(cluster, program, env=None, ranks=8):
    """As `lasting`: a second of a job of these hosts with all kinds of communication."""
    return lasting(lambda rounds: reference(cluster, program, (rounds, "all"), env, ranks), 20, 1)


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
