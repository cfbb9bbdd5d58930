"""Processes of several jobs: spawned, connected at ports, disconnected, and the effect of one job's end on
the others."""

import re
import signal
import subprocess
import uuid

import pytest

from hosts import Cluster


def check(outcome):
    assert outcome.status == 0 and not outcome.timed_out and "ok" in outcome.out.split(), str(outcome)
    assert not outcome.left and not outcome.err, str(outcome)


@pytest.mark.parametrize("parents, children", [(1, 1), (1, 4), (2, 2), (4, 1), (4, 4), (3, 2)])
def test_spawn(tutti, parents, children):
    check(tutti.run(parents, tutti.compile("spawn.c"), "plain", children))


@pytest.mark.parametrize("how", ["nested", "twice", "each", "multiple", "siblings", "refused"])
@pytest.mark.parametrize("parents", [1, 3])
def test_ways_to_spawn(tutti, parents, how):
    check(tutti.run(parents, tutti.compile("spawn.c"), how, 2))


def test_mpirun_waits_for_spawned_processes(tutti):
    outcome = tutti.run(1, tutti.compile("spawn.c"), "long", 2)
    check(outcome)
    assert outcome.seconds >= 1


def test_spawn_by_a_process_on_its_own(tutti):
    program = tutti.compile("spawn.c")
    env = {**tutti.env, "LD_LIBRARY_PATH": str(tutti.prefix / "lib")}
    done = subprocess.run([str(program), "plain", "2"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "ok" in done.stdout.split(), (done.stdout, done.stderr)


@pytest.mark.parametrize("how, status", [("die", 5), ("abort", 7)])
@pytest.mark.parametrize("parents", [1, 2])
def test_a_child_that_dies_ends_its_parents(tutti, parents, how, status):
    outcome = tutti.run(parents, tutti.compile("spawn.c"), how, 2)
    assert outcome.status == status and not outcome.timed_out and not outcome.left, str(outcome)
    assert "not ended" not in outcome.out and len(outcome.err.strip().splitlines()) == 1, str(outcome)


def test_after_a_parting_the_end_of_a_child_means_nothing(tutti):
    outcome = tutti.run(2, tutti.compile("spawn.c"), "late", 1)
    assert outcome.status == 0 and "ok" in outcome.out.split() and "late child" in outcome.out, str(outcome)
    assert not outcome.left and len(outcome.err.strip().splitlines()) == 1, str(outcome)


def test_a_signal_ends_spawned_processes_too(tutti):
    job = tutti.begin(1, tutti.compile("spawn.c"), "stay", 2)
    assert job.until(lambda out, _: out.count("stays") == 2), job.errors()
    job.process.send_signal(signal.SIGTERM)
    outcome = job.wait(20)
    assert outcome.status == 128 + signal.SIGTERM and not outcome.left, str(outcome)


def test_a_killed_launcher_ends_spawned_processes_too(tutti):
    job = tutti.begin(1, tutti.compile("spawn.c"), "stay", 2)
    assert job.until(lambda out, _: out.count("stays") == 2), job.errors()
    job.process.kill()
    outcome = job.wait(20)
    assert not outcome.left, str(outcome)


def test_spawn_on_several_hosts(tutti, hosts):
    """All ranks together, and each on its own host."""
    cluster = Cluster(tutti.name, hosts(2), 2)
    for ranks in (2, 4):
        outcome = cluster.run(ranks, cluster.compile("spawn.c"), "hosts", 2)
        assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)
    assert not cluster.testbed.idle(), cluster.testbed.idle()


def test_halves_on_several_hosts_meet_at_a_port(tutti, hosts):
    cluster = Cluster(tutti.name, hosts(2), 2)
    for ranks in (2, 3, 4):
        check(cluster.run(ranks, cluster.compile("ports.c"), "within"))
    assert not cluster.testbed.idle(), cluster.testbed.idle()


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_halves_meet_at_a_port(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("ports.c"), "within"))


def test_join_by_a_socket(tutti):
    check(tutti.run(1, tutti.compile("ports.c"), "join"))


@pytest.mark.parametrize("servers, clients", [(1, 1), (2, 3)])
def test_two_jobs_meet(tutti, servers, clients):
    program, service = tutti.compile("ports.c"), uuid.uuid4().hex
    jobs = [tutti.begin(servers, program, "server", service), tutti.begin(clients, program, "client", service)]
    for job in jobs:
        check(job.wait(60))


def test_the_end_of_a_connected_job_ends_the_other(tutti):
    program, service = tutti.compile("ports.c"), uuid.uuid4().hex
    jobs = [tutti.begin(2, program, "victim", service), tutti.begin(1, program, "killer", service)]
    check_the_end_of_both(jobs)


def test_the_end_of_a_job_on_other_hosts_ends_the_other(tutti, hosts):
    """The two jobs have met at a port. A rank that only waits does not learn of the end from the network."""
    cluster, service = Cluster(tutti.name, hosts(2), 1), uuid.uuid4().hex
    program = cluster.compile("ports.c")
    check_the_end_of_both([cluster.begin(2, program, how, service) for how in ("victim", "killer")])
    assert not cluster.testbed.idle(), cluster.testbed.idle()


def check_the_end_of_both(jobs):
    victim, killer = [job.wait(60) for job in jobs]
    assert killer.status == 5 and victim.status == 1 and not victim.timed_out, f"{victim} {killer}"
    assert re.search("connected with has failed", victim.err) and "not ended" not in victim.out, str(victim)
