"""The life cycle of ranks: several MPI programs in the same rank, signals that mpirun inherits, ranks that
leave while others wait for them."""

import signal
import sys

import pytest

from harness import ROOT, Job
from hosts import Cluster

PYTHON = ROOT / "build" / "python" / "bin" / "python"


@pytest.fixture(scope="module")
def two(mpi, hosts):
    """Creates two hosts with two ranks on each."""
    return Cluster(mpi.name, hosts(2), 2)


def python(mpi):
    """Returns the Python that has mpi4py."""
    if not mpi.is_tutti or not (PYTHON.parent.parent / "lib").exists():
        pytest.skip("mpi4py is not built: make python")
    return PYTHON


# Signals of which mpirun inherits that they are ignored, and those that are blocked.
CHANGES = {
    "no children": ([signal.SIGCHLD], []),
    "children blocked": ([], [signal.SIGCHLD]),
    "all blocked": ([], set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}),
    "all ignored": (set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}, []),
    "no pipe": ([signal.SIGPIPE], []),
}


def changed(words, ignored, blocked):
    """Returns the command line that runs `words` with the given signals ignored or blocked."""
    code = (
        "import os, signal, sys\n"
        f"for number in {sorted(map(int, ignored))}: signal.signal(number, signal.SIG_IGN)\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, {sorted(map(int, blocked))})\n"
        "os.execvp(sys.argv[1], sys.argv[1:])\n"
    )
    return [sys.executable, "-c", code, *words]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("program", ["again", "true", "shell", "fails"])
def test_inherited_signals_do_not_keep_a_job(tutti, change, program):
    words = {
        "again": [tutti.compile("again.c"), "one"],
        "true": ["true"],
        "shell": ["sh", "-c", "sleep 0.1; true | cat; echo ok"],
        "fails": ["sh", "-c", "exit 7"],
    }[program]
    job = Job(changed([tutti.mpirun, "-n", 2, *words], *CHANGES[change]), tutti.env)
    outcome = job.wait(60)
    assert not outcome.timed_out and not outcome.left, str(outcome)
    assert outcome.status == (7 if program == "fails" else 0), str(outcome)


def test_ranks_can_wait_for_children_whatever_mpirun_inherits(tutti):
    """A program that ignores SIGCHLD cannot wait for its children."""
    code = "import subprocess, sys; sys.exit(subprocess.run(['sh', '-c', 'exit 5']).returncode)"
    words = [tutti.mpirun, "-n", 1, sys.executable, "-c", code]
    outcome = Job(changed(words, [signal.SIGCHLD], []), tutti.env).wait(60)
    assert outcome.status == 5 and not outcome.timed_out, str(outcome)


def test_daemons_of_other_hosts_hear_of_their_ranks(two):
    words = two.command(4, "sh", "-c", "sleep 0.1; exit 0")
    outcome = Job(changed(words, [signal.SIGCHLD], []), two.env).wait(60)
    assert outcome.status == 0 and not outcome.timed_out, str(outcome)
    assert not two.testbed.idle()


