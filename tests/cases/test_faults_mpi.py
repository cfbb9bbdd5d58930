"""Faults between hosts while MPI ranks wait or communicate: the job ends within seconds, with one message,
and nothing is left anywhere."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness import by_age, check
from hosts import Cluster
from jobs import pids

# Longest time of the end, in seconds, unless a host is silent. A silent host is waited for a little longer.
SOON = 20
# A peer that falls silent without a message is lost after 5 s here, not after 30.
SILENCE = {"TUTTI_SILENCE_MS": "5000"}


@pytest.fixture
def four(tutti, hosts):
    """Creates four hosts with two ranks on each, and restores them afterwards."""
    cluster = Cluster(tutti.name, hosts(4), 2)
    yield cluster
    for host in cluster.testbed.hosts:
        cluster.testbed.act("join", host)
        cluster.testbed.act("loss", host, 0)
    # Kills the processes that a failed test leaves, so that the next tests do not fail too.
    for _, pid, _ in cluster.testbed.idle(seconds=0):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def waiting(cluster, job, ranks=8, **more):
    """Starts a job all of whose ranks wait."""
    running = cluster.begin(ranks, job, "wait", **more)
    assert running.until(lambda out, _: len(pids(out)) == ranks), running.errors()
    time.sleep(0.2)
    return running


def ended(cluster, outcome, besides=()):
    """Checks that the job ended by itself and left nothing on the hosts."""
    assert not outcome.timed_out, str(outcome)
    left = cluster.testbed.idle(besides=besides)
    assert not left, f"{left}\n{outcome}"


def told(outcome, *parts):
    """Checks that the launcher has printed exactly one message, and that it contains these parts."""
    lines = [line for line in outcome.err.splitlines() if line.startswith("mpirun:")]
    assert len(lines) == 1 and all(part in lines[0] for part in parts), str(outcome)


def launchers(testbed, host):
    """Returns the processes of the launcher on a host, the youngest last."""
    return by_age(pid for where, pid, name in testbed.processes() if where == host and name == "mpirun")


def test_a_killed_rank(four, job):
    running = waiting(four, job)
    os.kill(pids(running.output())[5], signal.SIGKILL)
    outcome = running.wait(SOON)
    ended(four, outcome)
    assert outcome.status == 137, str(outcome)
    told(outcome, "rank 5", "n2", "SIGKILL")


def test_a_crash_and_an_abort(four, job):
    outcome = four.run(8, job, "segv", 3, seconds=SOON)
    ended(four, outcome)
    assert outcome.status == 139, str(outcome)
    told(outcome, "rank 3", "n1", "SIGSEGV")
    outcome = four.run(8, job, "abort", 42, seconds=SOON)
    ended(four, outcome)
    assert outcome.status == 42, str(outcome)


@pytest.mark.parametrize("which", [0, -1])
def test_a_killed_daemon(four, job, which):
    running = waiting(four, job)
    os.kill(launchers(four.testbed, "n1")[which], signal.SIGKILL)
    outcome = running.wait(SOON)
    ended(four, outcome)
    assert outcome.status != 0, str(outcome)
    told(outcome, "n1")


def test_a_killed_mpirun(four, job):
    running = waiting(four, job)
    # All processes of the launcher on the first host except the agents are killed at once.
    for pid in launchers(four.testbed, "n0"):
        os.kill(pid, signal.SIGKILL)
    ended(four, running.wait(SOON))


def test_a_killed_supervisor(four, job):
    running = waiting(four, job)
    os.kill(launchers(four.testbed, "n0")[0], signal.SIGKILL)
    ended(four, running.wait(SOON))


def test_killed_agents(four, job):
    """Once the daemons run, the process that started them is not needed."""
    running = waiting(four, job)
    for host, pid, name in four.testbed.processes():
        if host == "n0" and name == "tutti":
            os.kill(pid, signal.SIGKILL)
    time.sleep(0.5)
    assert running.process.poll() is None, running.errors()
    os.kill(pids(running.output())[0], signal.SIGKILL)
    ended(four, running.wait(SOON))


def test_a_killed_host(four, job):
    running = waiting(four, job, env=SILENCE)
    four.testbed.act("kill", "n1")
    outcome = running.wait(SOON)
    ended(four, outcome)
    assert outcome.status != 0, str(outcome)
    told(outcome, "n1")


@pytest.mark.across
def test_a_cable_cut_for_a_second(four):
    running = four.begin(8, four.compile("stress.c"), 5, 3)
    time.sleep(2)
    assert running.process.poll() is None, running.errors()
    four.testbed.act("cut", "n1", "--for", "1s")
    outcome = running.wait(120)
    check(outcome)
    ended(four, outcome)


def test_a_cable_cut_for_good(four, job):
    running = waiting(four, job, env=SILENCE)
    four.testbed.act("cut", "n1")
    outcome = running.wait(SOON)
    assert outcome.status != 0, str(outcome)
    told(outcome, "n1")
    # The host that is cut off finds out by itself.
    ended(four, outcome)


@pytest.mark.across
@pytest.mark.parametrize("connections", ["never", "on-demand"])
def test_a_tenth_of_the_datagrams_lost(four, connections):
    for host in four.testbed.hosts:
        four.testbed.act("loss", host, 5)  # at both ends
    for program, arguments in [("small", [100]), ("p2p_match", []), ("stress", [3, 11])]:
        outcome = four.run(8, four.compile(f"{program}.c"), *arguments, env={"TUTTI_CONNECTIONS": connections}, seconds=240)
        check(outcome)
    ended(four, outcome)


@pytest.mark.across
def test_a_full_disk(four, job):
    fill = "for place in /tmp /dev/shm; do mount -o remount,size=64k $place; dd if=/dev/zero of=$place/full bs=4k; done 2>&1; df /tmp"
    empty = "for place in /tmp /dev/shm; do rm -f $place/full; mount -o remount,size=50% $place; done"
    run = lambda script: subprocess.run([str(word) for word in four.testbed.on("n1", "sh", "-c", script)], capture_output=True, text=True, timeout=60)
    assert "100%" in run(fill).stdout
    try:
        check(four.run(8, four.compile("coll_move.c")))
        outcome = four.run(8, job, "hello")
        assert len(outcome.out.splitlines()) == 8, str(outcome)
        ended(four, outcome)
    finally:
        run(empty)


FOREIGN = """
import os, random, socket, sys
random.seed(int(sys.argv[1]))
tried = 0
for port in map(int, sys.argv[3:]):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        for length in (0, 1, 7, 64, 1400):
            with socket.socket(socket.AF_INET, kind) as stranger:
                stranger.settimeout(1)
                try:
                    stranger.connect((sys.argv[2], port))
                    if length:
                        stranger.send(random.randbytes(length))
                    tried += 1
                except OSError:
                    pass
