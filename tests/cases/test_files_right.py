"""MPI-IO loses nothing: writers side by side, large counts and lists, classes of errors, ends of files, odd
names.

A light number of pieces and operations here. `make stress` has a million: PIECES, OPERATIONS (of all ranks),
SEED.
"""

import os
import time

import pytest

from harness import check

from file_places import EXCHANGE, PLACES, place  # noqa: F401 (a fixture)

PIECES = int(os.environ.get("PIECES", 10_000))
VIEW_PIECES = int(os.environ.get("PIECES", 100_000)) * 10
OPERATIONS = int(os.environ.get("OPERATIONS", 400))
SEED = int(os.environ.get("SEED", time.time_ns() % 10**9))
SECONDS = 120 + (PIECES + OPERATIONS) // 100

# Paths of random operations: words of the program, options of mpirun, environment.
SERVERS = ["--io-servers", 3, "--io-root"]
DRIVERS = {
    "file system": ([], [], {}),
    "by exchange": (EXCHANGE, [], {}),
    "near servers": (["striping_unit", "1000"], SERVERS, {}),
    "far servers": (["striping_unit", "1000"], SERVERS, {"TUTTI_IO_NEAR": "0"}),
    "far servers by exchange": (EXCHANGE, SERVERS, {"TUTTI_IO_NEAR": "0"}),
}


@pytest.mark.parametrize("ranks", [2, 4])
def test_writers_side_by_side_lose_nothing(mpi, ranks, place):  # noqa: F811
    check(mpi.run(ranks, mpi.compile("files_pieces.c"), f"{place}/grid", PIECES, seconds=SECONDS))


def test_writers_side_by_side_on_servers(tutti, place):  # noqa: F811
    program = tutti.compile("files_pieces.c")
    for near in ("1", "0"):
        options = [*SERVERS, place]
        check(tutti.run(4, program, "tutti:grid", PIECES, options=options, env={"TUTTI_IO_NEAR": near}, seconds=SECONDS))


def test_large_counts_lists_and_views(tutti, place):  # noqa: F811
    check(tutti.run(1, tutti.compile("files_bounds.c"), place, VIEW_PIECES, seconds=SECONDS))


@pytest.mark.parametrize("ranks", [1, 3])
def test_classes_ends_and_names(tutti, ranks, place):  # noqa: F811
    check(tutti.run(ranks, tutti.compile("files_classes.c"), place))


def test_ends_and_names_of_servers(tutti, place):  # noqa: F811
    program = tutti.compile("files_classes.c")
    for near in ("1", "0"):
        check(tutti.run(3, program, "tutti:d", options=[*SERVERS, place], env={"TUTTI_IO_NEAR": near}))


@pytest.mark.parametrize("driver", DRIVERS)
def test_random_operations(tutti, driver, tmp_path):
    """Against a model; an operation is that of one rank."""
    words, options, env = DRIVERS[driver]
    target = "tutti:d" if options else PLACES[0]
    options = [*options, tmp_path] if options else []
    outcome = tutti.run(4, tutti.compile("files_random.c"), target, SEED, OPERATIONS // 4, *words, options=options, env=env, seconds=SECONDS)
    assert outcome.status == 0, f"SEED={SEED} {driver}: {outcome}"
