"""A Slurm cluster on the hosts of a testbed, for tests: authentication, one controller, a daemon a host."""

import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path

from hosts import Testbed

# Folder of the files that each host keeps for itself. Hosts have their own /tmp.
HOME = "/tmp/slurm"
CONFIGURATION = """
ClusterName=tutti
SlurmctldHost={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmctldParameters=enable_configless
KillWait=2
NodeName={names} CPUs={processors} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def refusal():
    """Returns the reason why there can be no Slurm here, if any."""
    missing = [name for name in ("slurmctld", "slurmd", "srun", "munged") if not shutil.which(name)]
    return f"commands are missing: {', '.join(missing)} (scripts/need.sh slurm installs them)" if missing else None


class Slurm:
    """Slurm on a testbed. Slurm is configured for `processors` processors on each host. It ends with the
    testbed."""

    def __init__(self, testbed: Testbed, folder: Path, processors=8):
        self.testbed = testbed
        self.folder = folder / f"slurm-{testbed.name}"
        self.folder.mkdir()
        self.configuration = self.folder / "slurm.conf"
        names = ",".join(testbed.hosts)
        self.configuration.write_text(
            CONFIGURATION.format(controller=testbed.hosts[0], home=HOME, names=names, processors=processors))
        (self.folder / "munge.key").write_bytes(secrets.token_bytes(128))
        self.env = {**os.environ, "SLURM_CONF": str(self.configuration)}
        for host in testbed.hosts:
            self.sh(host, f"""
                mkdir -p {HOME}/state {HOME}/spool
                install -m 600 {self.folder}/munge.key {HOME}/munge.key
                munged --force --key-file={HOME}/munge.key --socket={HOME}/munge.socket --pid-file={HOME}/munge.pid \\
                    --seed-file={HOME}/munge.seed --log-file={HOME}/munge.log
                """)
        self.sh(testbed.hosts[0], f"slurmctld -f {self.configuration}")
        for host in testbed.hosts:
            self.sh(host, f"slurmd -f {self.configuration} -N {host}")
        self.await_hosts()

    def sh(self, host, script):
        """Runs a script on a host; its output."""
        done = subprocess.run(
            [str(word) for word in self.testbed.on(host, "sh", "-euc", script)], env=self.env, capture_output=True,
            text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{host}: {script}: {done.stdout}{done.stderr}"
        return done.stdout

    def await_hosts(self, seconds=60):
        """Waits until Slurm reports all hosts as idle."""
        limit = time.monotonic() + seconds
        states = ""
        while time.monotonic() < limit:
            try:
                states = self.sh(self.testbed.hosts[0], "sinfo -h -N -o %t")
            except AssertionError as error:
                states = str(error)
            if states.split() == ["idle"] * self.testbed.size:
                return
            time.sleep(0.1)
        raise AssertionError(f"Slurm does not come up: {states}")

    def on_first(self, *command):
        """Returns the command line that runs a command on the first host, as a user of the cluster would."""
        return [*map(str, self.testbed.on(self.testbed.hosts[0], *command))]
