"""Fixtures: the library under test, and where its programs are."""

import os
from pathlib import Path

import pytest

from harness import Mpi
from hosts import Testbed, refusal


def pytest_addoption(parser):
    parser.addoption("--mpi", default="tutti", choices=["tutti", "mpich"], help="library that runs the programs")
    parser.addoption("--across", action="store_true", help="also what sends much between hosts")
    parser.addoption("--stress-seconds", type=float, default=3, help="time of each run of random collectives")
    parser.addoption("--stress-seed", type=int, default=0, help="what is drawn; 0: something else every day")


def pytest_configure(config):
    # Jobs of tests neither use nor write the costs of this machine in the user's cache directory: where
    # `tutti` is a file, Tutti can keep nothing.
    cache = Path(__file__).parent.parent / "build" / "test-cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "tutti").touch()
    os.environ["XDG_CACHE_HOME"] = str(cache)
    config.addinivalue_line("markers", "across: sends much between hosts; only with --across")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--across"):
        return
    for item in items:
        if item.get_closest_marker("across"):
            item.add_marker(pytest.mark.skip(reason="sends much between hosts: make test-hosts"))


@pytest.fixture(scope="session")
def mpi(request):
    """Returns the library under test."""
    library = Mpi(request.config.getoption("--mpi"))
    if not library.mpirun.exists():
        pytest.exit(f"{library.mpirun} is missing: make stage (or make peers) installs it", returncode=2)
    return library


@pytest.fixture(scope="session")
def tutti(mpi):
    """Returns the library under test. The test is skipped if that is not Tutti."""
    if not mpi.is_tutti:
        pytest.skip("a behaviour of Tutti")
    return mpi


@pytest.fixture(scope="session")
def job(mpi):
    """Compiles the program `job`, which behaves in many ways."""
    return mpi.compile("job.c")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Makes testbeds of N hosts, gone after the module: `hosts(4, rate="1gbit")`. The same one for the same
    words."""
    if why := refusal():
        pytest.skip(why)
    made = {}

    def make(count, rate=""):
        if (count, rate) not in made:
            made[count, rate] = Testbed(count, rate, share=[tmp_path_factory.getbasetemp()])
        return made[count, rate]

    yield make
    for testbed in made.values():
        testbed.down()
