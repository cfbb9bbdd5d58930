"""Places on several hosts that a testbed makes: mishaps of hosts, launchers, daemons. Networks: `net`."""

import os
import signal

from net import rejoined
from place import Place, Start, ends, right_or_told, told

LONG = Start(ranks=8, arguments=("20000", "60"))


def start(*arguments, **more):
    """Describes a job of eight ranks on four hosts."""
    return Start(ranks=8, arguments=arguments or ("100000",), **more)


# ---- events during a running job ----


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


MISHAPS = [
    Place("kill -9 of mpirun, four hosts", LONG, hosts=4, during=send("mpirun", "n0", signal.SIGKILL), expect=ends(137)),
    Place("kill -9 of a daemon", LONG, hosts=4, during=send("tutti-node", "n2", signal.SIGKILL), expect=told("host n2 is lost: .*has ended"),
          light=True),
    Place("kill -9 of a rank on another host", LONG, hosts=4, during=rank("n3", signal.SIGKILL), expect=told(r"rank \d .*host n3.* signal 9")),
    Place("a host crashes", LONG, hosts=4, during=act("kill", "n1"), inside=rejoined, expect=told("host n1 is lost"), seconds=45),
    Place("Ctrl-C, four hosts", LONG, hosts=4, during=send("mpirun", "n0", signal.SIGINT), expect=ends(130)),
]


# ---- hosts ----

HOSTS = [
    Place("no HOME and no TMPDIR on all hosts", start(env={"HOME": "/nowhere", "TMPDIR": "/nowhere"}), hosts=4),
    Place("descriptors closed before MPI_Init, four hosts", start("before", program="closes.c"), hosts=4, expect=told("descriptor")),
    Place("descriptors closed after MPI_Init, four hosts", start("after", program="closes.c"), hosts=4, expect=right_or_told("descriptor")),
    Place("a host that is not there", start(options=("--host", "n9:2"), placed=False), hosts=4, expect=told("host n9 cannot be reached")),
]


# ---- strangers ----

# Ranks 1 and 2, 3 of this host and the other one come to a port of rank 0 after connections that say nothing.
STRANGERS = [
    Place(f"strangers: {count} connections that say nothing while MPI_Comm_accept waits",
          Start(ranks=4, program="strangers.c", arguments=(str(count),)), hosts=2, light=count == 100)
    for count in (1, 100)
]

PLACES = [*MISHAPS, *HOSTS, *STRANGERS]
