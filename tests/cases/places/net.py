"""Places: networks in which hosts are. Firewalls, loss, short packets; from the start or later."""

import contextlib
import os
import signal
import subprocess
import time

from place import Place, Start, told
from spaces import RANDOM

# The agent is the testbed's: it needs no port. That of ssh stays open all the same, as administrators leave
# it.
AGENT_PORT = 22
TABLE = "places"
# Two ranks that do not reach each other: both are named, with their hosts, addresses and ports.
AT = r"rank \d at host n\d, UDP [\d.]+:\d+, TCP [\d.]+:\d+"
NAMED = f"{AT} and {AT}"
HOSTS = 4


def start(*arguments, program="places.c", **env):
    """Describes a job of eight ranks on four hosts."""
    return Start(ranks=8, arguments=arguments or ("100000",), program=program, env=env)


# ---- rules ----


def feed(site, host, text):
    """Passes rules to nft on a host."""
    command = site.command(host, "nft", "-f", "-")
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{text}: {done.stderr}"


def drop(site, host, *rules):
    """Filters the packets that reach a host, by these rules of nftables."""
    chain = "chain input { type filter hook input priority 0; " + "; ".join(rules) + "\n}"
    feed(site, host, f"add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n{chain}\n}}\n")


def unfiltered(site):
    """Takes all rules away again."""
    for host in site.hosts:
        feed(site, host, f"add table inet {TABLE}\ndelete table inet {TABLE}\n")


def address(site, host):
    """Returns the address of a host's interface."""
    words = site.on(host, "ip", "-4", "-o", "addr", "show", "eth0").split()
    return words[words.index("inet") + 1].split("/")[0]


def filtered(*rules, hosts=None):
    """Applies the given packet filter rules on some hosts, or on all, from the start."""

    @contextlib.contextmanager
    def inside(site):
        try:
            for host in hosts or site.hosts:
                drop(site, host, *rules)
            yield
        finally:
            unfiltered(site)

    return inside


@contextlib.contextmanager
def unfiltered_afterwards(site):
    """Removes all rules after the job, for mishaps that add rules while it runs."""
    try:
        yield
    finally:
        unfiltered(site)


def later(*rules, hosts=None):
    """Applies packet filter rules in the middle of a job."""

    def during(site, _job):
        for host in hosts or site.hosts:
            drop(site, host, *rules)
        site.mishap()

    return during


UDP_DROPPED = "iifname eth0 meta l4proto udp drop"
# Nothing new comes in, but for the agent.
ESTABLISHED_ONLY = ("ct state established accept", f"iifname eth0 tcp dport {AGENT_PORT} accept", "iifname eth0 ct state new drop")
LOW, HIGH = 40000, 40031
# Only what is for these ports, and what belongs to a connection that this host has made.
CONFINED = ("iifname eth0 ct state established accept", f"iifname eth0 tcp dport {{ {AGENT_PORT}, {LOW}-{HIGH} }} accept",
            f"iifname eth0 udp dport {LOW}-{HIGH} accept", "iifname eth0 drop")


def between(site, one, other, *what):
    """Adds rules that drop all packets (of this kind) between two hosts."""
    for here, there in ((one, other), (other, one)):
        drop(site, here, " ".join(("ip saddr", address(site, there), *what, "drop")))


@contextlib.contextmanager
def nothing_between(site):
    """Separates n1 and n2. Their ranks do not reach each other, and their daemons communicate through n0."""
    try:
        between(site, "n1", "n2")
        yield
    finally:
        unfiltered(site)


def nothing_between_later(site, _job):
    between(site, "n1", "n2")
    site.mishap()


@contextlib.contextmanager
def tracked(site):
    """Tracks connections from their beginning, so that [`shut`] knows the existing ones."""
    try:
        for host in site.hosts:
            drop(site, host, "ct state established accept")
        yield
    finally:
        unfiltered(site)


def shut(site, _job):
    """Drops packets of new connections on all hosts. The daemons have connected before."""
    for host in site.hosts:
        feed(site, host, f"add rule inet {TABLE} input iifname eth0 drop\n")
    site.mishap()


# A program whose ranks make their first contact late: see tests/programs/late_contact.c.
LATE = start("100000", "2", program="late_contact.c")
LONG = start("20000", "4")