print(tried)
"""


def open_ports(testbed, host):
    """Ports that anything on a host listens on or receives at, but that of the testbed itself."""
    found = set()
    for table, states in [("tcp", "0A"), ("udp", "07")]:
        read = subprocess.run([str(word) for word in testbed.on(host, "cat", f"/proc/net/{table}")], capture_output=True, text=True, timeout=30)
        for line in read.stdout.splitlines()[1:]:
            words = line.split()
            if words[3] == states:
                found.add(int(words[1].split(":")[1], 16))
    return found - {22}


@pytest.mark.across
def test_a_port_scan(four):
    running = four.begin(8, four.compile("stress.c"), 6, 5)
    time.sleep(2)
    tried = 0
    for number, host in enumerate(four.testbed.hosts):
        ports = open_ports(four.testbed, host)
        command = four.testbed.on("n3", sys.executable, "-c", FOREIGN, number, f"10.0.0.{number + 1}", *ports)
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        tried += int(done.stdout)
    assert tried > 10, tried
    outcome = running.wait(120)
    check(outcome)
    ended(four, outcome)


def test_it_listens_only_where_it_must(four, job):
    """Every open port of a job is bound to the address of its host."""
    running = waiting(four, job)
    for number, host in enumerate(four.testbed.hosts):
        for table, state in [("tcp", "0A"), ("udp", "07")]:
            read = subprocess.run([str(word) for word in four.testbed.on(host, "cat", f"/proc/net/{table}")], capture_output=True, text=True, timeout=30)
            for words in map(str.split, read.stdout.splitlines()[1:]):
                address, port = words[1].split(":")
                if words[3] == state and int(port, 16) != 22:
                    bound = socket.inet_ntoa(bytes.fromhex(address)[::-1])
                    assert bound == f"10.0.0.{number + 1}", f"{host}: {table} {bound}:{int(port, 16)}"
    running.process.terminate()
    ended(four, running.wait(SOON))


def test_a_wrong_secret(four, job):
    """A daemon that is started with the same words but another secret gets no job, and the job is not
    disturbed."""
    running = waiting(four, job)
    daemon = launchers(four.testbed, "n1")[-1]
    words = [word.decode() for word in Path(f"/proc/{daemon}/cmdline").read_bytes().split(b"\0")[:-1]]
    assert "--daemon" in words and not [word for word in words if len(word) >= 32 and re.fullmatch("[0-9a-f]+", word)], words
    wrong = b"tutti-s1" + bytes(32)
    done = subprocess.run([str(word) for word in four.testbed.on("n2", *words)], input=wrong, capture_output=True, timeout=60)
    assert done.returncode != 0, done.stderr
    time.sleep(0.3)
    assert running.process.poll() is None, running.errors()
    os.kill(pids(running.output())[5], signal.SIGKILL)
    outcome = running.wait(SOON)
    ended(four, outcome)
    assert outcome.status == 137, str(outcome)


@pytest.mark.alone
def test_no_environment_shows_the_secret(four, job):
    """No long number appears in the environment and command line of a daemon and a rank of another host."""
    running = waiting(four, job)
    found = [pid for host, pid, _ in four.testbed.processes() if host == "n1"]
    assert len(found) >= 3
    for pid in found:
        for file in ("cmdline", "environ"):
            text = Path(f"/proc/{pid}/{file}").read_bytes()
            own = running.mark.encode()
            assert not [word for word in re.findall(rb"[0-9a-f]{32,}", text) if own not in word], (pid, file)
    running.process.terminate()
    ended(four, running.wait(SOON))


@pytest.mark.across
def test_two_jobs_at_a_time(four):
    outcomes = []
    run = lambda seed: outcomes.append(four.run(8, four.compile("stress.c"), 2, seed))
    jobs = [threading.Thread(target=run, args=[seed]) for seed in (7, 8)]
    four.compile("stress.c")
    for one in jobs:
        one.start()
    for one in jobs:
        one.join()
    for outcome in outcomes:
        check(outcome)
    ended(four, outcomes[0])
