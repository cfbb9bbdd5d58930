"""Io-servers of a user, on this host and on the hosts of a testbed."""

import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import ROOT

TUTTI = ROOT / "build" / "stage" / "bin" / "tutti"
NEAR = ["1", "0"]


@pytest.fixture
def place():
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tutti-io-") as path:
        yield Path(path)


class Servers:
    """Servers of a user, by a mount file."""

    def __init__(self, place, names, *options):
        self.place, self.names, self.options = place, names, options
        self.mount = place / "mount"
        self.running = {}
        for name in names:
            self.start(name)

    def root(self, name):
        return self.place / name

    def start(self, name):
        """Starts one, again too; waits until it is entered."""
        self.root(name).mkdir(exist_ok=True)
        words = [TUTTI, "io-server", "--mount", self.mount, "--root", self.root(name), "--servers", len(self.names),
                 "--interface", "127.0.0.1", *self.options]
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = process.stdout.readline()
        assert said.startswith("server "), said + process.stdout.read()
        self.running[name] = process
        return said

    def kill(self, name):
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()

    def io(self, *words, status=0):
        """Runs `tutti io ...` and returns its output."""
        done = subprocess.run([str(word) for word in (TUTTI, "io", *words, "--mount", self.mount)], capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.kill(name)


class HostServers(Servers):
    """Servers on the hosts of a testbed, called as these are."""

    def __init__(self, testbed, *arguments):
        self.testbed = testbed
        super().__init__(*arguments)

    def start(self, name):
        self.root(name).mkdir(exist_ok=True)
        words = self.testbed.on(name, TUTTI, "io-server", "--mount", self.mount, "--root", self.root(name), "--servers",
                                len(self.names), "--interface", "eth0", *self.options)
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = process.stdout.readline()
        assert said.startswith("server "), said + process.stdout.read()
        self.running[name] = process
        return said
