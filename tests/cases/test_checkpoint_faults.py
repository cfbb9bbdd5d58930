"""Kills at every step of a checkpoint and of a restart: the newest whole set goes on, to the same result."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from harness import Job
from hosts import Cluster, Testbed, refusal
from keeping import PATIENCE, Gate, command, ends_right, instants, until, until_kept
from keeping import keep as keep_here
from keeping_here import lasting_here
from keeping_hosts import begin, keep, lasting_on, mpirun_of, restart

VICTIMS = ["rank", "node", "supervisor", "host"]
HOSTS, RANKS = 2, 4
# Steps that come after the ranks of a restart are made, or before; the others are of the checkpoint itself.
RESTART = ("listen", "connect", "release")
# Before steps of a checkpoint that is written from copies.
FORKED = "forked:"


@pytest.fixture(scope="module")
def cluster(mpi, tmp_path_factory):
    """Creates two hosts that share a directory."""
    if not mpi.is_tutti:
        pytest.skip("only Tutti keeps jobs")
    if why := refusal():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("kills")
    testbed = Testbed(HOSTS, share=[folder])
    cluster = Cluster(mpi.name, testbed, 2)
    cluster.folder = folder
    yield cluster
    testbed.down()
    shutil.rmtree(folder, ignore_errors=True)


def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0]
    except OSError:
        return "-"


def find(cluster, name, host=None):
    return [pid for where, pid, what in cluster.testbed.processes() if what == name and host in (None, where)]


def until_stopped(cluster):
    are_there = lambda: any(state(pid) == "T" for pid in find(cluster, "tutti-node"))
    until(are_there, "no daemon has come to that step")


def kill(cluster, job, victim):
    """Kills a victim and returns the numbers of its processes. The list is empty where a restart has not yet
    created the ranks of that host."""
    if victim == "supervisor":
        pids = [mpirun_of(job)]
    elif victim == "host":
        pids = [pid for host, pid, _ in cluster.testbed.processes() if host == "n1"]
    else:
        pids = find(cluster, {"rank": "kept", "node": "tutti-node"}[victim], "n1")[:1]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return pids


def end(cluster, job):
    """Waits for the end of the job. Daemons that stop at the step again are continued."""
    limit = time.monotonic() + PATIENCE
    while (left := cluster.testbed.processes()) and time.monotonic() < limit:
        for _, pid, name in left:
            if name == "tutti-node" and state(pid) == "T":
                os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    assert not left, (left, job.output(), job.errors())
    return job.wait(PATIENCE)


def test_whoever_is_killed_at_whatever_step(cluster):
    chance = instants("steps")
    program = cluster.compile("kept.c")
    rounds, expected, _ = lasting_on(cluster, program, ranks=RANKS)
    steps = command(cluster, "checkpoints", "--steps").stdout.split()
    assert len(steps) > 10
    cases = [(step, victim) for step in steps for victim in VICTIMS]
    count = os.environ.get("KILLS", "5")
    if count != "all":
        cases = chance.sample(cases, min(len(cases), int(count)))
    for number, (step, victim) in enumerate(cases):
        print(step, victim)
        place, gate = cluster.folder / f"sets-{number}", Gate(cluster.folder / f"gate-{number}")
        job = kill_at(cluster, step, victim, place, gate, (program, rounds, expected))
        gate.open()
        outcome = restart(cluster, place, job, cluster.testbed.hosts).wait(PATIENCE)
        assert ends_right(outcome, expected), f"{step} {victim}: {outcome}"
        shutil.rmtree(place)


def kill_at(cluster, step, victim, place, gate, given):
    """Takes a checkpoint of a job and kills a victim at a step of the next checkpoint, or of its restart."""
    program, rounds, expected = given
    of_restart = step.startswith(RESTART)
    stop = {"TUTTI_DEBUG": f"checkpoint_stop={1 if of_restart else 2}:{step}"}
    stop["TUTTI_CHECKPOINT_WRITING"] = "fork" if step.startswith(FORKED) else "still"
    env = {**gate.env, **({} if of_restart else stop)}
    job = begin(cluster, program, (rounds, "all"), place, env=env, ranks=RANKS)
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    done = keep(cluster, job, *(["--stop"] if of_restart else []))
    assert done.returncode == 0, done
    asking = None
    if of_restart:
        assert job.wait(PATIENCE).status == 0
        job = restart(cluster, place, job, cluster.testbed.hosts, env=stop)
    else:
        words = cluster.testbed.on("n0", cluster.prefix / "bin" / "tutti", "checkpoint", mpirun_of(job))
        words = [str(word) for word in words]
        asking = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until_stopped(cluster)
    killed = kill(cluster, job, victim)
    if not killed:
        # A daemon stands still before it has made ranks: nothing has happened to the job.
        assert of_restart and victim == "rank", f"{step} {victim}: nobody is there"
        gate.open()
    outcome = end(cluster, job)
    if asking:
        asking.wait(PATIENCE)
    # With the gate closed nothing but the kill has ended it.
    is_right = outcome.status != 0 if killed else ends_right(outcome, expected)
    assert is_right, f"{step} {victim}: {outcome}"
    return job


def test_a_job_goes_on_without_a_host_that_is_lost(cluster):
    program = cluster.compile("kept.c")
    rounds, expected, _ = lasting_on(cluster, program, ranks=RANKS)
    place, gate = cluster.folder / "lost", Gate(cluster.folder / "gate-lost")
    options = ["--checkpoint-every", "0.3s", "--restart-on-failure", "2"]
    job = begin(cluster, program, (rounds, "all"), place, options=options, env=gate.env, ranks=RANKS)
    until_kept(job, place)
    kill(cluster, job, "host")
    has_begun = lambda out, err: "the job goes on from checkpoint" in err
    assert job.until(has_begun, PATIENCE), job.errors()
    gate.open()
    outcome = job.wait(PATIENCE)
    assert ends_right(outcome, expected), outcome
    shutil.rmtree(place)


def test_a_disk_that_is_full_costs_the_checkpoint_alone(tutti, mpi, tmp_path):
    """Some room is left: the write that finds its end is cut short, and the next is refused."""
    assert tutti
    if os.geteuid():
        pytest.skip("takes root, to mount a small disk")
    place, gate = tmp_path / "disk", Gate(tmp_path / "gate")
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400M", "none", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not permitted")
    try:
        program = mpi.compile("kept.c")
        rounds, expected, _ = lasting_here(mpi, program, 2, "all", 0.5)
        job = mpi.begin(2, program, rounds, "all", options=["--checkpoint-dir", place / "sets"], env=gate.env)
        assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
        done = keep_here(mpi, job)
        assert done.returncode == 0, done
        room = os.statvfs(place)
        # Less than the list of blocks takes, if not one has changed.
        with open(place / "ballast", "wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, max(1, (room.f_bavail - 4) * room.f_bsize))
        done = keep_here(mpi, job)
        assert done.returncode == 1 and "No space left" in done.stderr, done
        assert "the job runs on" in done.stderr, done
        gate.open()
        outcome = job.wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
        outcome = Job([mpi.mpirun, "--restart", place / "sets"], mpi.env, mark=job.mark).wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
        assert sorted(entry.name for entry in (place / "sets").iterdir()) == ["1"]
    finally:
        subprocess.run(["umount", place], check=True)
