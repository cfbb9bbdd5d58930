"""Io-servers, ranks and hosts that are killed at random moments, and devices that cannot sync.

A few kills here, from a seed that is told; KILLS=100 SEED=7 has many (`make stress`).
"""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from harness import check, marked
from hosts import Cluster
from servers import NEAR, TUTTI, HostServers, Servers, place  # noqa: F401 (a fixture)

KILLS = int(os.environ.get("KILLS", 3))
SEED = int(os.environ.get("SEED", time.time_ns() % 10**9))
NAMES = ["zero", "one", "two", "three"]
LIMIT = 120 + KILLS


def begin(tutti, ranks, file, stop, env=None):
    """Starts a job that runs until there is a file `stop`."""
    job = tutti.begin(ranks, tutti.compile("io_kills.c"), file, stop, env=env)
    assert job.until(lambda out, _: "going" in out, 60), job.errors()
    return job


def go(tutti, servers, ranks, near):
    """Starts the job of `begin` on io-servers."""
    env = {"TUTTI_IO_MOUNT": str(servers.mount), "TUTTI_IO_NEAR": near}
    return begin(tutti, ranks, "tutti:grid", servers.place / "stop", env=env)


def kill_a_rank(job, chance):
    """Kills one at random; how the job has ended."""
    ranks = [pid for pid in marked(job.mark) if Path(f"/proc/{pid}/comm").read_text().strip() == "io_kills"]
    os.kill(chance.choice(ranks), signal.SIGKILL)
    outcome = job.wait(LIMIT)
    assert outcome.status != 0 and not outcome.timed_out and not outcome.left, f"SEED={SEED}: {outcome}"


def pause(chance):
    time.sleep(chance.random() * 0.1)


def nothing_is_left(servers):
    """Checks that only files of the grid, the manifest and the server are left, and no hidden or incomplete
    file."""
    assert servers.io("check") == ""
    files = {path.name for name in servers.names for path in servers.root(name).rglob("*")}
    assert "grid" in files and not [name for name in files if name.startswith(".") or name.endswith(".new")], files


@pytest.mark.parametrize("near", NEAR)
def test_servers_are_killed_and_come_back(tutti, place, near, capsys):  # noqa: F811
    """The job continues and receives an error for each death. Acknowledged data is there."""
    chance = random.Random(SEED)
    with Servers(place, NAMES, "--stripe", 4096) as servers:
        job = go(tutti, servers, 4, near)
        for _ in range(KILLS):
            pause(chance)
            name = chance.choice(NAMES)
            servers.kill(name)
            pause(chance)
            servers.start(name)
        (place / "stop").touch()
        outcome = job.wait(LIMIT)
        assert outcome.status == 0 and not outcome.left, f"SEED={SEED}: {outcome}"
        with capsys.disabled():
            print(f" [{KILLS} kills: {outcome.out.splitlines()[1]}]", end="")
        nothing_is_left(servers)


@pytest.mark.parametrize("near", NEAR)
def test_ranks_are_killed(tutti, place, near):  # noqa: F811
    """The job ends, and servers and file are as good as before for the next one."""
    chance = random.Random(SEED)
    with Servers(place, NAMES, "--stripe", 4096) as servers:
        for _ in range(KILLS):
            job = go(tutti, servers, 3, near)
            pause(chance)
            kill_a_rank(job, chance)
            nothing_is_left(servers)
        (place / "stop").touch()
        check(go(tutti, servers, 3, near).wait(LIMIT))


def test_no_hidden_file_outlives_a_killed_rank(tutti, place):  # noqa: F811
    """Shared pointers have no file of their own."""
    kill_a_rank(begin(tutti, 3, place / "grid", place / "stop"), random.Random(SEED))
    assert [path.name for path in place.iterdir()] == ["grid"]


# System calls of a server that writes a manifest, in order. The server is killed at the call.
STEPS = [("write", 1, True), ("fsync", 1, True), ("renameat2", 1, True), ("fsync", 2, False)]


@pytest.mark.parametrize("call, number, missing", STEPS)
def test_a_manifest_is_there_whole_or_not_at_all(place, call, number, missing):  # noqa: F811
    """A server that is killed at each step of making a file, as strace does it."""
    if not shutil.which("strace"):
        pytest.skip("strace is missing")
    source = place / "source"
    source.write_bytes(os.urandom(10_000))
    # A second one alone has nothing to write before it makes a file.
    with Servers(place, ["zero"]) as servers:
        servers.io("cp", source, "tutti:before")
        servers.kill("zero")
        servers.start("zero")
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e",
                                   f"inject={call}:signal=KILL:when={number}", "-p", str(servers.running["zero"].pid)])
        status = Path(f"/proc/{servers.running['zero'].pid}/status")
        while tracer.poll() is None and "TracerPid:\t0\n" in status.read_text():
            time.sleep(0.01)
        assert servers.io("cp", source, "tutti:grid", status=1)
        assert servers.running["zero"].wait(10) == -signal.SIGKILL
        tracer.wait(10)
        servers.kill("zero")
        servers.start("zero")
        # A name with two strokes has parts and no manifest.
        files = {line.split()[3]: line.split()[1] for line in servers.io("ls").splitlines()}
        assert (files.get("grid", "-") == "-") == missing, files
        servers.io("cp", "tutti:before", place / "back")
        assert (place / "back").read_bytes() == source.read_bytes()
        # The file is created anew, and nothing of the first attempt remains.
        servers.io("cp", source, "tutti:grid")
        servers.io("cp", "tutti:grid", place / "back")
        assert (place / "back").read_bytes() == source.read_bytes()
        assert servers.io("check") == ""
        assert not [path for path in servers.root("zero").rglob("*") if path.name.endswith(".new")]


def test_hosts_of_servers_are_killed(tutti, hosts, capsys):
    """A host that falls silent causes an error that names its server, and the job on other hosts
    continues."""
    chance = random.Random(SEED)
    testbed = hosts(3)
    cluster = Cluster(tutti.name, testbed, 2)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tutti-io-") as path:
        with HostServers(testbed, Path(path), ["n1", "n2"], "--stripe", 4096) as servers:
            job = go(cluster, servers, 2, "1")
            for _ in range(1 + KILLS // 10):
                pause(chance)
                name = chance.choice(servers.names)
                testbed.act("kill", name)
                servers.kill(name)
                pause(chance)
                testbed.act("join", name)
                servers.start(name)
            (servers.place / "stop").touch()
            outcome = job.wait(LIMIT)
            assert outcome.status == 0, f"SEED={SEED}: {outcome}"
            with capsys.disabled():
                print(f" [{outcome.out.splitlines()[1]}]", end="")
    assert not testbed.idle()


def test_a_sync_that_failed_is_told_until_the_file_is_closed(tutti, place):  # noqa: F811
    """By the system, and by a server whose device has failed."""
    library = tutti.compile("fail_fsync.c", "-shared", "-fPIC", name="fail_fsync.so")
    broken = {"LD_PRELOAD": str(library), "FAIL_FSYNC": str(place / "mark")}
    program = tutti.compile("files_sync.c")
    check(tutti.run(2, program, place / "file", place / "mark", env=broken))
    options = ["--io-servers", 2, "--io-root", place / "servers"]
    for near in NEAR:
        env = {**broken, "TUTTI_IO_NEAR": near}
        check(tutti.run(2, program, "tutti:file", place / "mark", options=options, env=env))
