"""Debuggers: the table of processes that parallel ones read out of mpirun, and ranks that wait for one."""

import os
import re
import shutil
import subprocess

import pytest

from harness import Job

needs_gdb = pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb")
QUIET = ["gdb", "-nx", "-batch", "-ex", "set pagination off", "-ex", "set confirm off", "-ex", "set debuginfod enabled off",
         "-ex", "set language c"]


def may_trace():
    """Returns true if gdb can run a program here."""
    tried = subprocess.run([*QUIET, "-ex", "run", "-ex", "info program", "true"], capture_output=True, text=True, timeout=60)
    return "exited normally" in tried.stdout


@needs_gdb
def test_a_parallel_debugger_finds_the_ranks(tutti):
    """Acts as such a debugger: starts mpirun, announces itself, stops where all ranks are known, and reads
    the table."""
    if not may_trace():
        pytest.skip("gdb cannot run programs here")
    table = [f"printf \"entry %s %s %d\\n\", ((char **)*(long *)&MPIR_proctable)[{3 * at}], "
             f"((char **)*(long *)&MPIR_proctable)[{3 * at + 1}], ((int *)*(long *)&MPIR_proctable)[{6 * at + 4}]" for at in range(3)]
    steps = ["starti", "break MPIR_Breakpoint", "set var *(int *)&MPIR_being_debugged = 1", "continue",
             "printf \"size %d state %d\\n\", *(int *)&MPIR_proctable_size, *(int *)&MPIR_debug_state", *table, "kill"]
    words = [word for step in steps for word in ("-ex", step)]
    outcome = Job([*QUIET, *words, "--args", tutti.mpirun, "-n", "3", tutti.compile("life.c")], tutti.env).wait(120)
    assert "size 3 state 1" in outcome.out, str(outcome)
    entries = re.findall(r"^entry (\S+) (\S+) (\d+)$", outcome.out, re.M)
    assert len({pid for _, _, pid in entries}) == 3 and all(name.endswith("life") for _, name, _ in entries), str(outcome)
    assert outcome.err.count("waits in MPI_Init for a debugger") == 3, str(outcome)


@needs_gdb
def test_ranks_wait_until_a_debugger_is_attached(tutti):
    if not may_trace():
        pytest.skip("gdb cannot run programs here")
    job = tutti.begin(2, tutti.compile("life.c"), options=["--debug"])
    assert job.until(lambda _, err: err.count("waits in MPI_Init for a debugger") == 2), job.errors()
    for rank, pid in re.findall(r"rank (\d) waits in MPI_Init for a debugger .*: gdb -p (\d+)", job.errors()):
        assert job.process.poll() is None, f"rank {rank} did not wait"
        attached = subprocess.run([*QUIET, "-p", pid, "-ex", "set var *(int *)&MPIR_debug_gate = 1", "-ex", "detach"], capture_output=True,
                                  text=True, timeout=120)
        assert attached.returncode == 0, attached.stderr
    outcome = job.wait(60)
    assert outcome.status == 0 and not outcome.timed_out, str(outcome)


def test_a_debugger_that_is_named_starts_every_rank(tutti):
    env = {"TUTTI_DEBUGGER": "env RUNS_UNDER=one"}
    outcome = tutti.run(2, "sh", "-c", "echo $RUNS_UNDER", options=["--debug"], env=env)
    assert outcome.status == 0 and outcome.out.split() == ["one", "one"], str(outcome)


def test_names_are_there_without_a_symbol_table(tutti):
    listed = subprocess.run(["nm", "-D", tutti.mpirun], capture_output=True, text=True, check=True, env=os.environ).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    assert {"MPIR_proctable", "MPIR_proctable_size", "MPIR_being_debugged", "MPIR_debug_state", "MPIR_Breakpoint", "MPIR_i_am_starter"} <= names
