"""MPI-IO: C programs that check themselves, on tmpfs and on disk, on one host and on several."""

import random
import tempfile
from pathlib import Path

import pytest

from file_places import EXCHANGE, PLACES, place  # noqa: F401 (a fixture)
from harness import check
from hosts import Cluster


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_files(mpi, ranks, place):
    check(mpi.run(ranks, mpi.compile("files.c"), place))


@pytest.mark.parametrize("ranks", [1, 3, 4, 8])
def test_random_accesses(tutti, ranks, place):
    check(tutti.run(ranks, tutti.compile("files_random.c"), place, ranks, 150))


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_random_accesses_by_exchange(tutti, ranks, place):
    """Ranks exchange data with the aggregators of windows even where this is expensive."""
    outcome = tutti.run(ranks, tutti.compile("files_random.c"), place, 10 + ranks, 100, *EXCHANGE, env={"TUTTI_COUNTERS": "1"})
    check(outcome)
    exchanged = [int(line.split(" exchanged ")[1].split()[0]) for line in outcome.err.splitlines() if " files read " in line]
    assert len(exchanged) == ranks and min(exchanged) > 0, str(outcome)


@pytest.mark.parametrize("ranks", [2, 4])
def test_no_file_is_left(tutti, ranks, place):
    check(tutti.run(ranks, tutti.compile("files.c"), place))
    assert not list(Path(place).iterdir())


def test_files_on_hosts(tutti, hosts, tmp_path_factory):
    """Two hosts, two ranks on each, that see the same directory."""
    cluster = Cluster(tutti.name, hosts(2), 2)
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="tutti-files-") as path:
        check(cluster.run(4, cluster.compile("files.c"), path))
        check(cluster.run(4, cluster.compile("files_random.c"), path, random.randrange(1000), 60))
        check(cluster.run(4, cluster.compile("files_random.c"), path, random.randrange(1000), 60, *EXCHANGE))
