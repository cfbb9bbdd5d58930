"""Sockets of a user's daemons and ranks: other users cannot reach them, take their names or stop the
listeners."""

from pathlib import Path

import pytest

from strangers import A, B, LINGERING, await_socket, begin_as, call_as, folder_of, is_private, sockets, stranger

# These tests share the two users and netd's directory, so they do not run beside others.
pytestmark = pytest.mark.alone

# A rank with every kind of socket: a port, a published name; the job has io-servers and may be checkpointed.
PROGRAM = Path(__file__).with_name("sockets.c")

CONNECT = """
import socket, sys
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try:
    one.connect(sys.argv[1])
    print("connected")
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def job(users, tutti, folder):
    """Starts a job of A that has all kinds of sockets, and returns it while they are open. The job prints
    `ok` at its end."""
    program = tutti.compile(PROGRAM, name="strangers_sockets")
    running = begin_as(A, tutti, tutti.mpirun, "--io-servers", "1", "--io-root", folder / "io", "--checkpoint-dir", folder / "sets",
                       "-n", 2, program, folder / "stop", cwd=folder, env={"HOME": str(folder)})
    if not running.until(lambda out, _: "ready" in out):
        raise AssertionError(str(running.wait(1)))
    yield running
    running.wait(1)


def finish(job, folder):
    (folder / "stop").touch()
    outcome = job.wait(60)
    assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)
    return outcome


def listening():
    """Returns the addresses of local sockets that carry Tutti's name, as the system lists them. All users can
    read that list."""
    words = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {line[7] for line in words if len(line) > 7 and "tutti" in line[7]}


def test_all_sockets_of_a_job_are_out_of_reach(users, tutti, job, folder):
    found = sockets(A)
    kinds = {name.split("-")[0] for name in found}
    assert kinds >= {"mpirun", "checkpoint", "port", "service", "io"}, found
    assert is_private(folder_of(A))
    own = {address for address in listening() if f"-{A}" in address}
    assert own == {str(path) for path in found.values()}, own
    for path in found.values():
        assert call_as(B, "/usr/bin/python3", "-c", CONNECT, path).stdout.strip() == "PermissionError", path
    finish(job, folder)
    # io-servers are killed with their mpirun. The next io-server removes their remains.
    assert {name.split("-")[0] for name in sockets(A)} <= {"io"}
    assert begin_as(A, tutti, tutti.mpirun, "-n", 1, "true", cwd=folder).wait(30).status == 0
    assert sockets(A) == {}


def test_a_killed_job_leaves_files_that_the_next_one_removes(users, tutti, job, folder):
    before = sockets(A)
    job.process.kill()
    job.wait(20)
    again = begin_as(A, tutti, tutti.mpirun, "-n", 1, "true", cwd=folder)
    assert again.wait(30).status == 0
    assert before and not set(before) & set(sockets(A))


SQUAT = """
import os, socket, sys
path = sys.argv[1]
os.mkdir(path, 0o777); os.chmod(path, 0o777)
print("there", flush=True)
import time; time.sleep(1000)
"""


def test_a_directory_that_a_stranger_made_first_is_not_used(users, tutti, folder):
    with stranger(SQUAT, folder_of(A)):
        program = tutti.compile(PROGRAM, name="strangers_sockets")
        job = begin_as(A, tutti, tutti.mpirun, "-n", 2, program, folder / "stop", cwd=folder, env={"HOME": str(folder)})
        assert job.until(lambda out, _: "ready" in out), str(job.wait(1))
        assert list(folder_of(A).iterdir()) == []
        finish(job, folder)


# A program that listens under the abstract names of some sockets and answers with the given bytes.
TAKE = LINGERING + """
answer = bytes.fromhex(sys.argv[1])
import select
listeners = []
for name in sys.argv[2:]:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); one.bind(b"\\0" + name.encode()); one.listen(8)
    listeners.append(one)
print("there", flush=True)
while True:
    for one in select.select(listeners, [], [])[0]:
        connection, _ = one.accept()
        for part in (struct.pack("<QQ", len(answer), 0), answer):
            try: connection.send(part)
            except OSError: pass
        kept.append(connection)
"""


def whole():
    """The answer of an mpirun whose checkpoint is written."""
    number = lambda value: (8).to_bytes(8, "little") + value.to_bytes(8, "little")
    text = b"checkpoint 1 is whole"
    return (number(1) + len(text).to_bytes(8, "little") + text).hex()


def test_a_checkpoint_is_asked_of_nobody_else(users, tutti):
    pid = 4_000_000
    names = [f"tutti-{A}-checkpoint-{pid}", f"tutti-checkpoint-{pid}"]
    with stranger(TAKE, whole(), *names):
        asked = call_as(A, tutti.prefix / "bin" / "tutti", "checkpoint", pid)
    assert asked.returncode != 0 and "is whole" not in asked.stdout, asked
    assert f"user {B} listens in the place" in asked.stderr, asked


LINGER_AT = LINGERING + """
path = sys.argv[1]
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); one.connect(path)
print("refused" if hang(one, b"12345678") else "sent", flush=True)
time.sleep(1000)
"""


def test_descriptors_are_not_taken_where_none_are_meant(users, tutti, job, folder):
    """Not even of the user himself: the kernel refuses them (Linux 6.16), or they are closed apart."""
    with stranger(LINGER_AT, await_socket(A, "mpirun"), user=A), stranger(LINGER_AT, await_socket(A, "checkpoint"), user=A):
        finish(job, folder)


ABSTRACT = """
import socket, sys
one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
try: one.connect(b"\\0" + sys.argv[1].encode()); print("connected")
except OSError as error: print(type(error).__name__)
"""


def test_no_socket_has_an_abstract_name(users, job, folder):
    for name in sockets(A):
        for form in (f"tutti-{name}", f"tutti-{A}-{name}"):
            assert call_as(B, "/usr/bin/python3", "-c", ABSTRACT, form).stdout.strip() == "ConnectionRefusedError", form
    finish(job, folder)
