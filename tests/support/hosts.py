"""Several hosts on this machine (`tutti testbed`), for tests: made for one test or module, gone with it or
with its process."""

import itertools
import os
import shutil
import subprocess
import time
from pathlib import Path

import peers as peer_libraries
from harness import ROOT, Job, Mpi, hang_up_as_usual

NUMBERS = itertools.count()


def refusal():
    """Returns the reason why there can be no testbed here, if any."""
    if os.geteuid() != 0:
        return "several hosts on one machine take root"
    missing = [name for name in ("ip", "tc", "nsenter", "unshare") if not shutil.which(name)]
    if missing:
        return f"commands are missing: {', '.join(missing)} (scripts/need.sh hosts installs them)"
    tried = subprocess.run(["unshare", "--net", "--uts", "--ipc", "--mount", "true"], capture_output=True, text=True)
    return f"namespaces are not permitted: {tried.stderr.strip()}" if tried.returncode else None


class Testbed:
    """Hosts n0, n1, ... that see this checkout and the folders `share`."""

    __test__ = False

    def __init__(self, hosts, rate="", share=()):
        self.name = f"test-{os.getpid()}-{next(NUMBERS)}"
        self.size = hosts
        self.hosts = [f"n{i}" for i in range(hosts)]
        self.program = ROOT / "build" / "stage" / "bin" / "tutti"
        shared = [word for folder in (ROOT, *share) for word in ("--share", folder)]
        # The testbed ends with this process, for whatever reason that ends.
        self.act("up", "--with", os.getpid(), "--rate", rate, *shared, hosts)
        self.agent = Path("/run/tutti-testbed") / self.name / "agent"

    def act(self, action, *words, check=True):
        """Runs `tutti testbed ACTION` and returns its output."""
        command = [str(word) for word in (self.program, "testbed", action, "--name", self.name, *words)]
        # Processes on the hosts inherit the signals that are ignored here.
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=hang_up_as_usual)
        assert done.returncode == 0 or not check, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def on(self, host, *command):
        """Returns the command line that runs `command` on a host."""
        return [self.program, "testbed", "exec", "--name", self.name, host, *command]

    def processes(self):
        """Returns the processes on the hosts: (host, number, name)."""
        lines = [line.split(" ", 2) for line in self.act("ps").splitlines()]
        return [(host, int(pid), name) for host, pid, name in lines]

    def idle(self, besides=(), seconds=10):
        """Waits until the hosts are idle, and returns the processes that still run after this many
        seconds."""
        limit = time.monotonic() + seconds
        while left := [found for found in self.processes() if found[0] not in besides]:
            if time.monotonic() > limit:
                break
            time.sleep(0.05)
        return left

    def slow_down(self, host, rate):
        """Gives the link of a host another rate, both ways; the testbed was made with one."""
        switch = (self.agent.parent / "state").read_text().split()[1]
        shape = "root tbf burst 64kb latency 50ms rate"
        port = ["nsenter", "-t", switch, "--net", "--", "tc", "qdisc", "replace", "dev", f"p{host[1:]}", *shape.split(), rate]
        own = self.on(host, "tc", "qdisc", "replace", "dev", "eth0", *shape.split(), rate)
        for command in (port, own):
            subprocess.run(list(map(str, command)), check=True, timeout=60)

    def down(self):
        """Removes it."""
        self.act("down")


class Cluster(Mpi):
    """A library whose jobs run on the hosts of a testbed, with a number of ranks on each."""

    def __init__(self, name, testbed, per_host):
        super().__init__(name)
        self.testbed, self.per_host = testbed, per_host
        if not self.is_tutti:
            self.env.setdefault("LD_LIBRARY_PATH", str(self.prefix / "lib"))
            self.env |= peer_libraries.yielding(name, between_hosts=True)[1]

    def place(self, ranks):
        """Returns options that put `ranks` ranks on as many hosts as they need."""
        hosts = self.testbed.hosts[:-(-ranks // self.per_host)]
        if self.is_tutti:
            return ["--agent", self.testbed.agent, "--host", ",".join(f"{host}:{self.per_host}" for host in hosts)]
        return peer_libraries.place(self.name, self.testbed.agent, hosts, self.per_host)

    def command(self, ranks, program, *arguments, options=()):
        return self.testbed.on("n0", self.mpirun, *self.place(ranks), *options, "-n", ranks, program, *arguments)

    def launch(self, words, env=None, **more):
        """Starts a job by its command line, from the first host."""
        return Job(self.testbed.on("n0", *words), {**self.env, **(env or {})}, **more)


def peers(testbed, per_host):
    """Returns the other libraries that are installed, by name. They yield, because hosts share processors
    here."""
    return {name: Cluster(name, testbed, per_host) for name in peer_libraries.installed()}
