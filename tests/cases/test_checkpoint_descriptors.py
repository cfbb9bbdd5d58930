"""Open descriptors at a checkpoint: each kind behaves as the table of the guide says."""

import os
import shutil
from pathlib import Path

import pytest

from harness import ROOT
from keeping import PATIENCE, keep, restart
from keeping_here import gate, place  # noqa: F401 (fixtures)

PAGE = ROOT / "docs" / "guide" / "src" / "checkpoint.md"

# Beginning of every program, with the functions by which it waits.
BEGIN = """
import ctypes, fcntl, mmap, os, select, signal, socket, struct, sys, tempfile, time
libc = ctypes.CDLL(None, use_errno=True)
folder, gate = sys.argv[1:]
def made(number):
    if number < 0:
        print("absent", os.strerror(ctypes.get_errno()), flush=True)
        sys.exit(0)
    return number
def wait():
    print("up", flush=True)
    while not os.path.exists(gate):
        time.sleep(0.005)
"""

# For each kind of the table: opens a descriptor and, behind `wait()`, checks it after a restart. The last
# word that the program prints is "right" if the descriptor is as before.
PROGRAMS = {
    "regular file": """
file = open(folder + "/file", "w+"); file.write("abc"); file.flush(); wait()
file.write("def"); file.flush(); print("right" if open(folder + "/file").read() == "abcdef" else "wrong")""",
    "directory": """
fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY); wait()
print("right" if os.listdir(fd) == os.listdir(folder) else "wrong")""",
    "deleted file": """
file = tempfile.TemporaryFile(); file.write(b"x" * 100000 + b"abc"); file.flush(); file.seek(99999); wait()
first = file.read(); file.seek(0, 2); file.write(b"d"); file.seek(100000)
print("right" if (first, file.read()) == (b"xabc", b"abcd") else "wrong")""",
    "deleted file, above 256 MB": """
file = tempfile.TemporaryFile(); file.truncate(257 << 20); wait()""",
    "deleted file with another name": """
path = folder + "/one"; file = open(path, "w"); os.link(path, folder + "/two"); os.unlink(path); wait()""",
    "memfd": """
fd = os.memfd_create("own"); os.write(fd, b"abc"); wait()
os.write(fd, b"d"); print("right" if os.pread(fd, 9, 0) == b"abcd" else "wrong")""",
    "shared memory without a name": """
path = f"/dev/shm/tutti-test-{os.getpid()}"; fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600); os.ftruncate(fd, 8192)
memory = mmap.mmap(fd, 8192); memory[5000:5003] = b"abc"; os.unlink(path); wait()
print("right" if os.pread(fd, 3, 5000) == bytes(memory[5000:5003]) == b"abc" else "wrong")""",
    "pipe of the job": """
reading, writing = os.pipe(); os.write(writing, b"abc"); wait()
os.write(writing, b"d"); print("right" if os.read(reading, 9) == b"abcd" else "wrong")""",
    "named pipe": """
os.mkfifo(folder + "/fifo"); fd = os.open(folder + "/fifo", os.O_RDWR); wait()""",
    "eventfd": """
fd = os.eventfd(5); wait()
print("right" if os.eventfd_read(fd) == 5 else "wrong")""",
    "epoll": """
reading, writing = os.pipe(); poll = select.epoll(); poll.register(reading, select.EPOLLIN); wait()
os.write(writing, b"x"); print("right" if poll.poll(5) == [(reading, select.EPOLLIN)] else "wrong")""",
    "timerfd": """
fd = made(libc.timerfd_create(time.CLOCK_MONOTONIC, 0)); value = struct.pack("4q", 0, 20000000, 0, 20000000)
late = made(libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK)); libc.timerfd_settime(late, 0, struct.pack("4q", 0, 0, 9999, 0), None)
libc.timerfd_settime(fd, 0, value, None); wait()
count = struct.unpack("q", os.read(fd, 8))[0]
again = struct.unpack("q", os.read(fd, 8))[0]
left = ctypes.create_string_buffer(32); libc.timerfd_gettime(late, left); left = struct.unpack("4q", left.raw)[2]
print("right" if count > 0 and again > 0 and 9000 < left < 9999 else f"wrong {count} {again} {left}")""",
    "signalfd": """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
mask = struct.pack("Q", 1 << signal.SIGUSR2 - 1); fd = made(libc.syscall(289, -1, mask, 8, 0)); wait()
os.kill(os.getpid(), signal.SIGUSR2)
print("right" if struct.unpack_from("I", os.read(fd, 128))[0] == signal.SIGUSR2 else "wrong")""",
    "userfaultfd": """
fd = made(libc.syscall(323, 1)); api = struct.pack("3Q", 0xaa, 0, 0); fcntl.ioctl(fd, 0xc018aa3f, api); wait()
memory = mmap.mmap(-1, 4096); start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
fcntl.ioctl(fd, 0xc020aa00, struct.pack("4Q", start, 4096, 1, 0)); print("right")""",
    "second userfaultfd": """
for _ in 1, 2: fcntl.ioctl(made(libc.syscall(323, 1)), 0xc018aa3f, struct.pack("3Q", 0xaa, 0, 0))
wait()""",
    "/dev/null, zero, full, random, urandom": """
fds = [os.open("/dev/" + name, os.O_RDWR) for name in ("null", "zero", "full", "random", "urandom")]; wait()
print("right" if [len(os.read(fd, 4)) for fd in fds] == [0, 4, 4, 4, 4] else "wrong")""",
    "another device": """
fd = os.open("/dev/tty" if os.path.exists("/dev/none") else "/dev/ptmx", os.O_RDWR | os.O_NOCTTY); wait()""",
    "terminal": """
leading, following = os.openpty(); os.close(leading); wait()""",
    "inotify": "fd = made(libc.inotify_init1(0)); wait()",
    "fanotify": "fd = made(libc.fanotify_init(0, 0)); wait()",
    "io_uring": "fd = made(libc.syscall(425, 4, ctypes.create_string_buffer(120))); wait()",
    "pidfd": "fd = os.pidfd_open(os.getpid()); wait()",
    "perf_event": "fd = made(libc.syscall(298, struct.pack('IIQ', 1, 112, 0) + bytes(96), 0, -1, -1, 0)); wait()",
    "bpf map": "fd = made(libc.syscall(321, 0, struct.pack('5I', 2, 4, 4, 1, 0) + bytes(52), 72)); wait()",
    "TCP": """
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
accepted, _ = server.accept(); server.close(); wait()""",
    "TCP that listens": "server = socket.create_server(('127.0.0.1', 0)); wait()",
    "UDP": "sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); wait()",
    "Unix socket": "pair = socket.socketpair(); wait()",
    "netlink": "sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); wait()",
    "message queue": """
name = b"/tutti-test-%d" % os.getpid(); fd = made(libc.mq_open(name, 66, 0o600, None)); wait(); libc.mq_unlink(name)""",
    "deleted message queue": """
name = b"/tutti-test-%d" % os.getpid(); fd = made(libc.mq_open(name, 66, 0o600, None)); libc.mq_unlink(name); wait()""",
    "namespace": "fd = os.open('/proc/self/ns/net', os.O_RDONLY); wait()",
}