# Commands of a rank, and the number of its programs that must report.
CHAINS = {
    "twice": ("{0} a; {0} b", 2),
    "three": ("{0} a && {0} b && {0} c", 3),
    "many": ("for i in 1 2 3 4 5 6 7 8; do {0} x || exit 1; done", 8),
    "after one without MPI": ("{0} a none; {0} b", 1),
    "between": ("{0} a; true; {0} b none; {0} c", 2),
    "exec": ("exec {0} a exec 3", 4),
    "exec in a shell": ("{0} a exec 1; {0} b", 3),
    "after a session": ("{0} a session; {0} b; {0} c session; {0} d", 2),
    "another program": ("{0} a; {1}; {0} b", 2),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_programs_follow_one_another(mpi, chain, ranks):
    script, times = CHAINS[chain]
    outcome = mpi.run(ranks, "sh", "-c", script.format(mpi.compile("again.c"), mpi.compile("small.c")))
    assert outcome.status == 0 and not outcome.timed_out and not outcome.left, str(outcome)
    assert outcome.out.count("program ") == times and "FAILED" not in outcome.out, str(outcome)


@pytest.mark.parametrize("chain", ["twice", "three", "exec", "after a session", "between"])
def test_programs_follow_one_another_on_hosts(two, chain):
    script, times = CHAINS[chain]
    outcome = two.run(4, "sh", "-c", script.format(two.compile("again.c"), ""))
    assert outcome.status == 0 and not outcome.timed_out, str(outcome)
    assert outcome.out.count("program ") == times and "FAILED" not in outcome.out, str(outcome)
    assert not two.testbed.idle()


def test_ranks_need_not_run_the_same_programs(tutti):
    """One rank is at its second program while the other still is at its first."""
    program = tutti.compile("again.c")
    script = f'[ $TUTTI_JOB_RANK = 0 ] && {program} a session; [ $TUTTI_JOB_RANK = 0 ] || sleep 1; {program} b session; {program} c session'
    outcome = tutti.run(2, "sh", "-c", script)
    assert outcome.status == 0 and not outcome.left, str(outcome)


def test_two_programs_at_a_time_in_a_rank_are_refused(tutti):
    program, other = tutti.compile("job.c"), tutti.compile("again.c")
    outcome = tutti.run(1, "sh", "-c", f"{program} wait & sleep 1; {other} b; status=$?; kill -9 $!; exit $status")
    assert outcome.status != 0 and "has called MPI_Init and has not called MPI_Finalize" in outcome.err, str(outcome)


# Operations in which others wait for a rank that leaves.
OPERATIONS = ["barrier", "allreduce", "bcast", "gather", "split", "ibarrier", "recv", "any", "ssend", "send", "probe",
              "mprobe", "waitany", "waitall", "test", "iprobe", "improbe", "dup", "win_fence", "win_free", "win_lock",
              "win_start", "win_wait", "win_test", "accept", "connect", "spawn"]
# The same of files, whose errors are returned by default.
OF_FILES = ["file_open", "file_write_all", "file_iwrite_all", "file_ordered", "file_size", "file_close"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rank_that_fails_after_finalize_ends_the_job(tutti, operation):
    outcome = tutti.run(3, tutti.compile("leaves.c"), 9, operation, seconds=60)
    assert outcome.status == 9 and not outcome.timed_out and not outcome.left, str(outcome)
    assert "passed" not in outcome.out, str(outcome)
    assert "rank 1 (pid" in outcome.err and "exited with code 9 after MPI_Finalize" in outcome.err, str(outcome)


WORDS = {"barrier": "barrier in MPI_COMM_WORLD", "allreduce": "allreduce in MPI_COMM_WORLD", "recv": "a receive from rank 1, tag 5",
         "probe": "a probe from rank 1, tag 5", "send": "a send of 4194304 bytes to rank 1"}


@pytest.mark.parametrize("operation", WORDS)
def test_the_report_names_the_operation(tutti, operation):
    outcome = tutti.run(4, tutti.compile("leaves.c"), 9, operation, seconds=60)
    assert WORDS[operation] in outcome.err, str(outcome)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_rank_that_others_wait_for_is_named(tutti, operation):
    """The rank ends with status 0, so that only the other ranks can notice that something is wrong."""
    # Of three, those that wait for any rank wait for each other too.
    outcome = tutti.run(2 if operation == "any" else 3, tutti.compile("leaves.c"), 0, operation, seconds=60)
    assert outcome.status not in (0, 124) and not outcome.timed_out and not outcome.left, str(outcome)
    assert "passed" not in outcome.out and "MPI_Finalize" in outcome.err, str(outcome)
    assert operation in ("any", "split", "win_test") or "rank 1" in outcome.err, str(outcome)


@pytest.mark.parametrize("operation", OF_FILES)
def test_operations_on_files_fail_when_a_rank_has_left(tutti, operation, tmp_path):
    env = {"LEAVES_FILE": str(tmp_path / "file")}
    outcome = tutti.run(3, tutti.compile("leaves.c"), 0, operation, env=env, seconds=60)
    assert outcome.status == 0 and not outcome.timed_out and not outcome.left, str(outcome)
    assert outcome.out.count(": told") == 2 and outcome.out.count(": ends") == 3, str(outcome)


@pytest.mark.parametrize("how", ["late", "quick"])
@pytest.mark.parametrize("status", [0, 9])
@pytest.mark.parametrize("operation", ["barrier", "recv", "send"])
def test_a_rank_may_take_its_time_to_leave(tutti, operation, status, how):
    outcome = tutti.run(3, tutti.compile("leaves.c"), status, operation, how, seconds=60)
    assert not outcome.timed_out and not outcome.left and "passed" not in outcome.out, str(outcome)
    assert outcome.status == 9 if status else outcome.status not in (0, 124), str(outcome)
    assert "rank 1: ends" in outcome.out, str(outcome)


@pytest.mark.parametrize("operation", ["barrier", "allreduce", "recv", "ssend", "send", "probe", "waitall", "test"])
def test_programs_may_handle_the_error(tutti, operation):
    outcome = tutti.run(3, tutti.compile("leaves.c"), 0, operation, "return", seconds=60)
    assert outcome.status == 0 and not outcome.timed_out and not outcome.left, str(outcome)
    assert outcome.out.count(": told") == 2 and outcome.out.count(": ends") == 3, str(outcome)


@pytest.mark.parametrize("operation", ["barrier", "allreduce", "bcast", "recv", "any", "send", "mprobe"])
@pytest.mark.parametrize("status", [0, 9])
def test_a_rank_that_leaves_on_hosts(two, operation, status):
    if operation == "any" and not status:
        pytest.skip("the others wait for each other too")
    outcome = two.run(4, two.compile("leaves.c"), status, operation, seconds=90)
    assert not outcome.timed_out and "passed" not in outcome.out, str(outcome)
    assert outcome.status == 9 if status else outcome.status not in (0, 124), str(outcome)
    assert "MPI_Finalize" in outcome.err, str(outcome)
    assert not two.testbed.idle()


def test_ranks_that_finalize_late_are_waited_for(tutti):
    """A rank that has returned from MPI_Finalize stays until the last rank has called it. No rank is ended
    early."""
    script = (
        "from mpi4py import MPI\nimport time\nrank = MPI.COMM_WORLD.rank\n"
        "time.sleep(4 if rank == 0 else 0)\nprint(rank, 'ends')\n"
    )
    outcome = tutti.run(3, python(tutti), "-c", script, seconds=60)
    assert outcome.status == 0 and outcome.out.count("ends") == 3 and not outcome.left, str(outcome)


# Operations of the other ranks while rank 1 of a Python program raises an exception.
WAITS = {
    "barrier": "c.Barrier()",
    "recv": "c.recv(source=1)",
    "any": "c.recv(source=MPI.ANY_SOURCE)",
    "bcast": "c.bcast(None, root=1)",
    "gather": "c.gather(c.rank, root=0); c.barrier()",
    "allreduce": "c.allreduce(c.rank)",
    "poll": "\n    while not c.iprobe(source=1): pass",
    "master": "c.recv(source=MPI.ANY_SOURCE if c.rank == 0 else 0)",
    "send": "c.ssend(b'x' * 10000000, dest=1)",
}


@pytest.mark.parametrize("wait", WAITS)
def test_an_exception_on_one_rank_of_python(tutti, wait):
    script = (
        "from mpi4py import MPI\nc = MPI.COMM_WORLD\nc.barrier()\n"
        f"if c.rank == 1: raise ValueError('the cause')\nelse: {WAITS[wait]}\nprint('passed')\n"
    )
    outcome = tutti.run(3, python(tutti), "-c", script, seconds=60)
    assert outcome.status == 1 and not outcome.timed_out and not outcome.left, str(outcome)
    assert "ValueError: the cause" in outcome.err and "rank 1 (pid" in outcome.err, str(outcome)
    assert wait == "gather" or "passed" not in outcome.out, str(outcome)


@pytest.mark.parametrize("wait", ["barrier", "recv", "master"])
def test_an_exception_on_one_rank_of_python_on_hosts(two, wait):
    script = (
        "from mpi4py import MPI\nimport sys\nc = MPI.COMM_WORLD\nc.barrier()\n"
        f"if c.rank == 1: sys.exit(3)\nelse: {WAITS[wait]}\nprint('passed')\n"
    )
    outcome = two.run(4, python(two), "-c", script, seconds=90)
    assert outcome.status == 3 and not outcome.timed_out and "passed" not in outcome.out, str(outcome)
    assert not two.testbed.idle()


UNMATCHED = ["bcast", "scatter", "send", "isend"]


@pytest.mark.parametrize("operation", UNMATCHED)
@pytest.mark.parametrize("where", ["", "world", "dup"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_what_nobody_asks_for_is_no_failure(mpi, operation, where, ranks):
    outcome = mpi.run(ranks, mpi.compile("unmatched.c"), operation, *[where] * bool(where), seconds=60)
    assert outcome.status == 0 and outcome.out.count(": ends") == ranks and not outcome.left, str(outcome)


@pytest.mark.parametrize("operation", UNMATCHED)
def test_what_nobody_asks_for_is_no_failure_on_hosts(two, operation):
    outcome = two.run(4, two.compile("unmatched.c"), operation, "world", seconds=60)
    assert outcome.status == 0 and outcome.out.count(": ends") == 4, str(outcome)
    assert not two.testbed.idle()
