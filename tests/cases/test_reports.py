"""Reports of errors, crashes, hangs and ends: they name the place, and say each thing once."""

import re
import signal
import subprocess
import time

import pytest

from harness import ROOT, SOURCES, Job
from jobs import gone

# Statuses that mpirun itself has: spec/statuses.tsv.
OF_MPIRUN = {0, 1, 2, 3, 124, 126, 127}


@pytest.fixture(scope="module")
def program(tutti):
    return tutti.compile("reports.c", "-O1", name="reports")


def line_of(mark):
    """Returns the line of the program that carries a mark."""
    lines = (SOURCES / "reports.c").read_text(encoding="ascii").splitlines()
    return next(number for number, line in enumerate(lines, 1) if f"/* {mark} */" in line)


def lines(outcome, start="tutti: "):
    return [line for line in outcome.err.splitlines() if line.startswith(start)]


def test_a_fatal_error_shows_call_arguments_and_place(tutti, program):
    outcome = tutti.run(1, program, "far")
    gone(outcome)
    said = lines(outcome)
    assert outcome.status == 6 and len(said) == 4, str(outcome)
    assert all(line.startswith("tutti: rank 0: ") for line in said), str(outcome)
    assert "error in MPI_Send on MPI_COMM_WORLD: argument dest is 77" in said[0], str(outcome)
    call = r"MPI_Send\(buf=0x[0-9a-f]+, count=1, datatype=MPI_INT, dest=77, tag=5, comm=MPI_COMM_WORLD\)"
    assert re.search(call, said[1]), str(outcome)
    assert re.search(rf"called from send_far \(\S*reports.c:{line_of('far')}\), .*main \(", said[2]), str(outcome)
    assert "MPI_ERR_RANK (invalid rank)" in said[3] and "set MPI_ERRORS_RETURN" in said[3], str(outcome)


def test_the_place_of_an_error_can_be_left_out(tutti, program):
    outcome = tutti.run(1, program, "far", env={"TUTTI_BACKTRACE": "0"})
    assert "called from" not in outcome.err and "dest=77" in outcome.err, str(outcome)


def test_sixteen_ranks_that_forget_the_start_say_it_once(tutti, program):
    outcome = tutti.run(16, program, "forgot")
    gone(outcome)
    assert outcome.status not in OF_MPIRUN, str(outcome)
    said = outcome.err.splitlines()
    assert len(said) <= 6 and len(lines(outcome)) <= 4, str(outcome)
    # Ranks that take longer are ended before they say it.
    assert re.match(r"tutti: ranks? [-0-9, ]+: error in MPI_Comm_rank: called before MPI_Init", lines(outcome)[0]), str(outcome)
    assert f"reports.c:{line_of('forgot')}" in outcome.err, str(outcome)
    # Advice that cannot help.
    assert "MPI_ERRORS_RETURN" not in outcome.err and "known error" not in outcome.err, str(outcome)


def test_equal_reports_are_one(tutti):
    script = 'echo "tutti: rank $TUTTI_JOB_RANK: buffer 0x$TUTTI_JOB_RANK" >&2; echo "rank $TUTTI_JOB_RANK" >&2; sleep 1'
    outcome = tutti.run(16, "sh", "-c", script)
    assert lines(outcome) == ["tutti: ranks 0-15: buffer 0x..."], str(outcome)
    assert len(lines(outcome, "rank ")) == 16, str(outcome)


def test_no_advice_after_the_end(tutti, program):
    outcome = tutti.run(1, program, "late")
    assert "called after MPI_Finalize" in outcome.err and "MPI_ERRORS_RETURN" not in outcome.err, str(outcome)


def test_hung_ranks_are_one_line(tutti, program):
    job = tutti.begin(16, program, "hang", 11)
    assert job.until(lambda out, _: "computes" in out), job.errors()
    time.sleep(1)
    job.process.send_signal(signal.SIGUSR1)
    assert job.until(lambda _, err: "mpirun: ranks 0-10, 12-15: waiting" in err), job.errors()
    said = [line for line in job.errors().splitlines() if line.startswith("mpirun: rank")]
    job.process.send_signal(signal.SIGTERM)
    gone(job.wait(30))
    assert len(said) == 2 and any(re.match(r"mpirun: rank 11 \(pid \d+, \S+\): running", line) for line in said), said


