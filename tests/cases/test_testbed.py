"""The testbed itself: hosts come and go, are apart from each other, and fail as hosts do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hosts import Testbed

ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 999))
print("ready", flush=True)
s.settimeout(20)
got = set()
while (number := int(s.recv(100))) >= 0:
    got.add(number)
print(len(got), flush=True)
"""

SEND = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(2000):
    s.sendto(str(number).encode(), ("n1", 999))
    if number % 20 == 0:
        time.sleep(0.001)
for _ in range(100):
    s.sendto(b"-1", ("n1", 999))
"""


@pytest.fixture(scope="module")
def three(hosts):
    """Creates three hosts for the tests that leave them as they were."""
    return hosts(3)


def run(testbed, host, *command, **more):
    """Runs a command on a host to its end."""
    command = [str(word) for word in testbed.on(host, *command)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)


def agent(testbed, host, *command, caller="n0", **more):
    """Runs a command that `caller` starts on `host` through the agent."""
    return run(testbed, caller, testbed.agent, host, *command, **more)


def gone(pid):
    """Returns true if a process ends within seconds. A process that is a zombie has ended too."""
    for _ in range(500):
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_hosts_have_names_and_scratch_of_their_own(three):
    assert run(three, "n1", "hostname").stdout == "n1\n"
    assert run(three, "n1", "touch", "/tmp/mine", "/dev/shm/mine").returncode == 0
    assert run(three, "n2", "ls", "/tmp/mine").returncode != 0
    assert not Path("/dev/shm/mine").exists()
    assert run(three, "n0", "ls", Path(__file__)).returncode == 0


def test_the_agent_is_like_ssh(three):
    said = agent(three, "n2", "hostname;", "pwd;", "env", env={**os.environ, "HIDDEN": "1"}).stdout.splitlines()
    assert said[0] == "n2" and said[1] == os.environ.get("HOME", "/root")
    assert {line.split("=")[0] for line in said[2:]} <= {"HOME", "PATH", "USER", "SHELL", "PWD", "SHLVL", "_", "OLDPWD"}
    # The words are joined with blanks and parsed by the other side's shell.
    assert agent(three, "n1", "echo", "'a  b'", '"$((1 + 2))"').stdout == "a  b 3\n"
    assert agent(three, "-x", "-o", "Batch=yes", "me@n1", "cat >&2; exit 7", input="text\n").stderr == "text\n"
    assert agent(three, "-x", "n1", "exit 7").returncode == 7
    assert agent(three, "n9", "true").returncode == 255
    assert len(agent(three, "n1", "head -c 3000000 /dev/zero").stdout) == 3000000


def test_a_command_outlives_its_client(three):
    """A command continues when the client that started it ends, as with ssh."""
    client = subprocess.Popen([str(word) for word in three.on("n0", three.agent, "n1", "echo $$; exec sleep 60")],
                              stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    pid = int(client.stdout.readline())
    client.kill()
    client.wait()
    time.sleep(0.2)
    assert pid in [found for host, found, _ in three.processes() if host == "n1"]
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)


def test_a_crashed_host_falls_silent_and_comes_back(three):
    sleeper = subprocess.Popen([str(word) for word in three.on("n1", "sleep", "60")])
    listener = subprocess.Popen([str(word) for word in three.on("n0", three.agent, "n1", "echo on; cat")],
                                stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert listener.stdout.readline() == "on\n"
    three.act("kill", "n1")
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not [host for host, _, _ in three.processes() if host == "n1"]
    time.sleep(0.3)
    assert listener.poll() is None, "a crashed host says nothing"
    listener.kill()
    listener.wait()
    three.act("join", "n1")
    assert agent(three, "n1", "hostname").stdout == "n1\n"


def test_a_cut_cable_loses_nothing_of_a_stream(three):
    client = subprocess.Popen([str(word) for word in three.on("n0", three.agent, "n2", "cat")],
                              stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    client.stdin.write("before\n")
    client.stdin.flush()
    assert client.stdout.readline() == "before\n"
    cut = subprocess.Popen([str(three.program), "testbed", "cut", "--name", three.name, "n2", "--for", "1s"])
    time.sleep(0.3)
    client.stdin.write("during\n")
    client.stdin.close()
    assert client.stdout.read() == "during\n"
    assert client.wait(30) == 0 and cut.wait(30) == 0


def test_datagrams_get_lost(three):
    if subprocess.run(["sh", "-c", "command -v nft"], capture_output=True).returncode:
        pytest.skip("nftables is not installed")
    three.act("loss", "n1", 20)
    receiver = subprocess.Popen([str(word) for word in three.on("n1", sys.executable, "-c", ECHO)], stdout=subprocess.PIPE, text=True)
    assert receiver.stdout.readline() == "ready\n"
    assert run(three, "n0", sys.executable, "-c", SEND).returncode == 0
    got = int(receiver.stdout.readline())
    three.act("loss", "n1", 0)
    assert receiver.wait(30) == 0
    assert 1000 < got < 1800, got


def test_it_goes_with_the_process_that_wanted_it(three):
    owner = subprocess.Popen(["sleep", "60"])
    name = f"{three.name}-owned"
    command = [str(three.program), "testbed", "up", "2", "--name", name, "--with", str(owner.pid)]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    held = subprocess.Popen([str(three.program), "testbed", "exec", "--name", name, "n0", "sleep", "60"])
    owner.kill()
    owner.wait()
    assert held.wait(20) == -signal.SIGKILL
    limit = time.monotonic() + 20
    while Path("/run/tutti-testbed", name).exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not Path("/run/tutti-testbed", name).exists()


@pytest.mark.parametrize("after_ms", [5, 20, 40, 60, 80, 120])
def test_a_killed_up_leaves_nothing(three, after_ms):
    name = f"{three.name}-killed{after_ms}"
    builder = subprocess.Popen([str(three.program), "testbed", "up", "4", "--name", name], stdout=subprocess.DEVNULL)
    time.sleep(after_ms / 1000)
    builder.kill()
    builder.wait()
    subprocess.run([str(three.program), "testbed", "down", "--name", name], check=True, timeout=60)
    limit = time.monotonic() + 10
    while holders(name) and time.monotonic() < limit:
        time.sleep(0.02)
    assert holders(name) == []


def holders(name):
    """Returns the processes that hold hosts of this testbed."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"/run/tutti-testbed/{name}".encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_up_twice_is_up_once(three):
    assert three
    testbed = Testbed(2)
    before = testbed.act("ps"), holders(testbed.name)
    assert testbed.act("up", 2).startswith("n0 10.0.0.1\n")
    assert (testbed.act("ps"), holders(testbed.name)) == before
    testbed.down()
    testbed.down()
    assert holders(testbed.name) == []
