"""Ranks that cannot get at each other's memory: in namespaces of their own, under filters of system calls,
from the beginning or later.

Every value is checked by the programs; a few seconds here, `--stress-seconds 60` does it for longer.
"""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "places"))

import spaces  # noqa: E402

# Everything goes by the ways that may be refused.
SETTINGS = {
    "as usual": {},
    "mapped": {"TUTTI_MAPPED": "always", "TUTTI_DEBUG": "map_bytes=4K", "TUTTI_SINGLE_COPY_BYTES": "1"},
    "not mapped": {"TUTTI_MAPPED": "never", "TUTTI_SINGLE_COPY": "always", "TUTTI_SINGLE_COPY_BYTES": "1"},
}


def words_of(name):
    words = spaces.SETUPS[name]()
    if why := spaces.refusal(words):
        pytest.skip(why)
    return words


def run_under(tutti, words, ranks, source, *arguments, env=None, seconds=120):
    """Runs a program of tests/programs behind these words."""
    program = tutti.compile(source)
    return tutti.run(ranks, *words, program, *arguments, env=env, seconds=seconds)


def check(outcome):
    assert outcome.status == 0 and not outcome.timed_out and "ok" in outcome.out.split() and not outcome.left, str(outcome)


@pytest.mark.parametrize("setup", spaces.SETUPS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_random_collectives(tutti, request, setup, setting):
    seconds = request.config.getoption("--stress-seconds") * 0.1
    check(run_under(tutti, words_of(setup), 4, "coll_stress.c", seconds, 7, 200, env=SETTINGS[setting], seconds=120 + 3 * seconds))


@pytest.mark.parametrize("setup", spaces.SETUPS)
def test_random_messages(tutti, request, setup):
    seconds = request.config.getoption("--stress-seconds") * 0.1
    check(run_under(tutti, words_of(setup), 3, "stress.c", seconds, 3, env=SETTINGS["not mapped"], seconds=120 + 3 * seconds))


@pytest.mark.parametrize("setup", spaces.SETUPS)
@pytest.mark.parametrize("program", ["rma_random", "rma_ops", "rma_locks"])
def test_windows(tutti, setup, program):
    setting = SETTINGS["mapped" if setup.endswith("write") else "not mapped"]
    check(run_under(tutti, words_of(setup), 4, f"{program}.c", env=setting))


@pytest.mark.parametrize("other", ["a user namespace per rank", "a pid namespace per rank", "a filter, EPERM", "a filter that comes late"])
def test_ranks_that_are_not_alike(tutti, other):
    """Some ranks reach each other, others do not."""
    command = spaces.ranks_under((2, []), (2, words_of(other)))
    program = tutti.compile("coll_stress.c")
    outcome = tutti.run_words(command(program, 1, 5, 200), env=SETTINGS["mapped"])
    check(outcome)


@pytest.mark.parametrize("setup, said", [("a user namespace per rank", "in another user namespace"), ("a pid namespace per rank", "in another pid namespace"),
                                         ("a filter, EPERM", "the system does not permit access")])
def test_info_says_why_single_copy_is_off(tutti, setup, said):
    outcome = tutti.run(3, *words_of(setup), tutti.prefix / "bin" / "tutti", "info")
    lines = re.findall(r"rank (\d): single copy is off for rank (.*): (.*)", outcome.out)
    assert outcome.status == 0 and sorted(line[0] for line in lines) == ["0", "1", "2"], str(outcome)
    assert all(said in why for _, _, why in lines), str(outcome)


def test_info_says_that_single_copy_works(tutti):
    if "permitted" not in tutti.run(1, tutti.prefix / "bin" / "tutti", "info").out:
        pytest.skip("single copy is refused here")
    outcome = tutti.run(3, tutti.prefix / "bin" / "tutti", "info")
    assert outcome.out.count("single copy from all other ranks of this host works") == 3, str(outcome)


@pytest.mark.parametrize("setup", ["a filter that comes early", "a filter that comes late"])
def test_a_late_refusal_takes_another_way(tutti, setup):
    """The refusal happens, and the lender copies afterwards. A rank that is slow makes few calls in a
    second."""
    for seconds in (1, 4, 16):
        env = {**SETTINGS["not mapped"], "TUTTI_EXPLAIN": "all"}
        outcome = run_under(tutti, words_of(setup), 4, "coll_stress.c", seconds, 7, 200, env=env)
        check(outcome)
        if "is sent by it from now on" in outcome.err or "pass through shared memory" in outcome.err:
            return
    raise AssertionError(str(outcome))
