"""Jobs that are stopped, kept, killed and made again: the same results, at random instants."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from harness import Job
from keeping import (PATIENCE, Gate, checksum, command, ends_right, instants, keep, keep_and_stop, kill,
                     lasting, newest, restart, until, until_kept)
from keeping_here import KINDS, gate, lasting_here, place, reference  # noqa: F401 (fixtures)
from servers import NEAR, Servers


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_goes_on_where_it_was(mpi, place, gate, kind, tmp_path, monkeypatch):
    monkeypatch.setitem(mpi.env, "KEPT_FILE", str(tmp_path / "file"))
    chance = instants(kind)
    program = mpi.compile("kept.c")
    ranks = 2 + 2 * (kind == "all")
    rounds, expected, seconds = lasting_here(mpi, program, ranks, kind, 0.5)
    # A chain of three restarts, as often as instants are wanted.
    for instant in range(int(os.environ.get("INSTANTS", 2))):
        if instant % 3 == 0:
            # A directory is one job's.
            shutil.rmtree(place, ignore_errors=True)
            job = mpi.begin(ranks, program, rounds, kind, env=gate.env)
        else:
            job = restart(mpi, place, job)
        time.sleep(chance.random() * seconds / 2)
        keep_and_stop(mpi, job, place)
        gate.open()
        outcome = restart(mpi, place, job).wait(PATIENCE)
        assert ends_right(outcome, expected) and not outcome.err, outcome
        gate.close()


@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("whose", ["job", "user"])
def test_files_over_io_servers_go_on(mpi, place, gate, tmp_path, whose, near):
    """Servers of the job are started again; those of the user, one of them at another port, are found
    again."""
    chance = instants(whose + near)
    env = {"KEPT_FILE": "tutti:kept", "TUTTI_IO_NEAR": near}
    options = ["--io-servers", 2, "--io-root", tmp_path] if whose == "job" else []
    program = mpi.compile("kept.c")
    with Servers(tmp_path, ["zero", "one"] if whose == "user" else []) as servers:
        if whose == "user":
            env["TUTTI_IO_MOUNT"] = str(servers.mount)
        measured = lambda rounds: mpi.run(2, program, rounds, "file", options=options, env=env, seconds=PATIENCE)
        measure = lambda rounds: (checksum((outcome := measured(rounds)).out), outcome.seconds)
        rounds, expected, seconds = lasting(measure, 200, 0.5)
        job = mpi.begin(2, program, rounds, "file", options=[*options, "--checkpoint-dir", place], env={**env, **gate.env})
        for instant in range(int(os.environ.get("INSTANTS", 3))):
            time.sleep(chance.random() * seconds / 2)
            keep_and_stop(mpi, job, place)
            if whose == "user":
                servers.kill("one")
                servers.start("one")
            job = restart(mpi, place, job)
        gate.open()
        outcome = job.wait(PATIENCE)
    assert ends_right(outcome, expected) and not outcome.err, outcome


def test_a_job_that_computes_is_frozen_at_once(mpi, place, gate):
    program = mpi.compile("kept.c")
    job = mpi.begin(2, program, 0, "compute", options=["--checkpoint-dir", place], env=gate.env)
    assert job.until(lambda out, err: "computes" in out, PATIENCE), job.errors()
    done = keep(mpi, job)
    assert done.returncode == 0 and "checkpoint 1 is whole" in done.stdout, done
    gate.open()
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out), outcome


def test_a_second_set_has_what_has_changed(mpi, place, gate):
    program = mpi.compile("kept.c")
    options = ["--checkpoint-dir", place, "--checkpoint-on", "USR2"]
    job = mpi.begin(2, program, 0, "compute", options=options, env=gate.env)
    assert job.until(lambda out, err: "computes" in out, PATIENCE), job.errors()
    for number in 1, 2:
        os.kill(job.process.pid, signal.SIGUSR2)
        is_whole = lambda out, err, number=number: f"checkpoint {number} is whole" in err
        assert job.until(is_whole, PATIENCE), job.errors()
    bytes_of = [sum(file.stat().st_size for file in (place / str(number)).iterdir()) for number in (1, 2)]
    assert bytes_of[1] < bytes_of[0] / 2, bytes_of
    listed = command(mpi, "checkpoints", "--verify", place)
    assert listed.returncode == 0 and listed.stdout.count("whole") == 2, listed
    gate.open()
    assert job.wait(PATIENCE).status == 0
    outcome = restart(mpi, f"{place}:1", job).wait(PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out), outcome


def test_no_privilege_is_needed(mpi):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("takes root, to be somebody else, and setpriv")
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
            "--no-new-privs"]
    folder = Path(tempfile.mkdtemp(prefix="tutti-checkpoint-"))
    try:
        folder.chmod(0o777)
        program = shutil.copy(mpi.compile("kept.c"), folder)
        rounds, expected, _ = lasting_here(mpi, program, 2, "all", 0.5)
        gate = Gate(folder / "gate")
        if subprocess.run([*user, mpi.mpirun, "--version"], capture_output=True).returncode:
            pytest.skip("others may not execute what is staged here")
        job = Job([*user, mpi.mpirun, "-n", 2, program, rounds, "all"], {**mpi.env, **gate.env})
        assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
        words = ["checkpoint", job.process.pid, "--stop", "--dir", folder / "sets"]
        words = [str(word) for word in (*user, mpi.prefix / "bin" / "tutti", *words)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done
        assert job.wait(PATIENCE).status == 0
        gate.open()
        words = [*user, mpi.mpirun, "--restart", folder / "sets"]
        outcome = Job(words, mpi.env, mark=job.mark).wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("word", ["now", "stop"])
def test_a_program_asks_for_it_itself(mpi, place, gate, word):
    program = mpi.compile("asks.c")
    expected, _ = reference(mpi, program, 2)
    job = mpi.begin(2, program, word, gate.path, options=["--checkpoint-dir", place])
    is_whole = lambda out, err: "checkpoint 1 is whole" in err
    assert job.until(is_whole, PATIENCE), job.errors()
    if word == "stop":
        assert job.wait(PATIENCE).status == 0
    gate.open()
    if word == "now":
        outcome = job.wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
    outcome = restart(mpi, place, job).wait(PATIENCE)
    assert ends_right(outcome, expected), outcome


def test_a_program_that_cannot_be_kept_is_told(mpi, place, gate):
    """A request for a checkpoint fails without mpirun. With mpirun but without a directory, mpirun reports
    this and the program continues."""
    program = mpi.compile("asks.c")
    alone = subprocess.run([program, "now"], capture_output=True, text=True, env=mpi.env, timeout=PATIENCE)
    assert alone.returncode != 0 and "ask(word) == MPI_SUCCESS" in alone.stderr, alone
    job = mpi.begin(2, program, "now", gate.path)
    is_told = lambda out, err: "there is no directory for it: --checkpoint-dir" in err
    assert job.until(is_told, PATIENCE), job.errors()
    gate.open()
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and not place.exists(), outcome


@pytest.mark.parametrize("victim", ["rank", "node", "supervisor"])
def test_whoever_is_killed_the_newest_whole_set_goes_on(mpi, place, gate, victim):
    chance = instants(victim)
    program = mpi.compile("kept.c")
    rounds, expected, _ = lasting_here(mpi, program, 2, "all", 1)
    options = ["--checkpoint-dir", place, "--checkpoint-every", "0.1s"]
    job = mpi.begin(2, program, rounds, "all", options=options, env=gate.env)
    for _ in range(int(os.environ.get("KILLS", 4))):
        # A restart, too, has written one of its own.
        until_kept(job, place, newest(place))
        time.sleep(0.3 * chance.random())
        kill(job, victim)
        outcome = job.wait(PATIENCE)
        assert outcome.status and not outcome.left, outcome
        job = restart(mpi, place, job, "--checkpoint-every", "0.1s")
    gate.open()
    outcome = job.wait(PATIENCE)
    assert ends_right(outcome, expected), outcome


def test_a_job_goes_on_by_itself(mpi, place, gate):
    program = mpi.compile("kept.c")
    rounds, expected, _ = lasting_here(mpi, program, 2, "all", 1)
    options = ["--checkpoint-dir", place, "--checkpoint-every", "0.1s", "--restart-on-failure", "3"]
    job = mpi.begin(2, program, rounds, "all", options=options, env=gate.env)
    for restarts in 1, 2:
        until_kept(job, place, newest(place))
        kill(job, "rank")
        goes_on = "the job goes on from checkpoint"
        has_begun = lambda out, err, restarts=restarts: err.count(goes_on) == restarts
        assert job.until(has_begun, PATIENCE), job.errors()
    gate.open()
    outcome = job.wait(PATIENCE)
    assert ends_right(outcome, expected), outcome


def make_sets(mpi, place, gate, *arguments, sets=2):
    """Sets of a job that is ended with the last."""
    job = mpi.begin(*arguments, options=["--checkpoint-dir", place], env=gate.env)
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    for number in range(1, sets + 1):
        time.sleep(0.1)
        done = keep(mpi, job, *(["--stop"] if number == sets else []))
        assert done.returncode == 0, done
    assert job.wait(PATIENCE).status == 0
    return job


@pytest.mark.parametrize("packing", ["never", "always"])
def test_damage_is_found_and_the_older_set_is_used(mpi, place, gate, monkeypatch, packing):
    monkeypatch.setitem(mpi.env, "TUTTI_CHECKPOINT_PACKING", packing)
    chance = instants("damage")
    program = mpi.compile("kept.c")
    rounds, expected, _ = lasting_here(mpi, program, 2, "all", 0.5)
    job = make_sets(mpi, place, gate, 2, program, rounds, "all")
    gate.open()
    for name in "rank-0", "rank-1", "host-0", "manifest":
        file = place / "2" / name
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        file.write_bytes(damaged)
        outcome = restart(mpi, place, job).wait(PATIENCE)
        assert ends_right(outcome, expected), (name, outcome)
        assert name in outcome.err and "going back to checkpoint 1" in outcome.err, outcome
        file.write_bytes(whole)
    (place / "1" / "rank-1").write_bytes(b"nothing")
    (place / "2" / "rank-1").write_bytes(b"nothing")
    outcome = restart(mpi, place, job).wait(PATIENCE)
    assert outcome.status == 3 and "rank-1" in outcome.err, outcome


def test_a_job_that_was_made_again_starts_further_processes(mpi, place, gate):
    program = mpi.compile("spawns.c")
    job = mpi.begin(2, program, gate.path)
    assert job.until(lambda out, err: "waits" in out, PATIENCE), job.errors()
    keep_and_stop(mpi, job, place)
    gate.open()
    outcome = restart(mpi, place, job).wait(PATIENCE)
    assert ends_right(outcome, "84"), outcome


@pytest.fixture
def unwritable(tmp_path):
    """A directory that cannot be written, and what the system says of it."""
    folder = tmp_path / "unwritable"
    folder.mkdir(mode=0o500)
    mounted = os.geteuid() == 0
    if mounted and subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", folder]).returncode:
        pytest.skip("mounting is not permitted")
    yield folder, "Read-only file system" if mounted else "Permission denied"
    if mounted:
        subprocess.run(["umount", folder], check=True)


def test_a_directory_is_one_jobs(mpi, place, gate):
    """A set of another job would be deleted, or gone on from, by mistake."""
    program = mpi.compile("kept.c")
    job = make_sets(mpi, place, gate, 1, program, 200, "all", sets=1)
    outcome = mpi.run(1, program, 200, "all", options=["--checkpoint-dir", place])
    assert outcome.status == 2 and "has checkpoints of another job (set 1: " in outcome.err, outcome
    other = mpi.begin(1, program, 0, "compute", env=gate.env)
    assert other.until(lambda out, err: "computes" in out, PATIENCE), other.errors()
    done = keep(mpi, other, "--dir", place)
    assert done.returncode == 1 and "of another job" in done.stderr and "the job runs on" in done.stderr, done
    gate.open()
    assert other.wait(PATIENCE).status == 0
    assert restart(mpi, place, job).wait(PATIENCE).status == 0


def test_wrong_input_has_one_clear_sentence(mpi, place, gate, tmp_path, unwritable):
    program = mpi.compile("kept.c")

    def check(words, part, status):
        outcome = mpi.run_words(words)
        assert outcome.status == status and part in outcome.err, outcome

    check(["--restart", place], f"no checkpoint: {place}", 3)
    tmp_path.joinpath("empty").mkdir()
    check(["--restart", tmp_path / "empty"], "there is no checkpoint in", 3)
    check(["--restart", f"{tmp_path / 'empty'}:7"], "no checkpoint 7", 3)
    done = command(mpi, "checkpoint", os.getpid())
    assert done.returncode == 1 and "is no mpirun of yours" in done.stderr, done
    for directory, part in ("/proc/nothing", "/proc/nothing"), ("/dev/null", "Not a directory"), unwritable:
        check(["--checkpoint-dir", directory, "-n", 1, program, 0, "compute"], part, 2)
        job = mpi.begin(1, program, 0, "compute", env=gate.env)
        assert job.until(lambda out, err: "computes" in out, PATIENCE), job.errors()
        done = keep(mpi, job, "--dir", directory)
        assert done.returncode == 1 and part in done.stderr and "the job runs on" in done.stderr, done
        gate.open()
        assert job.wait(PATIENCE).status == 0
        gate.close()


PYTHON = """
import hashlib, os, sys, threading, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
generator, total = np.random.default_rng(7 + world.rank), np.zeros(20000)
done = threading.Event()
counted = [0]
def count():
    while not done.wait(0.01):
        counted[0] += 1
