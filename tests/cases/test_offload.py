"""Collectives by the kernel's packet program: several hosts on this machine, each with its `tutti netd`."""

import subprocess
import time

import pytest

from daemons import Daemons
from hosts import Cluster

DEMANDED = {"TUTTI_OFFLOAD": "on"}


@pytest.fixture
def netd(tutti, hosts):
    """Starts clusters of a given number of hosts with one rank each, and their daemons."""
    made = []

    def make(count, *options):
        cluster = Cluster(tutti.name, hosts(count), 1)
        made.append(Daemons(cluster.testbed, options))
        return cluster, made[-1]

    yield make
    for daemons in made:
        daemons.end()


def check(outcome, *said):
    """Checks that the program has ended well and printed this."""
    assert outcome.status == 0, outcome
    for words in (*said, "ok"):
        assert words in outcome.out, outcome


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_results_by_the_kernel_are_right(netd, ranks):
    cluster, _ = netd(ranks)
    outcome = cluster.run(ranks, cluster.compile("offloaded.c"), "results", env={**DEMANDED, "TUTTI_EXPLAIN": "1"})
    check(outcome)
    assert "the kernel does small collectives of communicator 0" in outcome.err, outcome


@pytest.mark.parametrize("ranks", [4, 7])
def test_several_ranks_of_a_host_go_by_one_of_them(netd, ranks):
    cluster, _ = netd(4)
    cluster.per_host = 2
    env = {**DEMANDED, "TUTTI_EXPLAIN": "1"}
    outcome = cluster.run(ranks, cluster.compile("offloaded.c"), "results", env=env)
    check(outcome)
    assert "the kernel does small collectives of communicator 0" in outcome.err, outcome


def test_lost_packets_are_asked_for(netd):
    cluster, _ = netd(4)
    for host in cluster.testbed.hosts:
        cluster.testbed.act("loss", host, 10)
    try:
        check(cluster.run(4, cluster.compile("offloaded.c"), "results", 60, env=DEMANDED))
    finally:
        for host in cluster.testbed.hosts:
            cluster.testbed.act("loss", host, 0)


def test_nobody_leaves_while_others_lack_packets(netd):
    """The last operation of a program is over at some ranks while others still have to request lost data."""
    cluster, _ = netd(4)
    for host in cluster.testbed.hosts:
        cluster.testbed.act("loss", host, 10)
    try:
        for _ in range(8):
            outcome = cluster.run(4, cluster.compile("offloaded.c"), "results", 1, env=DEMANDED, seconds=20)
            check(outcome)
    finally:
        for host in cluster.testbed.hosts:
            cluster.testbed.act("loss", host, 0)


@pytest.mark.parametrize("ranks", [4, 8])
def test_a_broadcast_passes_stopped_ranks(netd, ranks):
    cluster, _ = netd(ranks)
    outcome = cluster.run(ranks, cluster.compile("offloaded.c"), "bcast", env=DEMANDED)
    check(outcome, f"the last got it while {ranks - 2} were stopped")


@pytest.mark.parametrize("ranks", [4, 8])
def test_a_barrier_ends_beside_stopped_ranks(netd, ranks):
    cluster, _ = netd(ranks)
    outcome = cluster.run(ranks, cluster.compile("offloaded.c"), "barrier", env=DEMANDED)
    check(outcome, f"two completed while {ranks - 2} were stopped")


def test_persistent_operations_go_by_the_kernel(netd):
    """Ranks that are stopped after they have started the operation do not hold up the others."""
    cluster, _ = netd(4)
    check(cluster.run(4, cluster.compile("offloaded.c"), "persistent", env=DEMANDED))


def test_tuning_may_take_the_kernel(netd):
    cluster, _ = netd(4)
    env = {**DEMANDED, "TUTTI_TUNE": "on"}
    check(cluster.run(4, cluster.compile("offloaded.c"), "results", 400, env=env))


