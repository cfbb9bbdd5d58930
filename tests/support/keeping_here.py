"""Jobs of one host that are kept and made again: their kinds, fixtures, how long they last."""

import shutil

import pytest

from keeping import Gate, checksum, lasting

KINDS = ["eager", "longer", "longest", "unexpected", "modes", "collectives", "shapes", "windows", "threads",
         "partitioned", "cancelled", "exposed", "file", "all"]
# Number of rounds with which `lasting` begins its search: a few tenths of a second each.
ROUNDS = {"eager": 150000, "longer": 1500, "longest": 200, "unexpected": 15000, "modes": 25000,
          "collectives": 6000, "shapes": 80000, "windows": 45000, "threads": 1600, "partitioned": 20000,
          "cancelled": 400000, "exposed": 20000, "file": 2000, "all": 200}


@pytest.fixture
def place(tutti, tmp_path):
    """Creates a directory of sets. Only Tutti can keep jobs, so the test is skipped for other libraries."""
    yield tmp_path / "sets"
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def gate(tmp_path):
    """Returns a gate that is closed at first."""
    return Gate(tmp_path / "gate")


def reference(mpi, program, ranks, *arguments):
    outcome = mpi.run(ranks, program, *arguments)
    assert outcome.status == 0 and checksum(outcome.out), outcome
    return checksum(outcome.out), outcome.seconds


def lasting_here(mpi, program, ranks, kind, seconds):
    """Calls `lasting` for jobs on this host."""
    return lasting(lambda rounds: reference(mpi, program, ranks, rounds, kind), ROUNDS[kind], seconds)
