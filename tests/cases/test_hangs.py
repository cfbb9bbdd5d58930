"""Tests of the reports of hangs by mpirun."""

import contextlib
import json
import os
import signal
import sys
import time

import pytest

from hangs import KINDS, PYTHON_KINDS, cases
from harness import ROOT, check, marked
from hosts import Cluster

# Seconds of waiting before mpirun looks, and what it does with a proved deadlock.
QUICK = {"TUTTI_HANG": "abort:0.5"}
STATUS = 125


def begin(mpi, case):
    """Starts a job that hangs."""
    if case.is_python:
        return mpi.begin(case.ranks, sys.executable, ROOT / "tests/programs/hangs.py", *case.words, env=QUICK)
    return mpi.begin(case.ranks, mpi.compile("hangs.c"), *case.words, env=QUICK)


def check_all(mpi, some, at_once=8):
    """Runs jobs that hang, several at once. Each ends with a report."""
    for start in range(0, len(some), at_once):
        jobs = [(case, begin(mpi, case)) for case in some[start:start + at_once]]
        for case, job in jobs:
            outcome = job.wait(60)
            fault = case.fault(outcome.err)
            assert outcome.status == STATUS and not fault, f"{case}: {fault}: {outcome}"


def test_each_kind_of_hang_is_explained(tutti):
    check_all(tutti, cases(len(KINDS), seed=1, most=4, kinds=list(KINDS)))


def test_hangs_of_python_programs_are_explained(tutti):
    pytest.importorskip("mpi4py")
    python = [case for case in cases(len(KINDS) + len(PYTHON_KINDS), seed=2) if case.is_python]
    check_all(tutti, python, at_once=2)
    outcome = begin(tutti, python[1]).wait(60)
    assert "at <module> (hangs.py:" in outcome.err, str(outcome)


def test_hangs_between_hosts_are_explained(tutti, hosts):
    kinds = ["ring", "tags", "missing_collective", "waitall", "any_source", "sends_first"]
    check_all(Cluster("tutti", hosts(2), 2), cases(len(kinds), seed=3, most=4, kinds=kinds), at_once=3)


def test_a_job_goes_on_after_the_report(tutti, tmp_path):
    """Without `abort` the report is printed once, and the job is left alone."""
    file = tmp_path / "report.json"
    job = tutti.begin(3, tutti.compile("hangs.c"), "tags", 0, 2, options=["--hang-report", file], env={"TUTTI_HANG": "0.3"})
    assert job.until(lambda _, err: "TUTTI_HANG=off" in err), job.errors()
    time.sleep(3)
    assert job.process.poll() is None and job.errors().count("deadlock:") == 1, job.errors()
    job.process.send_signal(signal.SIGTERM)
    assert job.wait(30).status == 143
    report = json.loads(file.read_text())
    assert report["findings"][0]["certainty"] == "certain" and report["findings"][0]["ranks"] == [[0, 0], [2, 2]]
    assert [rank["state"] for rank in report["ranks"]] == ["waiting"] * 3
    assert report["ranks"][0]["waits"][0]["function"] == "MPI_Recv"


@pytest.mark.parametrize("kind", ["computes", "sleeps"])
def test_a_rank_outside_mpi_is_not_suspected(tutti, kind):
    outcome = tutti.run(4, tutti.compile("hangs.c"), kind, 1, 2, env=QUICK)
    check(outcome)
    assert "deadlock" not in outcome.err and "hint" not in outcome.err, str(outcome)


def test_a_stopped_rank_is_not_suspected(tutti):
    job = tutti.begin(3, tutti.compile("hangs.c"), "stops", 1, 2, env=QUICK)
    assert job.until(lambda out, _: "stops now" in out), job.errors()
    time.sleep(8)
    assert job.process.poll() is None and job.errors() == "", job.errors()
    for pid in marked(job.mark):
        # Others than the stopped rank may end as soon as it goes on.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    outcome = job.wait(30)
    check(outcome)
    assert outcome.err == "", str(outcome)


def test_the_watch_can_be_switched_off(tutti):
    job = tutti.begin(2, tutti.compile("deadlock.c"), env={"TUTTI_HANG": "off"})
    assert job.until(lambda out, _: out.count("waits now") == 2), job.errors()
    time.sleep(7)
    assert job.errors() == "" and job.process.poll() is None
    job.process.send_signal(signal.SIGTERM)
    assert job.wait(30).status == 143