def test_lines_with_tags_stay_those_of_ranks(tutti, program):
    outcome = tutti.run(3, program, "far", options=["--tag-output"])
    assert not re.search(r"tutti: ranks", outcome.err) and "<stderr>: tutti: rank " in outcome.err, str(outcome)


@pytest.mark.parametrize("what, status", [("buffer", 65), ("count", 66), ("type", 67), ("far", 6)])
def test_fatal_errors_have_no_status_of_mpirun(tutti, program, what, status):
    outcome = tutti.run(1, program, what)
    assert outcome.status == status, str(outcome)
    assert status not in OF_MPIRUN and status < 128


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_that_returns_a_code_is_named(tutti, program, ranks):
    outcome = tutti.run(ranks, program, "returns", 3)
    gone(outcome)
    assert outcome.status == 3, str(outcome)
    said = lines(outcome, "mpirun: ")
    assert len(said) == 1 and re.match(r"mpirun: rank 1 \(pid \d+, .*reports\) exited with code 3", said[0]), str(outcome)


def test_a_crash_has_its_line_and_nothing_before(tutti, program):
    outcome = tutti.run(1, program, "crash")
    assert outcome.status == 139, str(outcome)
    frames = [line for line in lines(outcome) if re.match(r"tutti: rank 0: +\d+  ", line)]
    assert re.search(rf" 0  load at \S*reports.c:{line_of('crash')}\b", frames[0]), str(outcome)
    assert "act at" in frames[1] and "main at" in frames[2], str(outcome)


def test_a_call_of_no_function_has_its_place(tutti, program):
    outcome = tutti.run(1, program, "call")
    assert outcome.status == 139, str(outcome)
    frames = [line for line in lines(outcome) if re.match(r"tutti: rank 0: +\d+  ", line)]
    assert re.search(rf" 0  act at \S*reports.c:{line_of('call')}\b", frames[0]), str(outcome)


def test_the_abort_of_a_forked_process_ends_the_job(tutti, program):
    outcome = tutti.run(3, program, "fork", "abort")
    gone(outcome)
    assert outcome.status == 5, str(outcome)
    assert re.search(r"tutti: process \d+ \(forked by rank 1\): MPI_Abort with error code 5", outcome.err), str(outcome)


def test_the_crash_of_a_forked_process_is_its_own(tutti, program):
    outcome = tutti.run(2, program, "fork", "crash")
    gone(outcome)
    assert outcome.status == 0 and f"the child has ended by {signal.SIGSEGV.value}" in outcome.out, str(outcome)
    assert re.search(r"tutti: process \d+ \(forked by rank 1\): signal 11 SIGSEGV", outcome.err), str(outcome)
    assert not re.search(r"tutti: rank 1", outcome.err), str(outcome)


def test_a_process_that_a_rank_starts_is_a_job_of_its_own(tutti, program):
    outcome = tutti.run(2, program, "start", "alone")
    gone(outcome)
    assert outcome.status == 0 and "0 of 1" in outcome.out and "status 0" in outcome.out, str(outcome)
    outcome = tutti.run(2, program, "start", "far")
    assert outcome.status == 0 and "status 6" in outcome.out, str(outcome)
    assert re.search(r"tutti: process \d+ \(a job of its own, started by rank 0\): error in MPI_Send", outcome.err), str(outcome)
    outcome = tutti.run(2, program, "start", "forgot")
    assert outcome.status == 0 and re.search(r"tutti: process \d+ \(started by rank 0\): error in MPI_Comm_rank", outcome.err), str(outcome)