FIREWALLS = [
    Place("UDP dropped everywhere", start(), hosts=HOSTS, inside=filtered(UDP_DROPPED), light=True),
    Place("UDP refused everywhere", start(), hosts=HOSTS, inside=filtered("iifname eth0 meta l4proto udp reject")),
    Place("UDP dropped, ranks never connect", start("20000", TUTTI_CONNECTIONS="never"), hosts=HOSTS, inside=filtered(UDP_DROPPED)),
    Place("UDP dropped, ranks connect at once", start(TUTTI_CONNECTIONS="static"), hosts=HOSTS, inside=filtered(UDP_DROPPED)),
    Place("UDP dropped on its way to one host", start(), hosts=HOSTS, inside=filtered(UDP_DROPPED, hosts=["n1"])),
    Place("nothing new comes in at one host", start(), hosts=HOSTS, inside=filtered(*ESTABLISHED_ONLY, hosts=["n1"])),
    Place("nothing new comes in at one host, no UDP at all", start(), hosts=HOSTS,
          inside=filtered(UDP_DROPPED, *ESTABLISHED_ONLY, hosts=["n1"])),
    Place("nothing goes between two hosts of four", start(), hosts=HOSTS, inside=nothing_between, expect=told(NAMED), light=True),
    Place("only ports of TUTTI_PORT_RANGE come in", start(TUTTI_PORT_RANGE=f"{LOW}-{HIGH}"), hosts=HOSTS, inside=filtered(*CONFINED)),
    Place("TUTTI_PORT_RANGE is too narrow", start(TUTTI_PORT_RANGE=f"{LOW}-{LOW + 1}"), hosts=HOSTS,
          expect=told(r"every port of 40000-40001 \(TUTTI_PORT_RANGE\) is in use")),
]

FIREWALLS_LATE = [
    Place("UDP dropped from the middle, ranks never connect", start("20000", "4", TUTTI_CONNECTIONS="never"), hosts=HOSTS,
          inside=unfiltered_afterwards, during=later(UDP_DROPPED), seconds=25),
    Place("UDP dropped from the middle, first contact afterwards", LATE, hosts=HOSTS, inside=unfiltered_afterwards,
          during=later(UDP_DROPPED), seconds=25),
    Place("nothing new comes in at one host from the middle", LATE, hosts=HOSTS, inside=unfiltered_afterwards,
          during=later(*ESTABLISHED_ONLY, hosts=["n1"]), seconds=25),
    # Datagrams that both send at the same time open the way for each other.
    Place("nothing new comes in anywhere from the middle", LATE, hosts=HOSTS, inside=tracked, during=shut, seconds=20),
    Place("nothing goes between two hosts from the middle, first contact afterwards", LATE, hosts=HOSTS, inside=unfiltered_afterwards,
          during=nothing_between_later, expect=told(NAMED), seconds=20),
    Place("nothing goes between two hosts from the middle, ranks never connect", start("20000", "60", TUTTI_CONNECTIONS="never"),
          hosts=HOSTS, inside=unfiltered_afterwards, during=nothing_between_later, expect=told(NAMED), seconds=20),
    Place("nothing goes between two hosts from the middle, TUTTI_SILENCE_MS=8000", start("20000", "60", TUTTI_SILENCE_MS="8000"),
          hosts=HOSTS, inside=unfiltered_afterwards, during=nothing_between_later, expect=told(r"rank \d .*TUTTI_SILENCE_MS|" + NAMED),
          seconds=20),
]

# ---- loss ----


def loss(percent, *hosts):
    """Drops this percentage of the packets that these hosts (or all) send and receive."""

    @contextlib.contextmanager
    def inside(site):
        try:
            for host in hosts or site.hosts:
                site.testbed.act("loss", host, percent)
            yield
        finally:
            for host in hosts or site.hosts:
                site.testbed.act("loss", host, 0)

    return inside


@contextlib.contextmanager
def one_way(site):
    """Drops all packets that n2 sends to the others. It still receives theirs."""
    try:
        one_way_now(site)
        yield
    finally:
        unfiltered(site)


def one_way_now(site):
    feed(site, "n2", f"table inet {TABLE} {{ chain out {{ type filter hook output priority 0; oifname eth0 drop\n}}\n}}\n")


def lose_direction(site, _job):
    one_way_now(site)
    site.mishap()


LOSS = [
    Place("four hosts as they are", start(), hosts=HOSTS, light=True),
    *(Place(f"{percent} % of all datagrams lost", start("20000"), hosts=HOSTS, inside=loss(percent),
            light=percent == 5, seconds=30)
      for percent in (1, 5, 10)),
    Place("10 % lost at one host", start("20000"), hosts=HOSTS, inside=loss(10, "n1")),
    Place("one direction lost from the start", start(), hosts=HOSTS, inside=one_way,
          expect=told(r"host n2 .*(cannot be reached|is lost)|rank .* host")),
    Place("one direction lost while it runs", start("20000", "60"), hosts=HOSTS, inside=unfiltered_afterwards, during=lose_direction,
          expect=told(r"host n\d .*is lost|rank .*n2"), seconds=45),
    Place("one direction lost while it runs, TUTTI_SILENCE_MS=8000", start("20000", "60", TUTTI_SILENCE_MS="8000"), hosts=HOSTS,
          inside=unfiltered_afterwards, during=lose_direction, expect=told(r"host n\d .*is lost.*TUTTI_SILENCE_MS|rank .*n2"), seconds=15),
    Place("datagrams of one host are lost while it runs", start("20000", "4", TUTTI_CONNECTIONS="never"), hosts=HOSTS,
          inside=unfiltered_afterwards, during=later(UDP_DROPPED, hosts=["n0", "n1", "n3"]), seconds=25),
]

