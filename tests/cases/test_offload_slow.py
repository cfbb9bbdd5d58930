"""Waits for a slow daemon where TUTTI_OFFLOAD=on requires the kernel. A line reports the wait."""

import subprocess

import pytest

from hosts import Cluster

# Stands in the place of `tutti netd`: takes seconds to answer, and then refuses with a reason of its own.
SLOW = """
import os, socket, threading, time
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
os.makedirs("/run/tutti-netd", exist_ok=True)
boot = open("/proc/sys/kernel/random/boot_id").read()[:8]
name = f"/run/tutti-netd/{boot}-{os.stat('/proc/self/ns/net').st_ino}-netd-3"
if os.path.exists(name):
    os.unlink(name)
listener.bind(name)
listener.listen(64)
print("there", flush=True)
def serve(one):
    while one.recv(4096):
        time.sleep(7)
        one.send(b"\\1\\0\\0\\0\\0" + b"slow but there")
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"""


@pytest.fixture
def cluster(tutti, hosts):
    made = Cluster(tutti.name, hosts(2), 1)
    slow = [subprocess.Popen([str(word) for word in made.testbed.on(host, "python3", "-c", SLOW)], stdout=subprocess.PIPE, text=True)
            for host in made.testbed.hosts]
    assert all(one.stdout.readline().strip() == "there" for one in slow)
    yield made
    for one in slow:
        one.kill()
        one.wait()


def test_a_slow_daemon_is_waited_for(cluster):
    program = cluster.compile("coll_reduce.c")
    demanded = cluster.run(2, program, env={"TUTTI_OFFLOAD": "on"})
    assert "waiting for `tutti netd` on host n0" in demanded.err, demanded
    assert demanded.status != 0 and "slow but there" in demanded.err and "does not answer" not in demanded.err, demanded
    # Without the requirement no rank waits so long.
    usual = cluster.run(2, program, env={"TUTTI_EXPLAIN": "1"})
    assert usual.status == 0 and "waiting for" not in usual.err and "slow but there" not in usual.err, usual