SPAWNS = """
import multiprocessing, sys
from mpi4py import MPI

def work(number):
    from mpi4py import MPI
    return number * number, MPI.COMM_WORLD.size

if __name__ == "__main__":
    rank = MPI.COMM_WORLD.rank
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(rank, pool.map(work, [2, 3]), flush=True)
    MPI.COMM_WORLD.barrier()
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_python_starts_processes_in_a_rank(tutti, tmp_path, method):
    python = ROOT / "build" / "python" / "bin" / "python"
    probe = subprocess.run([python, "-c", "import mpi4py"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("mpi4py is not built: make python")
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS)
    outcome = tutti.run(2, python, script, method)
    gone(outcome)
    expected = [f"{rank} [(4, 1), (9, 1)]" for rank in range(2)]
    assert outcome.status == 0 and sorted(outcome.out.splitlines()) == expected, str(outcome)


def test_what_has_matched_nothing_is_told(tutti, program):
    outcome = tutti.run(2, program, "unmatched", env={"TUTTI_REPORT_LEAKS": "1"})
    assert outcome.status == 0, str(outcome)
    receives = ("rank 1: in MPI_Finalize 2 receives have matched no message: from any rank with any tag in MPI_COMM_SELF; "
                "from rank 0 with tag 9 in MPI_COMM_WORLD")
    messages = ("rank 1: in MPI_Finalize 3 messages have matched no receive: from rank 0 with tag 5 in MPI_COMM_WORLD (2 times); "
                "from rank 0 with tag 6 in MPI_COMM_WORLD")
    assert receives in outcome.err and messages in outcome.err, str(outcome)
    assert "matched" not in tutti.run(2, program, "unmatched").err


@pytest.mark.parametrize("ranks", [1, 3])
def test_errors_of_files_name_the_file_and_their_class_once(tutti, program, tmp_path, ranks):
    missing = tmp_path / "missing.dat"
    outcome = tutti.run(ranks, program, "open", missing)
    assert outcome.status == 42, str(outcome)
    first = lines(outcome)[0]
    assert str(missing) in first and first.count("MPI_ERR_") == 0, str(outcome)
    # On a loaded machine, reports of some ranks come too late to be printed with the first.
    reports = outcome.err.count("error in MPI_File_open")
    assert outcome.err.count("MPI_ERR_NO_SUCH_FILE") == reports and f'filename="{missing}"' in outcome.err, str(outcome)


def test_errors_of_servers_name_the_file_and_their_class_once(tutti, program, tmp_path):
    outcome = tutti.run(1, program, "open", "tutti:missing.dat", options=["--io-servers", 2, "--io-root", tmp_path / "servers"])
    first = lines(outcome)[0]
    assert outcome.status == 42 and "missing.dat" in first and "MPI_ERR_" not in first, str(outcome)
    assert "MPI_ERR_IO" not in outcome.err, str(outcome)


@pytest.mark.parametrize("option, place", [("--checkpoint-dir", "none/deep"), ("--checkpoint-dir", "file"), ("--trace", "none/run.json"),
                                           ("--trace", "file/run.json"), ("--trace", "folder")])
def test_what_cannot_be_written_is_told_at_the_start(tutti, tmp_path, option, place):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    outcome = tutti.run(2, "echo", "started", options=[option, tmp_path / place])
    assert outcome.status == 2 and "started" not in outcome.out, str(outcome)
    assert option in outcome.err and str(tmp_path / place) in outcome.err, str(outcome)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_nothing_stays_of_the_look_at_the_start(tutti, tmp_path):
    outcome = tutti.run(1, "true", options=["--checkpoint-dir", tmp_path / "sets", "--trace", tmp_path / "run.json"])
    assert outcome.status == 0 and not list(tmp_path.iterdir()), str(outcome)


def test_every_page_has_all_statuses(tutti):
    rows = (ROOT / "spec" / "statuses.tsv").read_text(encoding="ascii").splitlines()[1:]
    rows = [row.split("\t") for row in rows if not row.startswith("#")]
    shown = Job([tutti.mpirun, "--help"], tutti.env).wait(20).out
    manual = (tutti.prefix / "share" / "man" / "man1" / "mpirun.1").read_text(encoding="utf-8").replace("\\-", "-").replace("\\", "")
    for status, meaning in rows:
        assert re.search(rf"{re.escape(status)} +{re.escape(meaning)}", shown), shown
        assert meaning in manual, manual[-3000:]
