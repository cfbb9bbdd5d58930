"""Places on several hosts that a testbed makes: what networks do, and what happens to hosts, launchers and daemons."""

import contextlib
import os
import signal
import time

from place import Place, Start, ends, right_or_told, told

LONG = Start(ranks=8, arguments=("20000", "60"))


def start(*arguments, **more):
    """Eight ranks on four hosts."""
    return Start(ranks=8, arguments=arguments or ("100000",), **more)


# ---- networks ----


def loss(percent, *hosts):
    """So many percent of the datagrams of these hosts (of all) are lost."""

    @contextlib.contextmanager
    def inside(site):
        for host in hosts or site.hosts:
            site.testbed.act("loss", host, percent)
        yield
        for host in hosts or site.hosts:
            site.testbed.act("loss", host, 0)

    return inside


def mtu(number, *hosts):
    """The interfaces of these hosts (of all) carry packets up to this length."""

    @contextlib.contextmanager
    def inside(site):
        for host in hosts or site.hosts:
            site.on(host, "ip", "link", "set", "eth0", "mtu", number)
        yield
        for host in hosts or site.hosts:
            site.on(host, "ip", "link", "set", "eth0", "mtu", 1500)

    return inside


def one_way(site):
    """Nothing of what n2 sends reaches the others any more; it hears them."""
    site.on("n2", "nft", "add", "table", "inet", "places")
    site.on("n2", "nft", "add chain inet places out { type filter hook output priority 0; }")
    site.on("n2", "nft", "add rule inet places out oifname eth0 drop")


def one_way_again(site):
    """Undoes it, if it was done."""
    site.on("n2", "nft", "delete", "table", "inet", "places", check=False)


@contextlib.contextmanager
def one_way_afterwards(site):
    try:
        yield
    finally:
        one_way_again(site)


def lose_direction(site, _job):
    one_way(site)
    site.mishap()


@contextlib.contextmanager
def one_way_from_the_start(site):
    one_way(site)
    try:
        yield
    finally:
        one_way_again(site)


NETWORKS = [
    Place("four hosts as they are", start(), hosts=4, light=True),
    *(Place(f"{percent} % of all datagrams lost", start("20000"), hosts=4, inside=loss(percent), light=percent == 5, seconds=30)
      for percent in (1, 5, 10)),
    Place("10 % lost at one host", start("20000"), hosts=4, inside=loss(10, "n1")),
    Place("10 % lost, random operations for 10 s", start("10", "7", program="coll_stress.c"), hosts=4, inside=loss(10), seconds=60),
    Place("10 % lost, many random operations", start("300", "11", program="coll_stress.c"), hosts=4, inside=loss(10), seconds=420, long=True),
    Place("MTU 576 everywhere", start(), hosts=4, inside=mtu(576)),
    Place("one direction lost from the start", start(), hosts=4, inside=one_way_from_the_start,
          expect=told(r"host n2 .*(cannot be reached|is lost)|rank .* host")),
    Place("one direction lost while it runs", LONG, hosts=4, inside=one_way_afterwards, during=lose_direction,
          expect=told(r"host n\d .*is lost|rank .*n2"), seconds=45),
]

# ---- what happens to a job that runs ----


def send(name, host, number):
    """Sends a signal to the processes of this name on a host."""

    def during(site, _job):
        for pid in site.pids(name, host):
            os.kill(pid, number)
        site.mishap()

    return during


def act(*words):
    """Does something to the testbed."""

    def during(site, _job):
        site.testbed.act(*words)
        site.mishap()

    return during


def rank(host, number):
    """Sends a signal to a rank of a host."""

    def during(site, _job):
        os.kill(site.pids("places", host)[0], number)
        site.mishap()

    return during


@contextlib.contextmanager
def rejoined(site):
    """Every host is back in its place afterwards."""
    try:
        yield
    finally:
        for host in site.hosts[1:]:
            site.testbed.act("join", host, check=False)


MISHAPS = [
    Place("kill -9 of mpirun, four hosts", LONG, hosts=4, during=send("mpirun", "n0", signal.SIGKILL), expect=ends(137)),
    Place("kill -9 of a daemon", LONG, hosts=4, during=send("tutti-node", "n2", signal.SIGKILL), expect=told("host n2 is lost: .*has ended"),
          light=True),
    Place("kill -9 of a rank on another host", LONG, hosts=4, during=rank("n3", signal.SIGKILL), expect=told(r"rank \d .*host n3.* signal 9")),
    Place("a host crashes", LONG, hosts=4, during=act("kill", "n1"), inside=rejoined, expect=told("host n1 is lost"), seconds=45),
    Place("Ctrl-C, four hosts", LONG, hosts=4, during=send("mpirun", "n0", signal.SIGINT), expect=ends(130)),
]


def short_cut(site, _job):
    """A cable is out for two seconds."""
    site.testbed.act("cut", "n1")
    time.sleep(2)
    site.testbed.act("join", "n1")


MISHAPS.append(Place("a cable out for 2 s", Start(ranks=8, arguments=("20000", "5")), hosts=4, during=short_cut, inside=rejoined, seconds=30))

# ---- hosts ----

HOSTS = [
    Place("no HOME and no TMPDIR on all hosts", start(env={"HOME": "/nowhere", "TMPDIR": "/nowhere"}), hosts=4),
    Place("descriptors closed before MPI_Init, four hosts", start("before", program="closes.c"), hosts=4, expect=told("descriptor")),
    Place("descriptors closed after MPI_Init, four hosts", start("after", program="closes.c"), hosts=4, expect=right_or_told("descriptor")),
    Place("a host that is not there", start(options=("--host", "n9:2"), placed=False), hosts=4, expect=told("host n9 cannot be reached")),
]

PLACES = [*NETWORKS, *MISHAPS, *HOSTS]