threading.Thread(target=count).start()
for step in range(int(sys.argv[1])):
    while world.rank == 0 and step == int(sys.argv[1]) - 1 and not os.path.exists(sys.argv[2]):
        time.sleep(0.002)
    mine, all = generator.random(20000), np.empty(20000)
    world.Allreduce(mine, all)
    matrix = all[:10000].reshape(100, 100)
    total[:10000] += (matrix @ matrix.T).ravel() / 100
    if world.rank == 0 and step % 100 == 0:
        print("step", step, flush=True)
done.set()
if world.rank == 0:
    print("checksum", hashlib.md5(total.tobytes()).hexdigest(), flush=True)
"""


def test_python_with_threads_and_numpy(mpi, place, gate, tmp_path):
    python = mpi.prefix.parent / "python" / "bin" / "python"
    if not python.exists():
        pytest.skip("build/python is missing")
    program = tmp_path / "program.py"
    program.write_text(PYTHON)
    env = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    gate.open()
    outcome = mpi.run(2, python, program, 40, gate.path, env=env, seconds=PATIENCE)
    if "No module named" in outcome.err:
        pytest.skip("mpi4py or numpy is missing")
    expected = checksum(outcome.out)
    assert expected, outcome
    gate.close()
    job = mpi.begin(2, python, program, 40, gate.path, env=env)
    assert job.until(lambda out, err: "step 0" in out, PATIENCE), job.errors()
    time.sleep(0.2)
    keep_and_stop(mpi, job, place)
    gate.open()
    outcome = restart(mpi, place, job).wait(PATIENCE)
    assert ends_right(outcome, expected), outcome


def test_a_thread_that_holds_the_lock_of_the_loader_goes_on(mpi, place, gate):
    """Any thread that loads a library holds the loader's lock. The lock stores the number of the thread,
    which differs after a restart."""
    job = mpi.begin(1, mpi.compile("loader_lock.c"), gate.path)
    assert job.until(lambda out, err: "holds it" in out, PATIENCE), job.errors()
    keep_and_stop(mpi, job, place)
    gate.open()
    outcome = restart(mpi, place, job).wait(30)
    assert outcome.status == 0 and not outcome.timed_out and "ok" in outcome.out, outcome


FILE = """
import itertools, os, sys, time
out = open(sys.argv[1], "w")
for line in itertools.count():
    out.write(f"{line}\\n")
    out.flush()
    time.sleep(0.005)
    if line > 100 and os.path.exists(sys.argv[2]):
        break
