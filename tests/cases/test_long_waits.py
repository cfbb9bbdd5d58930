"""Long waits take hardly any processor time, for every kind of wait and every number of hosts."""

import re

import pytest

from hosts import Cluster

SECONDS = 2
# Measured: 3000 us. A wait that looks, or gives its processor away, all the time takes all of it.
MOST_US = 200_000


def check(outcome, waiting):
    assert outcome.status == 0 and not outcome.timed_out, str(outcome)
    took = [int(us) for us in re.findall(r"^\d+ took (\d+)$", outcome.out, re.M)]
    assert len(took) == waiting and max(took) < MOST_US, str(outcome)


@pytest.mark.parametrize("way", ["receive", "barrier", "fence"])
def test_a_long_wait_sleeps_on_one_host(tutti, way):
    check(tutti.run(4, tutti.compile("long_wait.c"), way, SECONDS), 2)


@pytest.mark.parametrize("way", ["receive", "fence"])
def test_a_long_wait_sleeps_on_each_of_two_hosts(tutti, hosts, way):
    pair = Cluster(tutti.name, hosts(2), 2)
    check(pair.run(4, pair.compile("long_wait.c"), way, SECONDS), 2)


def test_a_long_wait_for_another_host_sleeps(tutti, hosts):
    pair = Cluster(tutti.name, hosts(2), 1)
    check(pair.run(2, pair.compile("long_wait.c"), "barrier", SECONDS), 1)
