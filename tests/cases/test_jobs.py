"""Start, behaviour and end of jobs: the launcher from the outside."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from harness import ROOT, Job, marked
from jobs import gone, pids, waiting


def traces():
    """Returns files of Tutti in the places where a job could leave them."""
    places = [Path("/dev/shm"), Path("/tmp")]
    return {path for place in places for path in place.iterdir() if "tutti" in path.name.lower()}


def test_hello(mpi, job):
    outcome = mpi.run(5, job, "hello")
    gone(outcome)
    assert outcome.status == 0, str(outcome)
    assert sorted(outcome.out.splitlines()) == [f"rank {i} of 5" for i in range(5)]


@pytest.mark.alone
@pytest.mark.parametrize("what, sign", [("kill", "SIGKILL"), ("segv", "SIGSEGV")])
def test_a_killed_rank_ends_the_job(tutti, job, what, sign):
    before = traces()
    outcome = tutti.run(4, job, what, 2, seconds=20)
    gone(outcome)
    number = getattr(signal, sign)
    assert outcome.status == 128 + number, str(outcome)
    # A rank that crashes says where it was, in lines of its own.
    told = [line for line in outcome.err.splitlines() if "rank 2" in line and not line.startswith("tutti: ")]
    assert len(told) == 1 and "pid" in told[0] and sign in told[0], str(outcome)
    assert os.uname().nodename.split(".")[0] in told[0], str(outcome)
    assert traces() == before


def test_exit_without_finalize_ends_the_job(tutti, job):
    outcome = tutti.run(4, job, "exit", 0, seconds=20)
    gone(outcome)
    assert outcome.status != 0, str(outcome)
    assert "rank 3" in outcome.err and "MPI_Finalize" in outcome.err, str(outcome)
    outcome = tutti.run(4, job, "exit", 9, seconds=20)
    gone(outcome)
    assert outcome.status == 9, str(outcome)


@pytest.mark.parametrize("code", [1, 7, 42])
def test_abort_gives_its_code(mpi, job, code):
    outcome = mpi.run(3, job, "abort", code, seconds=20)
    gone(outcome)
    assert outcome.status == code, str(outcome)


@pytest.mark.parametrize("code", [0, 3])
def test_exit_status_of_a_rank_is_that_of_the_job(mpi, job, code):
    outcome = mpi.run(3, job, "return", code, seconds=30)
    gone(outcome)
    assert outcome.status == code, str(outcome)


def test_a_fatal_error_names_function_argument_and_rank(tutti, job):
    outcome = tutti.run(2, job, "fatal", seconds=20)
    gone(outcome)
    assert outcome.status != 0
    assert "MPI_Send" in outcome.err and "rank" in outcome.err and "11" in outcome.err, str(outcome)


@pytest.mark.alone
def test_killing_mpirun_leaves_nothing(tutti, job):
    before = traces()
    running = waiting(tutti, job, 4)
    running.process.kill()
    outcome = running.wait(10)
    gone(outcome)
    assert traces() == before


def test_killing_one_rank_from_outside(tutti, job):
    running = waiting(tutti, job, 4)
    os.kill(pids(running.output())[1], signal.SIGKILL)
    outcome = running.wait(20)
    gone(outcome)
    assert outcome.status == 137 and "rank 1" in outcome.err, str(outcome)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_job(tutti, job, number):
    running = waiting(tutti, job, 3)
    os.kill(running.process.pid, number)
    outcome = running.wait(20)
    gone(outcome)
    assert outcome.status == 128 + number, str(outcome)


def test_usr1_shows_where_the_ranks_wait(tutti, job):
    running = waiting(tutti, job, 3)
    os.kill(running.process.pid, signal.SIGUSR1)
    shown = running.until(lambda out, err: all(f"rank {i}" in err for i in range(3)), 10)
    text = running.errors()
    running.process.terminate()
    gone(running.wait(20))
    assert shown, text
    assert text.count("tag 424242") == 3, text


def test_input_goes_to_rank_0(tutti, job, tmp_path):
    text = "".join(f"line {i} of the input\n" for i in range(5000))
    path = tmp_path / "input"
    path.write_text(text)
    with path.open() as file:
        outcome = tutti.run(3, job, "cat", stdin=file)
    gone(outcome)
    assert outcome.out == text and outcome.status == 0


def test_lines_stay_whole(tutti, job):
    outcome = tutti.run(4, job, "lines", 200)
    gone(outcome)
    lines = outcome.out.splitlines()
    assert len(lines) == 800
    for line in lines:
        found = re.fullmatch(r"<(\d):line \d+ of rank (\d)>", line)
        assert found and found[1] == found[2], line


def test_tagged_output_names_the_rank(tutti, job):
    outcome = tutti.run(3, job, "hello", options=["--tag-output"])
    gone(outcome)
    for line in outcome.out.splitlines():
        number = re.search(r"rank (\d) of 3$", line)[1]
        assert number in line[: -len(f"rank {number} of 3")], line


def test_several_programs(tutti, job):
    command = [tutti.mpirun, "-n", 1, job, "hello", ":", "-n", 2, job, "hello"]
    outcome = Job(command, tutti.env).wait(30)
    gone(outcome)
    assert sorted(outcome.out.splitlines()) == [f"rank {i} of 3" for i in range(3)], str(outcome)


def test_directory_and_environment(tutti, job, tmp_path):
    options = ["-wdir", tmp_path, "-env", "JOB_TEST", "a b"]
    outcome = tutti.run(2, job, "where", options=options)
    gone(outcome)
    assert outcome.out.count(f"directory {tmp_path}\n") == 2, str(outcome)
    assert outcome.out.count("variable a b\n") == 2, str(outcome)


def processors(text):
    """Returns the numbers of a list such as 0-2,5."""
    parts = [part.split("-") for part in text.split(",")]
    return {number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)}


def test_binding_stays_in_the_given_processors(tutti, job):
    first = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(first), *tutti.command(2, job, "where")]
    outcome = Job(command, tutti.env).wait(30)
    gone(outcome)
    found = re.findall(r"processors (\S+)", outcome.out)
    assert len(found) == 2 and all(processors(text) == {first} for text in found), str(outcome)
    outcome = tutti.run(1, job, "where", options=["--bind-to", "core"])
    bound = processors(re.search(r"processors (\S+)", outcome.out)[1])
    assert bound and bound <= os.sched_getaffinity(0), str(outcome)


BAD_LINES = {
    "unknown option": (["--no-such-option", "-n", "2", "true"], "no-such-option"),
    "count without number": (["-n", "two", "true"], "two"),
    "negative count": (["-n", "-3", "true"], "-3"),
    "nothing to run": (["-n", "2"], ""),
    "missing program": (["-n", "2", "./there-is-no-such-program"], "there-is-no-such-program"),
    "missing directory": (["-n", "1", "-wdir", "/no/such/directory", "true"], "/no/such/directory"),
    "unknown binding": (["-n", "1", "--bind-to", "moon", "true"], "moon"),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_command_lines_are_named(tutti, case):
    arguments, named = BAD_LINES[case]
    outcome = Job([tutti.mpirun, *arguments], tutti.env).wait(20)
    gone(outcome)
    assert outcome.status != 0 and named in outcome.err, str(outcome)
    assert "panicked" not in outcome.err, str(outcome)


def test_a_wrong_setting_is_refused_by_name(tutti, job):
    for name, value in [("TUTTI_EAGER_BYTES", "many"), ("TUTTI_NO_SUCH_THING", "1")]:
        outcome = tutti.run(2, job, "hello", env={name: value}, seconds=20)
        gone(outcome)
        assert outcome.status != 0 and name in outcome.err, str(outcome)


def test_a_missing_library_is_named(tutti, tmp_path):
    source = tmp_path / "needs.c"
    (tmp_path / "gone.c").write_text("int gone(void) { return 1; }\n")
    source.write_text("int gone(void);\nint main(void) { return gone(); }\n")
    library = tmp_path / "libgone.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "gone.c"], check=True)
    subprocess.run(["cc", "-o", tmp_path / "needs", source, library], check=True)
    library.unlink()
    outcome = tutti.run(2, tmp_path / "needs", seconds=20)
    gone(outcome)
    assert outcome.status != 0 and "libgone.so" in outcome.err, str(outcome)


@pytest.mark.parametrize("checks, expected", [("1", "refused"), ("0", "accepted")])
def test_mismatched_types(tutti, job, checks, expected):
    outcome = tutti.run(2, job, "mismatch", env={"TUTTI_CHECK_TYPES": checks}, seconds=20)
    gone(outcome)
    assert expected in outcome.out, str(outcome)


def test_thirty_two_ranks_start(mpi):
    program = mpi.compile(ROOT / "crates" / "tools" / "bench" / "start.c")
    outcome = mpi.run(32, program)
    gone(outcome)
    assert outcome.status == 0, str(outcome)
    assert not marked("nothing")
