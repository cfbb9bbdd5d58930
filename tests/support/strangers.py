"""Two unprivileged users of this machine: A runs jobs and services, B is a stranger. Both are numbers without
accounts."""

import contextlib
import os
import select
import shutil
import stat
import subprocess
import time
from pathlib import Path

from harness import Job

A, B = 41001, 41002
PYTHON = "/usr/bin/python3"


def refusal():
    """Returns the reason why there can be no two users here, if any."""
    if os.geteuid() != 0:
        return "acting as two users takes root"
    missing = [name for name in ("setpriv", PYTHON) if not shutil.which(name)]
    return f"commands are missing: {', '.join(missing)}" if missing else None


def as_user(user, *words):
    """Returns a command line that runs `words` as a user without any right."""
    privileges = ["--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *privileges, *map(str, words)]


def begin_as(user, tutti, *words, env=None, **more):
    """Starts a job or command of a user."""
    return Job(as_user(user, *words), {**tutti.env, **(env or {})}, **more)


def call_as(user, *words, **more):
    """Runs a command of a user from start to end."""
    return subprocess.run(as_user(user, *words), capture_output=True, text=True, timeout=60, check=False, **more)


@contextlib.contextmanager
def stranger(code, *arguments, prefix=(), user=B):
    """Runs a program in Python as a stranger meanwhile. The program prints a line when it is ready."""
    words = [*prefix, *as_user(user, PYTHON, "-c", code, *arguments)]
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ready, _, _ = select.select([process.stdout], [], [], 60)
    process.first = process.stdout.readline().strip() if ready else ""
    if not process.first:
        process.kill()
        raise AssertionError(process.communicate()[1] or "the stranger is not ready")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def folder_of(user):
    """Returns the directory of a user's sockets."""
    return Path(f"/tmp/tutti-{user}")


def sockets(user):
    """Returns the files of the user's sockets that exist, by the name behind the host's number."""
    return {path.name.split("-", 2)[2]: path for path in folder_of(user).glob("*-*-*")}


def await_socket(user, start, seconds=20):
    """Waits for the user's socket whose name begins with `start`, and returns its file."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        for name, path in sockets(user).items():
            if name.startswith(start):
                return path
        time.sleep(0.02)
    raise AssertionError(f"no socket {start}* of user {user}: {sockets(user)}")


def is_private(path):
    """Returns true if only its owner can enter a directory."""
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o700


# In the programs of strangers: `hang(connection, *messages)` sends messages, each with a TCP socket of
# which the receiver becomes the last holder: whoever closes it waits. The child that makes the socket just
# ends, which waits for nothing. Returns the messages that were refused.
LINGERING = """
import socket, struct, array, sys, os, time
kept = []
def pass_on(connection, data, sockets):
    numbers = array.array("i", [one.fileno() for one in sockets])
    connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
def hang(connection, *messages, seconds=1000):
    listener = socket.socket(); listener.bind(("127.0.0.1", 0)); listener.listen(1)
    child = os.fork()
    if child == 0:
        one = socket.socket(); one.connect(listener.getsockname()); one.setblocking(False)
        try:
            while True: one.send(b"x" * 65536)
        except BlockingIOError: pass
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
        refused = 0
        for message in messages:
            try: pass_on(connection, message, [one])
            except OSError: refused += 1
        os._exit(refused)
    kept.extend([listener, listener.accept()])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
