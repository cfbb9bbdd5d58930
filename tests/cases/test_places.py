"""A light selection of the places in which jobs must come out right or end with one sentence; `make places`
has them all."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "places"))
from run import Runner, lacks, places  # noqa: E402

LIGHT = [place for place in places() if place.light]


@pytest.fixture(scope="module")
def runner(tutti):
    """The runner that tries places, with the testbeds that they share."""
    runner = Runner(tutti)
    yield runner
    runner.close()


@pytest.mark.parametrize("place", LIGHT, ids=lambda place: place.name)
def test_place(runner, place):
    if why := lacks(place):
        pytest.skip(why)
    row = runner.row(place)
    assert row.good, f"{row.what}, left: {row.left}\n{row.detail}"


def test_names_are_unlike():
    names = [place.name for place in places()]
    assert len(names) == len(set(names))