# ---- lengths of packets ----


def mtu(number, *hosts):
    """Limits the packets of the interfaces of these hosts (or all) to this length."""

    @contextlib.contextmanager
    def inside(site):
        try:
            for host in hosts or site.hosts:
                site.on(host, "ip", "link", "set", "eth0", "mtu", number)
            yield
        finally:
            for host in hosts or site.hosts:
                site.on(host, "ip", "link", "set", "eth0", "mtu", 1500)

    return inside


@contextlib.contextmanager
def as_on_a_wire(site):
    """Gives packets the length that they have on a wire when rules check them."""
    try:
        for host in site.hosts:
            site.on(host, "ip", "link", "set", "eth0", "gso_max_segs", "1")
        yield
    finally:
        unfiltered(site)
        for host in site.hosts:
            site.on(host, "ip", "link", "set", "eth0", "gso_max_segs", "65535")


def swallowed(longest):
    """Returns a rule that drops longer packets without an error message."""
    return f"iifname eth0 meta length > {longest} drop"


def black_hole(longest):
    """Drops packets longer than this on all hosts, from the start."""

    @contextlib.contextmanager
    def inside(site):
        with as_on_a_wire(site):
            for host in site.hosts:
                drop(site, host, swallowed(longest))
            yield

    return inside


HOLE = r"long packets .*MTU"
LENGTHS = [
    Place("MTU 576 everywhere", start(), hosts=HOSTS, inside=mtu(576)),
    Place("packets of more than 1400 bytes vanish", start(), hosts=HOSTS, inside=black_hole(1400), says=HOLE),
    Place("packets of more than 1000 bytes vanish", start(), hosts=HOSTS, inside=black_hole(1000), says=HOLE, light=True),
    Place("packets of more than 1000 bytes vanish from the middle, TUTTI_SILENCE_MS=8000",
          start("100000", "4", TUTTI_SILENCE_MS="8000"), hosts=HOSTS, inside=as_on_a_wire, during=later(swallowed(1000)),
          expect=told(HOLE), seconds=15),
    Place("packets of more than 1000 bytes vanish from the middle, first contact afterwards", LATE, hosts=HOSTS, inside=as_on_a_wire,
          during=later(swallowed(1000)), says=HOLE, seconds=25),
]

# ---- pauses ----


def pause(seconds, *hosts):
    """Stops all ranks and daemons of all hosts, or of some: a suspended or frozen machine."""

    def during(site, _job):
        found = [pid for host, pid, name in site.testbed.processes() if name != "tutti" and (not hosts or host in hosts)]
        send(found, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            send(found, signal.SIGCONT)
        site.mishap()

    return during


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def cable_out(seconds, host="n1"):
    """Cuts the cable of one host for some seconds."""

    def during(site, _job):
        site.testbed.act("cut", host)
        time.sleep(seconds)
        site.testbed.act("join", host)
        site.mishap()

    return during


@contextlib.contextmanager
def rejoined(site):
    """Restores every host to its place afterwards."""
    try:
        yield
    finally:
        for host in site.hosts[1:]:
            site.testbed.act("join", host, check=False)


PAUSES = [
    Place("all ranks and daemons stand still for 12 s", LONG, hosts=HOSTS, during=pause(12)),
    Place("all that runs on one host stands still for 12 s", LONG, hosts=HOSTS, during=pause(12, "n2")),
    Place("a cable out for 2 s", LONG, hosts=HOSTS, inside=rejoined, during=cable_out(2)),
    Place("a cable out for 8 s", LONG, hosts=HOSTS, inside=rejoined, during=cable_out(8)),
    Place("a cable out for 8 s, ranks never connect", start("20000", "4", TUTTI_CONNECTIONS="never"), hosts=HOSTS, inside=rejoined,
          during=cable_out(8)),
]

# ---- many random operations ----

NETWORKS = {"UDP dropped everywhere": filtered(UDP_DROPPED), "10 % of all datagrams lost": loss(10)}
STRESS = [Place(f"{name}, random {kind}", Start(program=program, arguments=words), hosts=2, inside=inside, seconds=600)
          for name, inside in NETWORKS.items() for kind, (program, words) in RANDOM.items()]

PLACES = [*FIREWALLS, *FIREWALLS_LATE, *LOSS, *LENGTHS, *PAUSES, *STRESS]