def table():
    """The rows of the guide's table of descriptors: kind, kept or not, words of the refusal."""
    text = PAGE.read_text()
    lines = text[text.index("| descriptor |"):].splitlines()[2:]
    rows = {}
    for line in lines:
        if not line.startswith("|"):
            break
        kind, result, words = (cell.strip() for cell in line.strip("|").split("|"))
        rows[kind] = result, words.strip("`")
    return rows


def test_the_table_has_the_kinds_that_are_tested():
    assert set(table()) == set(PROGRAMS)
    assert {result for result, _ in table().values()} == {"kept", "refused"}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_descriptor_is_kept_or_refused_by_name(mpi, place, gate, tmp_path, kind):
    result, words = table()[kind]
    folder = tmp_path / "folder"
    folder.mkdir()
    program = tmp_path / "program.py"
    program.write_text(BEGIN + PROGRAMS[kind] + "\n")
    job = mpi.begin(1, "python3", program, folder, gate.path)
    assert job.until(lambda out, err: "up" in out or "absent" in out, PATIENCE), job.errors()
    if "absent" in job.output():
        job.wait(PATIENCE)
        pytest.skip(job.output().strip())
    if result == "kept":
        done = keep(mpi, job, "--stop", "--dir", place)
        assert done.returncode == 0, done
        assert job.wait(PATIENCE).status == 0
        gate.open()
        outcome = restart(mpi, place, job).wait(PATIENCE)
        assert outcome.status == 0 and outcome.out.split()[-1] == "right", outcome
        return
    done = keep(mpi, job, "--dir", place)
    assert done.returncode == 1 and "rank 0 has " in done.stderr and words in done.stderr, done
    assert "the job runs on" in done.stderr, done
    gate.open()
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0, outcome
