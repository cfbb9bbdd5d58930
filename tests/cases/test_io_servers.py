"""Io-servers: files striped over them, with jobs and of a user; deaths, full disks, `tutti io`."""

import os
import random
import stat
import subprocess
import sys
import tempfile
import time

import pytest

from harness import ROOT, check
from hosts import Cluster
from servers import NEAR, TUTTI, Servers, place  # noqa: F401 (a fixture)

STRIPES = ["striping_unit", "1000"]


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("mode", ["scratch", "forward"])
def test_files_of_servers_of_a_job(tutti, place, near, mode):
    options = ["--io-servers", 3, "--io-root", place, "--io-mode", mode]
    if mode == "forward":
        (place / "d").mkdir()
    env = {"TUTTI_IO_NEAR": near}
    check(tutti.run(2, tutti.compile("files.c"), "tutti:d", options=options, env=env))
    check(tutti.run(3, tutti.compile("files_random.c"), "tutti:d", random.randrange(1000), 60, *STRIPES, options=options, env=env))
    outcome = tutti.run(2, tutti.compile("files_random.c"), "tutti:d", random.randrange(1000), 40, "romio_cb_write", "enable",
                        "romio_cb_read", "enable", "cb_buffer_size", "4096", options=options, env=env)
    check(outcome)
    assert not outcome.left


def test_files_of_servers_on_hosts(tutti, hosts):
    """A server on each of two hosts: one near, one far."""
    cluster = Cluster(tutti.name, hosts(2), 2)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tutti-io-") as path:
        options = ["--io-servers", 2, "--io-root", path]
        check(cluster.run(4, cluster.compile("files.c"), "tutti:d", options=options))
        check(cluster.run(4, cluster.compile("files_random.c"), "tutti:d", random.randrange(1000), 40, *STRIPES, options=options))


def test_names_without_servers_say_what_to_do(tutti):
    outcome = tutti.run(1, tutti.compile("io_servers.c"), "tutti:d", "true")
    assert outcome.status != 0 and "--io-servers" in outcome.err, str(outcome)


@pytest.mark.parametrize("near", NEAR)
def test_servers_die_and_come_back(tutti, place, near):
    with Servers(place, ["zero", "one"]) as servers:
        # Rank 0 sends requests, and this process executes them.
        asked, done = place / "asked", place / "done"
        os.mkfifo(asked)
        os.mkfifo(done)
        script = place / "ask"
        script.write_text(f"#!/bin/sh\necho $1 > {asked}\nread answer < {done}\n")
        script.chmod(0o755)
        job = tutti.begin(2, tutti.compile("io_servers.c"), "tutti:grid", script,
                          env={"TUTTI_IO_MOUNT": str(servers.mount), "TUTTI_IO_NEAR": near})
        for expected in ("kill", "again", "swap"):
            word = read_line(asked, job)
            assert word == expected, (word, job.output(), job.errors())
            if word in ("kill", "swap"):
                servers.kill("one")
            if word == "swap":
                # Simulates a crash of the server's host: the server finds a directory that seems to be
                # another one.
                (servers.root("one") / "server.tutti").unlink()
            if word in ("again", "swap"):
                servers.start("one")
            done.write_text("ok\n")
        check(job.wait(60))


def read_line(fifo, job, seconds=60):
    """Reads a line from a pipe whose writer may never come."""
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    limit = time.monotonic() + seconds
    text = b""
    while not text.endswith(b"\n") and time.monotonic() < limit and job.process.poll() is None:
        try:
            text += os.read(fd, 100)
        except BlockingIOError:
            pass
        time.sleep(0.01)
    os.close(fd)
    return text.decode().strip()


def test_copy_list_and_check(place):
    with Servers(place, ["a", "b", "c"], "--stripe", 4096) as servers:
        assert stat.S_IMODE(servers.mount.stat().st_mode) == 0o600
        data = os.urandom(100_001)
        source = place / "source"
        source.write_bytes(data)
        servers.io("cp", source, "tutti:deep/grid")
        servers.io("cp", "tutti:deep/grid", place / "back")
        assert (place / "back").read_bytes() == data
        assert servers.io("ls") == "100001 3 4096 deep/grid\n"
        assert servers.io("check") == ""
        # Every server has its stripes at their places, and no other data.
        for number, name in enumerate(servers.names):
            part = (servers.root(name) / "deep/grid").read_bytes()
            for start in range(0, len(part), 4096):
                own = start // 4096 % 3 == number
                assert part[start:start + 4096] == (data[start:start + 4096] if own else bytes(len(part[start:start + 4096])))
        (servers.root("b") / "deep/grid").unlink()
        assert "server 1 is lost" in servers.io("check", status=1)
        assert "lost" in servers.io("cp", "tutti:deep/grid", place / "back", status=1)


def test_nobody_with_another_key_is_served(place):
    with Servers(place, ["a"]) as servers:
        text = servers.mount.read_text()
        key = next(line for line in text.splitlines() if line.startswith("key "))
        servers.mount.write_text(text.replace(key, "key " + "0" * 32))
        assert "key" in servers.io("ls", status=1)
        servers.mount.chmod(0o644)
        assert "others can read it" in servers.io("ls", status=1)


def test_a_full_disk_is_no_space_on_every_rank(tutti, place):
    """A file system of 1 MiB, in a namespace of its own: that of the ranks, then that of one of the
    servers."""
    program = tutti.compile("files_full.c")
    script = place / "full"
    (place / "small").mkdir()
    job = " ".join(str(word) for word in tutti.command(
        4, program, place / "small" / "file", "tutti:file",
        options=["--io-servers", 4, "--io-root", place / "servers"]))
    script.write_text(f"set -e\nmount -t tmpfs -o size=1m none {place}/small\nmkdir -p {place}/servers/server-2\n"
                      f"mount -t tmpfs -o size=1m none {place}/servers/server-2\n{job}\n")
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", str(script)], env=tutti.env,
                          capture_output=True, text=True, timeout=120)
    if "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_on_four_hosts(hosts):
    """`make io`: data copied from the servers has the checksum of the field, whichever rank computes it."""
    hosts(2)
    words = [sys.executable, ROOT / "examples" / "io" / "run.py", ROOT / "build" / "stage", "--side", "128"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "131072 4 65536 grid" in done.stdout and "read as tiles" in done.stdout, done.stdout
