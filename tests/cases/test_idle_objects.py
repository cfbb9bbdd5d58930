"""Progress costs in proportion to the work, not to the existing objects: calls beside a thousand idle objects
take the same instructions as without them."""

import re

import pytest

from hosts import Cluster

KINDS = ["windows", "communicators", "requests", "ports"]
# No call may take more than this times its instructions, and these: a send takes some sixty more every now
# and then, by itself. One look at each of a thousand objects would be thousands.
SHARE, SOME = 1.05, 100


def counted(outcome):
    """Returns the instructions of each call: (before, with). Empty where no process may step through
    another."""
    assert outcome.status == 0 and not outcome.timed_out, str(outcome)
    lines = re.findall(r"^(\w+) (-?\d+) (-?\d+)$", outcome.out, re.M)
    found = {name: (int(before), int(beside)) for name, before, beside in lines}
    assert set(found) == {"nothing", "probe", "test", "send", "receive"}, str(outcome)
    return {} if found["nothing"][0] < 0 else found


def check(outcome):
    """Checks that no call has become longer."""
    for name, (before, beside) in counted(outcome).items():
        told = f"{name}: {before} instructions alone, {beside} beside them"
        assert 0 < before and beside <= SHARE * before + SOME, told


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_idle_objects_cost_nothing_on_one_host(tutti, kind):
    check(tutti.run(2, tutti.compile("idle_objects.c"), kind, 1000))


@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_idle_objects_cost_nothing_between_hosts(tutti, hosts, kind):
    pair = Cluster(tutti.name, hosts(2), 1)
    check(pair.run(2, pair.compile("idle_objects.c"), kind, 1000))
