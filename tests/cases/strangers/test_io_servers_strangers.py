"""io-servers and other users: a connection without proof of identity costs little and stops no other. Files
are opened only for their own user."""

import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from servers import TUTTI, Servers, place  # noqa: F401
from strangers import A, B, PYTHON, as_user, await_socket, call_as, folder_of, is_private, sockets, stranger

# These tests share the two users and netd's directory, so they do not run beside others.
pytestmark = pytest.mark.alone

CONNECTIONS = """
import socket, struct, sys, time
host, port = sys.argv[1].rsplit(":", 1)
what, count = sys.argv[2], int(sys.argv[3])
held = []
for number in range(count):
    try:
        one = socket.create_connection((host, int(port)), timeout=5)
        if what == "slow": one.sendall(b"\\1")
        if what == "long": one.sendall(struct.pack("<IQ", 2 << 20, 0) + b"\\0" * 65536)
        if what == "request": one.sendall(struct.pack("<IQ", 2, 0) + b"\\4\\0")
        held.append(one)
    except OSError: pass
print("there", flush=True)
time.sleep(1000)
"""


class ServersOfA(Servers):
    """Servers that user A runs."""

    def start(self, name):
        self.root(name).mkdir(exist_ok=True)
        os.chown(self.root(name), A, A)
        words = [*as_user(A, TUTTI), "io-server", "--mount", self.mount, "--root", self.root(name), "--servers", len(self.names),
                 "--interface", "127.0.0.1", *self.options]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   preexec_fn=self.limits)
        said = process.stdout.readline()
        assert said.startswith("server "), said + process.stdout.read()
        self.running[name] = process
        return said

    @staticmethod
    def limits():
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))

    def address(self):
        lines = [line.split() for line in self.mount.read_text().splitlines()]
        return next(line[2] for line in lines if line[0] == "server")


@pytest.fixture
def servers(users, place):  # noqa: F811
    os.chmod(place, 0o711)
    os.chown(place, A, A)
    with ServersOfA(place, ["0"]) as running:
        yield running


def listed(servers, limit=60):
    """`tutti io` of user A, which has to be served."""
    done = call_as(A, TUTTI, "io", "ls", "--mount", servers.mount)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("what", ["silent", "slow", "long", "request"])
def test_clients_without_a_proof_keep_nobody_out(servers, what):
    pid = servers.running["0"].pid
    memory = lambda: int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096  # noqa: E731
    before = memory()
    with stranger(CONNECTIONS, servers.address(), what, 1000):
        assert listed(servers)[0] == 0, listed(servers)
        assert memory() - before < 64 << 20
        held = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        assert held < 200, f"{held} descriptors"


def test_a_server_rests_at_the_limit_of_descriptors(users, place):  # noqa: F811
    """A server without free descriptors does not spin. It continues when there are descriptors again."""
    os.chmod(place, 0o711)
    os.chown(place, A, A)

    class Few(ServersOfA):
        @staticmethod
        def limits():
            resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    with Few(place, ["0"]) as servers:
        pid = servers.running["0"].pid
        ticks = lambda: sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))  # noqa: E731
        with stranger(CONNECTIONS, servers.address(), "silent", 200):
            before = ticks()
            time.sleep(2)
            assert ticks() - before < 100, "it spins"
        assert listed(servers)[0] == 0, listed(servers)


def test_the_socket_of_a_server_is_its_users(servers):
    path = await_socket(A, "io-")
    assert is_private(folder_of(A))
    code = "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect(sys.argv[1])"
    refused = call_as(B, PYTHON, "-c", code, path)
    assert "PermissionError" in refused.stderr, refused
    assert list(sockets(A))[0].startswith("io-")


def test_a_mount_file_of_another_user_is_refused(servers):
    taken = servers.place / "taken"
    shutil.copy(servers.mount, taken)
    os.chown(taken, B, B)
    taken.chmod(0o600)
    done = call_as(A, TUTTI, "io", "ls", "--mount", taken)
    assert done.returncode != 0, done
    # Root can read it, and does not believe it.
    done = subprocess.run([str(TUTTI), "io", "ls", "--mount", str(taken)], capture_output=True, text=True)
    assert done.returncode != 0 and f"it is a file of user {B}" in done.stderr, done


def test_the_key_of_a_mount_goes_into_no_file_of_a_stranger(users, place):  # noqa: F811
    """A folder in which all may write: the stranger has put files and links where the server writes."""
    os.chmod(place, 0o1777)
    shared = place / "mount"
    stolen = place / "stolen"
    code = """
import os, sys
mount, stolen = sys.argv[1:]
open(stolen, "w").close(); os.chmod(stolen, 0o666)
open(mount + ".new", "w").close(); os.chmod(mount + ".new", 0o666)
print("there", flush=True)
"""
    assert call_as(B, PYTHON, "-c", code, shared, stolen).returncode == 0
    with ServersOfA(place, ["0"]):
        assert "key" not in stolen.read_text() and "key" not in Path(f"{shared}.new").read_text()
        assert shared.stat().st_uid == A and shared.stat().st_mode & 0o777 == 0o600
