"""Sets written from copies of ranks, which continue meanwhile, and packed sets. The tests check the results,
that the program does not see the copies, and that the copies end."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from harness import by_age, marked
from keeping import (PATIENCE, checksum, command, ends_right, instants, keep, kill, name_of, newest, restart,
                     until)
from keeping_here import KINDS, gate, lasting_here, place  # noqa: F401 (fixtures)

FORK = {"TUTTI_CHECKPOINT_WRITING": "fork"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_goes_on_while_it_is_written(mpi, place, gate, kind, tmp_path, monkeypatch):  # noqa: F811
    """Killed or not, packed or not: a set is of the moment when all stood still."""
    monkeypatch.setitem(mpi.env, "KEPT_FILE", str(tmp_path / "file"))
    monkeypatch.setitem(mpi.env, "TUTTI_CHECKPOINT_WRITING", "fork")
    chance = instants(f"forks {kind}")
    program = mpi.compile("kept.c")
    ranks = 2 + 2 * (kind == "all")
    rounds, expected, seconds = lasting_here(mpi, program, ranks, kind, 0.5)
    for instant in range(int(os.environ.get("INSTANTS", 2))):
        monkeypatch.setitem(mpi.env, "TUTTI_CHECKPOINT_PACKING", ["always", "never"][instant % 2])
        shutil.rmtree(place, ignore_errors=True)
        job = mpi.begin(ranks, program, rounds, kind, options=["--checkpoint-dir", place], env=gate.env)
        for number in 1, 2:
            time.sleep(chance.random() * seconds / 3)
            done = keep(mpi, job)
            assert done.returncode == 0 and f"checkpoint {number} is whole" in done.stdout, done
        if instant % 2:
            kill(job, "rank")
            outcome = job.wait(PATIENCE)
            assert outcome.status and not outcome.left, outcome
            gate.open()
        else:
            gate.open()
            outcome = job.wait(PATIENCE)
            assert ends_right(outcome, expected) and "whole" not in outcome.err, outcome
        for number in (1, 2):
            outcome = restart(mpi, f"{place}:{number}", job).wait(PATIENCE)
            assert ends_right(outcome, expected) and not outcome.err, outcome
        gate.close()


def parent_of(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()[1])


def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1][0]
    except OSError:
        return "-"


def named(job, name):
    return [pid for pid in marked(job.mark) if name_of(pid) == name]


def begin_and_stop(mpi, place, gate, step):  # noqa: F811
    """Starts a job whose daemon stops at a step of its first checkpoint, written from copies. Returns the job
    and the daemon."""
    env = {**FORK, "TUTTI_DEBUG": f"checkpoint_stop=1:{step}"}
    options = ["--checkpoint-dir", place, "--checkpoint-on", "USR2"]
    job = mpi.begin(2, mpi.compile("advised.c"), gate.path, options=options, env=env)
    assert job.until(lambda out, err: "ready" in out, PATIENCE), job.errors()
    # A process that the daemon starts keeps the daemon's name until it runs another program.
    node = until(lambda: by_age(named(job, "tutti-node")), "there is no daemon")[0]

    while state(node) != "T":
        assert job.process.poll() is None, (job.output(), job.errors())
        early = job.errors().count("is not started yet")
        os.kill(job.process.pid, signal.SIGUSR2)
        # Signals before the start of the job request no checkpoint.
        until(lambda: state(node) == "T" or job.errors().count("is not started yet") > early, job.errors)
    return job, node


def test_nobody_sees_the_copies(mpi, place, gate):  # noqa: F811
    job, node = begin_and_stop(mpi, place, gate, "write:before")
    ranks, copies = named(job, "advised"), named(job, "tutti-keeper")
    assert len(ranks) == 2 and len(copies) == 2, (ranks, copies)
    for rank in ranks:
        assert open(f"/proc/{rank}/task/{rank}/children").read() == ""
        assert state(rank) != "t", "ranks go on"
    for copy in copies:
        assert parent_of(copy) == node and state(copy) == "t"
        assert os.listdir(f"/proc/{copy}/fd") == []
    os.kill(node, signal.SIGCONT)
    assert job.until(lambda out, err: "checkpoint 1 is whole" in err, PATIENCE), job.errors()
    until(lambda: not named(job, "tutti-keeper"), job.errors)
    gate.open()
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out) and not outcome.left, outcome
    again = restart(mpi, place, job).wait(PATIENCE)
    assert ends_right(again, checksum(outcome.out)), again


@pytest.mark.parametrize("step", ["fork:after", "thaw:after", "write:before"])
def test_copies_end_with_their_daemon(mpi, place, gate, step):  # noqa: F811
    job, node = begin_and_stop(mpi, place, gate, step)
    assert len(named(job, "tutti-keeper")) == 2
    os.kill(node, signal.SIGKILL)
    outcome = job.wait(PATIENCE)
    assert outcome.status and not outcome.left and newest(place) == 0, outcome


def test_a_job_ends_while_it_is_written(mpi, place, gate):  # noqa: F811
    job, node = begin_and_stop(mpi, place, gate, "write:before")
    ranks = named(job, "advised")
    gate.open()
    until(lambda: all(not Path(f"/proc/{rank}").exists() or state(rank) == "Z" for rank in ranks), job.errors)
    os.kill(node, signal.SIGCONT)
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out) and not outcome.left, outcome
    # The set became whole, or it is not there.
    left = [entry.name for entry in place.iterdir()]
    assert left in ([], ["1"]), left
    if left:
        listed = command(mpi, "checkpoints", "--verify", place)
        assert listed.returncode == 0 and "whole" in listed.stdout, listed


def test_a_copy_that_is_killed_costs_the_checkpoint_alone(mpi, place, gate):  # noqa: F811
    job, node = begin_and_stop(mpi, place, gate, "thaw:before")
    os.kill(named(job, "tutti-keeper")[0], signal.SIGKILL)
    os.kill(node, signal.SIGCONT)
    # The checkpoint may have been written before the kill.
    is_over = lambda out, err: "checkpoint 1 is whole" in err or "no checkpoint" in err
    assert job.until(is_over, PATIENCE), job.errors()
    gate.open()
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out) and not outcome.left, outcome
    if newest(place):
        assert ends_right(restart(mpi, place, job).wait(PATIENCE), checksum(outcome.out))


def test_packed_sets_are_smaller(mpi, place, gate, tmp_path):  # noqa: F811
    program, sizes = mpi.compile("kept.c"), {}
    for packing in "never", "always":
        folder = tmp_path / packing
        env = {**gate.env, "TUTTI_CHECKPOINT_PACKING": packing}
        job = mpi.begin(2, program, 0, "compute", options=["--checkpoint-dir", folder], env=env)
        assert job.until(lambda out, err: "computes" in out, PATIENCE), job.errors()
        done = keep(mpi, job)
        assert done.returncode == 0, done
        sizes[packing] = sum(file.stat().st_size for file in (folder / "1").iterdir())
        gate.open()
        outcome = job.wait(PATIENCE)
        again = restart(mpi, folder, job).wait(PATIENCE)
        assert outcome.status == 0 and ends_right(again, checksum(outcome.out)), again
        gate.close()
    assert sizes["always"] < sizes["never"], sizes