@pytest.fixture
def silence():
    """Drops the kernel's packets of the offload on their way out of a host."""
    hosts = []

    drop = "chain out { type filter hook egress device eth0 priority 0; udp dport 7547 drop; }"

    def on(cluster, host, rules=drop):
        command = [str(word) for word in cluster.testbed.on(host, "nft", "-f", "-")]
        text = f"add table netdev silent\ndelete table netdev silent\ntable netdev silent {{\n{rules}\n}}\n"
        subprocess.run(command, input=text, text=True, check=True, timeout=60)
        hosts.append((cluster, host))

    yield on
    for cluster, host in list(hosts):
        on(cluster, host, "")


def test_a_host_whose_packets_do_not_get_through_is_found_out(netd, silence):
    cluster, _ = netd(3)
    silence(cluster, "n1")
    program = cluster.compile("offloaded.c")
    check(cluster.run(3, program, "results", 20))
    refused = cluster.run(3, program, "results", 1, env=DEMANDED)
    assert refused.status != 0 and "do not get from each host to each other one" in refused.err, refused


def test_a_host_that_falls_silent_ends_the_job_with_the_reason(netd, silence):
    cluster, _ = netd(3)
    env = {**DEMANDED, "TUTTI_SILENCE_MS": "3000", "TUTTI_EXPLAIN": "1"}
    job = cluster.begin(3, cluster.compile("offloaded.c"), "results", 2000000000, env=env)
    begun = "the kernel does small collectives of communicator 0"
    assert job.until(lambda out, err: begun in err, 60), job.errors()
    silence(cluster, "n1")
    outcome = job.wait(120)
    assert outcome.status != 0 and "packet program of the host of rank" in outcome.err, outcome


def test_programs_may_be_filters_as_before_linux_6_6(netd):
    cluster, daemons = netd(4, "--filters")
    program = cluster.compile("offloaded.c")
    check(cluster.run(4, program, "results", env=DEMANDED))
    check(cluster.run(4, program, "bcast", env=DEMANDED), "the last got it while 2 were stopped")
    assert "tutti_" not in filters(cluster), "they go with the job"
    job = cluster.begin(4, program, "results", 20000, env={"TUTTI_EXPLAIN": "1"})
    assert job.until(lambda out, err: "the kernel does small collectives" in err, 60), job.errors()
    daemons.end()
    check(job.wait(120))


def filters(cluster):
    """The filters of all hosts, once their jobs have gone."""
    shown = ""
    for _ in range(100):
        listed = [cluster.testbed.on(host, "tc", "filter", "show", "dev", "eth0", way)
                  for host in cluster.testbed.hosts for way in ("ingress", "egress")]
        shown = "".join(subprocess.run(words, capture_output=True, text=True).stdout for words in listed)
        if "tutti_" not in shown:
            break
        time.sleep(0.1)
    return shown


def test_without_netd_hosts_do_it_themselves(tutti, hosts):
    cluster = Cluster(tutti.name, hosts(4), 1)
    program = cluster.compile("offloaded.c")
    check(cluster.run(4, program, "results", 40))
    told = subprocess.run(cluster.testbed.on("n1", cluster.testbed.program, "info"), capture_output=True, text=True).stdout
    assert "small collectives in the kernel: no: no `tutti netd` runs on this host" in told
    refused = cluster.run(4, program, "results", 1, env=DEMANDED)
    assert refused.status != 0 and "TUTTI_OFFLOAD=on, but here not" in refused.err, refused


def test_a_job_goes_on_when_netd_is_killed(netd):
    cluster, daemons = netd(4)
    job = cluster.begin(4, cluster.compile("offloaded.c"), "results", 20000)
    time.sleep(1)
    for daemon in daemons.all[1:]:
        daemon.kill()
    check(job.wait(120))


def test_hosts_that_are_not_granted_are_refused(netd):
    cluster, _ = netd(2, "--allow", "192.0.2.0/24")
    program = cluster.compile("offloaded.c")
    check(cluster.run(2, program, "results", 10))
    refused = cluster.run(2, program, "results", 1, env=DEMANDED)
    assert refused.status != 0 and "is in none of the networks that netd was told to allow" in refused.err, refused
