"""`tutti netd` on the hosts of a testbed."""

import subprocess

import pytest

from harness import hang_up_as_usual


class Daemons:
    """`tutti netd` on each host of a testbed."""

    def __init__(self, testbed, options=()):
        command = [testbed.program, "netd", *options]
        self.all = [
            subprocess.Popen(
                testbed.on(host, *command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=hang_up_as_usual
            )
            for host in testbed.hosts
        ]
        for daemon in self.all:
            said = daemon.stdout.readline()
            if said != "netd: ready\n":
                why = daemon.communicate()[1]
                self.end()
                assert "CAP_BPF" in why, why
                pytest.skip(why)

    def end(self):
        for daemon in self.all:
            daemon.kill()
            daemon.wait()
