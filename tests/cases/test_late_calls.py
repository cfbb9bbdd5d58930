"""Calls of static destructors after MPI_Finalize: allowed and refused as by Open MPI and MPICH."""

import pytest

from harness import check

# Open MPI allows memory, info and errhandler, MPICH info; MPI-5 section 11.4.1 lists info, errhandler and
# texts, 11.4 keyvals too.
ALLOWED = ["memory", "info", "errhandler", "keyvals", "texts"]
# Both end the program.
REFUSED = ["type", "group", "op", "comm", "win", "request"]


@pytest.mark.parametrize("what", ALLOWED)
def test_this_may_be_freed_after_the_end(tutti, what):
    check(tutti.run(2, tutti.compile("late_calls.c"), what))


@pytest.mark.parametrize("what", REFUSED)
def test_this_ends_the_job_with_a_reason(tutti, what):
    outcome = tutti.run(2, tutti.compile("late_calls.c"), what)
    assert outcome.status != 0 and "called after MPI_Finalize" in outcome.err, str(outcome)
