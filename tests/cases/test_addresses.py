"""The addresses that hosts exchange, where names do not show the right one."""

import subprocess
import time

import pytest

from hosts import Cluster


@pytest.fixture
def cluster(tutti, hosts):
    return Cluster(tutti.name, hosts(3), 1)


def on(cluster, host, *words):
    subprocess.run([str(word) for word in cluster.testbed.on(host, *words)], check=True, timeout=60)


@pytest.fixture
def second_address(cluster):
    """Adds an address to the first host that leads to no other host."""
    on(cluster, "n0", "ip", "addr", "add", "10.99.0.1/32", "dev", "eth0")
    yield "10.99.0.1"
    on(cluster, "n0", "ip", "addr", "del", "10.99.0.1/32", "dev", "eth0")


@pytest.fixture
def agent(cluster, tmp_path):
    """Writes an agent that knows the hosts by names of its own."""
    file = tmp_path / "agent"
    file.write_text(f"#!/bin/sh\nhost=$1; shift\nexec {cluster.testbed.agent} \"$(echo $host | sed 's/^far/n/; s/[.]example$//')\" \"$@\"\n")
    file.chmod(0o755)
    return file


def run(cluster, agent, names, *more, **options):
    program = cluster.compile("coll_reduce.c")
    words = [cluster.mpirun, "--agent", agent, "--host", ",".join(names), *more, "-n", len(names), program]
    return cluster.launch(words, **options).wait(120)


@pytest.mark.parametrize("addresses", ["one", "several"])
def test_names_that_only_the_agent_knows(cluster, agent, request, addresses):
    if addresses == "several":
        request.getfixturevalue("second_address")
    outcome = run(cluster, agent, ["n0", "far1", "far2"])
    assert outcome.status == 0 and "ok" in outcome.out.split(), outcome


def test_an_own_name_that_leads_to_the_loopback(cluster, agent, second_address, tmp_path):
    """Names the host as Debian does in /etc/hosts: 127.0.1.1 and a name other than the host's own."""
    program = cluster.compile("coll_reduce.c")
    names = tmp_path / "names"
    names.write_text("127.0.0.1 localhost\n127.0.1.1 far0.example\n")
    script = f"mount --bind {names} /etc/hosts && exec {cluster.mpirun} --agent {agent} --host far0.example,far1,far2 -n 3 {program}"
    outcome = cluster.launch(["unshare", "-m", "sh", "-c", script]).wait(120)
    assert outcome.status == 0 and "ok" in outcome.out.split(), outcome


def test_a_lost_host_ends_a_job_whose_ranks_wait_for_their_address(cluster, agent, second_address):
    outcome = run(cluster, "false", ["n0", "far1"])
    assert outcome.status not in (0, None) and not outcome.timed_out and "far1" in outcome.err, outcome


SILENT = "import socket, time; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('10.99.0.1', 53)); print('there', flush=True); time.sleep(600)"


def test_a_silent_name_server_is_named_and_not_asked_in_vain(cluster, agent, second_address, tmp_path, tutti):
    server = subprocess.Popen([str(word) for word in cluster.testbed.on("n0", "python3", "-c", SILENT)], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline().strip() == "there"
        (tmp_path / "resolv").write_text("nameserver 10.99.0.1\noptions timeout:2 attempts:1\n")
        program = cluster.compile("small.c")

        def job(*more):
            words = f"{cluster.mpirun} --agent {agent} --host n0,far1,far2 {' '.join(more)} -n 3 {program}"
            script = f"mount --bind {tmp_path}/resolv /etc/resolv.conf && exec {words}"
            return cluster.launch(["unshare", "-m", "sh", "-c", script]).wait(120)

        asked = job()
        assert asked.status == 0 and "waiting for the name server to tell where far1, far2 is" in asked.err, asked
        named = job("--interface", "eth0")
        assert named.status == 0 and "name server" not in named.err, named
    finally:
        server.kill()
        server.wait()
        time.sleep(0.1)
