"""The standard, literally: one table a chapter (programs/standard), each row with its section. A row that
fails is printed."""

import pytest

from harness import SOURCES, check

TABLES = sorted(source.stem for source in (SOURCES / "standard").glob("*.c"))
# Tables whose rows are about the process alone.
ALONE = {"bindings", "datatypes", "environment", "external", "info", "tools"}
RUNS = [(table, ranks) for table in TABLES for ranks in ((1, 2) if table in ALONE else (1, 2, 4))]


def program(mpi, table):
    # MPI_UNWEIGHTED is an address that the compiler takes for that of no memory.
    return mpi.compile(f"standard/{table}.c", "-Wno-stringop-overread", name=f"standard_{table}")


@pytest.mark.parametrize("table,ranks", RUNS, ids=lambda value: str(value))
def test_table(mpi, table, ranks, tmp_path):
    arguments = [tmp_path] if table == "io" else []
    check(mpi.run(ranks, program(mpi, table), *arguments))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_spawn(mpi, ranks):
    """Processes that start and such that cannot: the codes come to all ranks."""
    check(mpi.run(ranks, program(mpi, "processes"), "spawn"))


@pytest.mark.parametrize("option", ["-memory-alloc-kinds", "--memory-alloc-kinds"])
def test_kinds_of_memory_are_requested(mpi, option):
    """Kinds of memory given to mpirun are supported as far as they are known (MPI-5 section 11.4.3)."""
    words = [option, "mpi:win_allocate,system,nonsense:x"]
    check(mpi.run(2, program(mpi, "processes"), "kinds", "mpi:win_allocate", options=words))
    outcome = mpi.run(2, program(mpi, "processes"), "kinds", "nonsense:x", options=words)
    assert outcome.status != 0 and "nonsense" not in outcome.out, str(outcome)
