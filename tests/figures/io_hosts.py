"""Measures files of io-servers over links between hosts, beside the link's own throughput and GlusterFS
(`make io-hosts`).

usage: python tests/figures/io_hosts.py [--rate 1gbit] [--servers 4] [--clients 1,2,4] [--mib 32] [--rounds 5]
    [--ways scratch,gluster] [--place /var/tmp]

Clients and servers are hosts of one testbed, each with a link of the rate. A row: MB/s of the slowest and the
mean client, and how much of the link that is; us of what moves no data. The link is what one plain TCP
connection between two of the hosts carries. Nothing is synced: what is measured is the way to the servers,
whose disks are this machine's. GlusterFS is run where it is installed (glusterfs-server of the
distribution): a brick and a daemon a server, files in shards of 4 MiB over all bricks, by volume files,
without its management.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hosts import Cluster, Testbed, refusal
from servers import HostServers

BYTES = 64 << 20
SERVE = ("import socket,time\ns=socket.create_server(('0.0.0.0',7007))\nprint('up',flush=True)\nc,_=s.accept()\n"
         "t=time.monotonic();n=0\nwhile b:=c.recv(1<<20): n+=len(b)\nprint(n/1e6/(time.monotonic()-t))")
SEND = f"import socket,sys\nc=socket.create_connection((sys.argv[1],7007))\nc.sendall(bytes({BYTES}))\nc.close()"


def link(testbed):
    """Returns MB/s of one TCP connection between two hosts."""
    python = shutil.which("python3")
    begin = lambda host, *words: subprocess.Popen([str(word) for word in testbed.on(host, python, "-c", *words)],  # noqa: E731
                                                  stdout=subprocess.PIPE, text=True)
    server = begin(testbed.hosts[-1], SERVE)
    server.stdout.readline()
    assert begin(testbed.hosts[0], SEND, testbed.hosts[-1]).wait(60) == 0
    return float(server.communicate(timeout=60)[0])


class Servers:
    """Io-servers of a user, one on each host, and the settings by which clients find them."""

    def __init__(self, testbed, place, names, mode):
        self.servers = HostServers(testbed, place, names, "--mode", mode) if mode != "scratch" else HostServers(testbed, place, names)
        self.file, self.env = "tutti:file", {"TUTTI_IO_MOUNT": str(self.servers.mount)}

    def end(self):
        """Ends them."""
        self.servers.__exit__()


def brick(path):
    """Returns the volume file of a server."""
    return f"""volume posix
  type storage/posix
  option directory {path}
end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
volume {path}
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.listen-port 24010
  option auth.addr.{path}.allow *
  subvolumes {path}
end-volume
"""


def client(bricks):
    """Returns the volume file of a client, as `gluster volume create` would write it for shards."""
    text = ""
    for number, (host, path) in enumerate(bricks):
        text += (f"volume brick-{number}\n  type protocol/client\n  option remote-host {host}\n  option remote-port 24010\n"
                 f"  option remote-subvolume {path}\n  option transport-type tcp\nend-volume\n")
    text += "volume all\n  type cluster/distribute\n  subvolumes " + " ".join(f"brick-{n}" for n in range(len(bricks))) + "\nend-volume\n"
    text += "volume shards\n  type features/shard\n  option shard-block-size 4MB\n  subvolumes all\nend-volume\n"
    return text + "volume behind\n  type performance/write-behind\n  subvolumes shards\nend-volume\n"


class Gluster:
    """GlusterFS on the same hosts: daemons by volume files, mounted at each client."""

    def __init__(self, testbed, place, names, clients):
        self.running, self.testbed, self.clients = [], testbed, clients
        bricks = []
        for name in names:
            path = place / f"brick-{name}"
            path.mkdir()
            (place / f"{name}.vol").write_text(brick(path))
            self.start(name, "glusterfsd", "-N", "-f", place / f"{name}.vol", "-l", place / f"{name}.log", "-p", place / f"{name}.pid")
            bricks.append((name, path))
        (place / "client.vol").write_text(client(bricks))
        time.sleep(2)
        self.mounted = place / "mounted"
        self.mounted.mkdir()
        for name in clients:
            self.start(name, "glusterfs", "-N", "-f", place / "client.vol", "-l", place / f"{name}.log", "-p", place / f"{name}.pid", self.mounted)
        self.file, self.env = self.mounted / "file", {}
        for name in clients:
            self.wait(name)

    def start(self, host, *words):
        words = self.testbed.on(host, shutil.which(words[0]), *words[1:])
        self.running.append(subprocess.Popen([str(word) for word in words]))

    def wait(self, host):
        """Waits until the file system is mounted there."""
        for _ in range(100):
            words = self.testbed.on(host, "stat", "-f", "-c", "%T", self.mounted)
            if "fuse" in subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False).stdout:
                return
            time.sleep(0.1)
        raise RuntimeError(f"GlusterFS is not mounted on {host}")

    def end(self):
        """Unmounts the file system and ends the started processes."""
        for name in self.clients:
            subprocess.run([str(word) for word in self.testbed.on(name, "umount", "-l", self.mounted)], check=False)
        for process in self.running:
            process.terminate()
            process.wait()


def figures(cluster, way, clients, options):
    """Returns the lines of io_links: numbers of each rank by name."""
    words = cluster.compile("io_links.c"), way.file, options.mib, options.rounds
    outcome = cluster.run(clients, *words, env=way.env, seconds=240)
    assert outcome.status == 0, outcome
    lines = [line.split() for line in outcome.out.splitlines()]
    return {words[0]: [float(word) for word in words[1:]] for words in lines if re.match(r"write|read|create|resize|size", words[0])}


def rows(name, clients, found, carried):
    for key, values in found.items():
        if key in ("create", "resize", "size"):
            if clients == 1:
                print(f"{name:10} {clients:>7}  {key:14} {values[0]:>9.0f} us", flush=True)
            continue
        least, mean = min(values), sum(values) / len(values)
        print(f"{name:10} {clients:>7}  {key:14} {least:>9.1f} MB/s, mean {mean:6.1f}, of the link {least / carried:.2f} and {mean / carried:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description="files over links")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--clients", default="1,2,4")
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default="scratch,gluster")
    parser.add_argument("--place", type=Path, default=Path("/var/tmp"))
    options = parser.parse_args()
    if why := refusal():
        sys.exit(why)
    counts = [int(word) for word in options.clients.split(",")]
    with tempfile.TemporaryDirectory(dir=options.place, prefix="tutti-io-hosts-") as folder:
        testbed = Testbed(max(counts) + options.servers, options.rate, share=[])
        try:
            cluster = Cluster("tutti", testbed, 1)
            servers = testbed.hosts[max(counts):]
            carried = link(testbed)
            print(f"the link: {carried:.1f} MB/s by one TCP connection", flush=True)
            for name in options.ways.split(","):
                if name == "gluster" and not shutil.which("glusterfsd"):
                    print("gluster: glusterfsd is missing (the distribution's package glusterfs-server has it)")
                    continue
                place = Path(folder) / name
                place.mkdir()
                way = Gluster(testbed, place, servers, testbed.hosts[:max(counts)]) if name == "gluster" else Servers(testbed, place, servers, name)
                try:
                    for clients in counts:
                        rows(name, clients, figures(cluster, way, clients, options), carried)
                finally:
                    way.end()
        finally:
            testbed.down()


if __name__ == "__main__":
    main()
