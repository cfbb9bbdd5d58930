"""Objects that are created and freed again and again: nothing of them remains, and their numbers are
reused."""

import os

import pytest

from harness import check

# `make stress` has more of each.
CYCLES = os.environ.get("CYCLES", "200")
TIMES = int(os.environ.get("TIMES", "600"))


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_is_freed_leaves_nothing_behind(tutti, ranks):
    program = tutti.compile("live_allocations.c")
    check(tutti.run(ranks, program, CYCLES, seconds=300 + int(CYCLES) // 10))


@pytest.mark.parametrize("after", ["0", "1", "100"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_numbers_come_again(tutti, ranks, after):
    """All counters are short of their end by so much that it is passed."""
    program = tutti.compile("wraps.c")
    check(tutti.run(ranks, program, TIMES, env={"TUTTI_DEBUG": f"wrap_after={after}"}, seconds=300 + TIMES // 10))


@pytest.mark.parametrize("setting", [{"TUTTI_DEBUG": "collective_bytes=0"}, {"TUTTI_DEBUG": "collective_bytes=1M"}, {"TUTTI_TUNE": "on"}])
def test_numbers_come_again_where_there_is_no_shared_memory_or_tuning(tutti, setting):
    program = tutti.compile("wraps.c")
    check(tutti.run(2, program, TIMES, env={**setting, "TUTTI_DEBUG": ",".join(["wrap_after=100", setting.get("TUTTI_DEBUG", "")])}, seconds=300 + TIMES // 10))


@pytest.mark.parametrize("setting", [{}, {"TUTTI_DEBUG": "collective_bytes=0"}])
@pytest.mark.parametrize("ranks", [2, 4])
def test_communicators_are_freed_before_their_operations_end(tutti, ranks, setting):
    check(tutti.run(ranks, tutti.compile("freed_early.c"), env=setting))


def test_a_request_too_many_is_refused(tutti):
    check(tutti.run(1, tutti.compile("too_many_requests.c"), env={"TUTTI_DEBUG": "wrap_after=1000"}))


@pytest.mark.parametrize("ranks", [2, 3])
def test_all_bits_of_the_tag_of_a_group_count(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("create_group_tags.c")))
