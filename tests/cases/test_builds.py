"""Comparison of two builds of Tutti (`tutti compare --build`): operations that one build does more slowly are
found, and no others."""

import json
import shutil
import subprocess

import pytest

from harness import SOURCES, Job
from hosts import refusal

SLOWER = 3


def copy(tutti, prefix, preload=None):
    """Creates a build at `prefix`: a copy of the staged one, with a library preloaded into its ranks if one
    is given."""
    shutil.copytree(tutti.prefix, prefix, symlinks=True)
    (prefix / ".installed").write_text(f"{prefix.name}\n")
    if preload:
        mpirun = prefix / "bin" / "mpirun"
        mpirun.rename(prefix / "bin" / "mpirun-plain")
        mpirun.write_text(f'#!/bin/sh\nexec "{mpirun}-plain" -x LD_PRELOAD="{preload}" "$@"\n')
        mpirun.chmod(0o755)
    return prefix


def compare(tutti, tmp_path, before, now, *words):
    """Compares two builds. Returns the exit status with the job, and the content of the JSON file."""
    result = tmp_path / "result.json"
    command = [tutti.prefix / "bin" / "tutti", "compare", "--build", before, "--subject", now, "--json", result, "--out", tmp_path / "out"]
    outcome = Job([*command, *words], tutti.env, cwd=tmp_path).wait(300)
    assert not outcome.timed_out and not outcome.left and result.exists(), str(outcome)
    return outcome, json.loads(result.read_text())


def test_a_collective_that_sleeps_is_found(tutti, tmp_path):
    """1 us more in MPI_Allreduce: slower is that alone, and not its other forms."""
    shim = tmp_path / "slow_allreduce.so"
    made = ["cc", "-O2", "-shared", "-fPIC", f"-I{tutti.prefix}/include", "-o", shim, SOURCES / "slow_allreduce.c"]
    subprocess.run([str(word) for word in made], check=True, timeout=60)
    before, now = copy(tutti, tmp_path / "aaa"), copy(tutti, tmp_path / "bbb", shim)
    cells = "--parts host --ops bcast,allreduce,iallreduce,barrier --sizes 8 --ranks 2 --ms 4 --rounds 6".split()
    outcome, found = compare(tutti, tmp_path, before, now, *cells)
    assert outcome.status == SLOWER, str(outcome)
    verdicts = {cell["op"]: cell["verdict"] for cell in found["cells"]}
    assert verdicts.keys() == {"bcast", "allreduce", "iallreduce", "barrier"}, str(outcome)
    assert [op for op, verdict in verdicts.items() if verdict == "slower"] == ["allreduce"], str(outcome)
    assert found["before"]["version"] == "tutti aaa" and found["now"]["version"] == "tutti bbb"
    # The other way round it is the faster one.
    outcome, found = compare(tutti, tmp_path, now, before, *cells)
    assert outcome.status == 0, str(outcome)
    assert [cell["op"] for cell in found["cells"] if cell["verdict"] == "faster"] == ["allreduce"], str(outcome)


def test_every_part_is_measured(tutti, tmp_path):
    """One host, files and jobs, and several hosts where there can be some: each has its cells."""
    words = "--quick --ops barrier --sizes 8 --ranks 2 --ms 1 --rounds 5 --start-ranks 4".split()
    outcome, found = compare(tutti, tmp_path, tutti.prefix, tutti.prefix, *words)
    assert outcome.status in (0, SLOWER), str(outcome)
    stages = {cell["stage"] for cell in found["cells"]}
    expected = {"1 host x 2", "files, 1 host x 2", "jobs, 1 host x 4"}
    if refusal():
        assert found["notes"], str(outcome)
    else:
        expected |= {"4 hosts x 4", "jobs, 4 hosts x 4"}
    assert stages == expected and found["failures"] == [], str(outcome)
    assert all(len(cell[build]) >= 5 for cell in found["cells"] for build in ("before_us", "now_us")), str(outcome)
    assert found["machine"][0].startswith("processor: ") and "processor: " in outcome.out, str(outcome)


@pytest.mark.parametrize("words, reason", [(["--rounds", "4"], "5 to 40 rounds"), (["--ledger", "1"], "commit")])
def test_what_cannot_be_compared_is_refused(tutti, tmp_path, words, reason):
    """Too few rounds for a verdict; a ledger of builds without a commit."""
    command = [tutti.prefix / "bin" / "tutti", "compare", "--build", tutti.prefix, *words]
    outcome = Job(command, tutti.env, cwd=tmp_path).wait(60)
    assert outcome.status == 1 and reason in outcome.err, str(outcome)