"""


def test_files_are_cut_back(mpi, place, gate, tmp_path):
    program, file = tmp_path / "program.py", tmp_path / "file"
    program.write_text(FILE)
    job = mpi.begin(1, "python3", program, file, gate.path, options=["--checkpoint-dir", place])

    def lines():
        return file.read_text().count("\n") if file.exists() else 0

    until(lambda: lines() > 20, job.errors)
    assert keep(mpi, job).returncode == 0
    # More is written than what is kept.
    before = lines()
    until(lambda: lines() > before + 20, job.errors)
    kill(job, "supervisor")
    job.wait(PATIENCE)
    gate.open()
    outcome = restart(mpi, place, job, "--restart-files", "refuse").wait(PATIENCE)
    assert outcome.status == 3 and str(file) in outcome.err, outcome
    outcome = restart(mpi, place, job).wait(PATIENCE)
    assert outcome.status == 0, outcome
    assert file.read_text() == "".join(f"{line}\n" for line in range(lines())) and lines() > 100


# Programs that no checkpoint can save until the gate is open.
UNKEPT = {
    "a process of its own": "import subprocess\np = subprocess.Popen(['sleep', '1000'])",
    "a socket of its own": "import socket\ns = socket.socket()",
}


@pytest.mark.parametrize("what", UNKEPT)
def test_what_cannot_be_kept_is_named_and_the_job_runs_on(mpi, place, gate, tmp_path, what):
    program = tmp_path / "program.py"
    waits = f"while not os.path.exists({str(gate.path)!r}): time.sleep(0.01)"
    ends = "p.kill()\np.wait()\n" if "process" in what else ""
    program.write_text(f"import os, time\n{UNKEPT[what]}\nprint('up', flush=True)\n{waits}\n{ends}")
    job = mpi.begin(1, "python3", program, options=["--checkpoint-dir", place])
    assert job.until(lambda out, err: "up" in out, PATIENCE), job.errors()
    done = keep(mpi, job)
    assert done.returncode == 1 and f"rank 0 has {what}" in done.stderr, done
    assert "process" not in what or "sleep" in done.stderr, done
    gate.open()
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0, outcome


def test_a_restart_works_in_any_directory_and_without_its_first_path(mpi, place, gate, tmp_path):
    """The program was named relative to the directory of the first mpirun, and is found by the checkpoint."""
    program = Path(shutil.copy(mpi.compile("kept.c"), tmp_path / "relative"))
    expected, _ = reference(mpi, program, 2, 200, "all")
    words = [mpi.mpirun, "-n", 2, "./relative", 200, "all"]
    job = Job(words, {**mpi.env, **gate.env}, cwd=tmp_path)
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    keep_and_stop(mpi, job, place)
    gate.open()
    for directory in "/", tmp_path:
        outcome = restart(mpi, place, job, cwd=directory).wait(PATIENCE)
        assert ends_right(outcome, expected), outcome
    outcome = restart(mpi, os.path.relpath(place, "/usr/bin"), job, cwd="/usr/bin").wait(PATIENCE)
    assert ends_right(outcome, expected), outcome
    # Only the file itself is needed.
    program.unlink()
    outcome = restart(mpi, place, job, cwd="/").wait(PATIENCE)
    assert outcome.status == 3 and str(program) in outcome.err, outcome


@pytest.mark.parametrize("words", [["-n", 5], ["-n", 2], ["--map-by", "core"], ["-wdir", "/"], ["-x", "A=1"]])
def test_a_restart_refuses_what_it_cannot_honour(mpi, place, words):
    outcome = mpi.run_words([*words, "--restart", place])
    told = f"option {words[0]}: --restart goes on with the ranks"
    assert outcome.status == 2 and told in outcome.err, outcome


def test_one_job_at_a_time_writes_into_a_directory(mpi, place, gate):
    """Two restarts of one set. The second one receives an error that names the user of the directory, at its
    start or at its checkpoint."""
    program = mpi.compile("kept.c")
    job = make_sets(mpi, place, gate, 2, program, 200, "all", sets=1)
    first = restart(mpi, place, job, "--checkpoint-every", "0.2s")
    until_kept(first, place, newest(place))
    in_use = f"{place} is in use: mpirun {first.process.pid} on "
    # With another mark: at its end all processes of its own are killed.
    outcome = mpi.run_words(["--checkpoint-every", "0.2s", "--restart", place])
    assert outcome.status == 2 and in_use in outcome.err, outcome
    other = restart(mpi, place, job)
    done = keep(mpi, other)
    assert done.returncode == 1 and in_use in done.stderr and "the job runs on" in done.stderr, done
    gate.open()
    assert [each.process.wait(PATIENCE) for each in (first, other)] == [0, 0]
    for each in first, other:
        outcome = each.wait(PATIENCE)
        assert outcome.status == 0 and checksum(outcome.out), outcome
    assert not (place / ".lock").exists()
