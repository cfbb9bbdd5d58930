"""Jobs of several hosts that are kept and made again."""

import subprocess

from keeping import PATIENCE, checksum, kept, lasting, name_of, until


def mpirun_of(job):
    """Returns the process of mpirun itself, below the process that enters the namespaces of a host."""
    def found():
        assert job.process.poll() is None, f"the job is over: {job.output()}\n{job.errors()}"
        pid = job.process.pid
        while name_of(pid) != "mpirun":
            try:
                children = open(f"/proc/{pid}/task/{pid}/children").read().split()
            except OSError:
                return None
            if not children:
                return None
            pid = int(children[0])
        return pid
    return until(found, "there is no mpirun")


def begin(cluster, program, arguments, place, env=None, options=(), ranks=8):
    words = [*cluster.place(ranks), "--checkpoint-dir", place, *options, "-n", ranks, program, *arguments]
    return cluster.launch([cluster.mpirun, *words], env=env)


def restart(cluster, place, before, hosts, options=(), env=None):
    """Restarts the job of a set. `before` is the job from which the set came."""
    where = ["--agent", cluster.testbed.agent, "--host", ",".join(hosts)]
    return cluster.launch([cluster.mpirun, *where, *options, "--restart", place], env=env, mark=before.mark)


def keep(cluster, job, *options):
    """Takes a checkpoint, as soon as the job is there."""
    return kept(lambda: ask(cluster, job, *options), job)


def ask(cluster, job, *options):
    words = [cluster.prefix / "bin" / "tutti", "checkpoint", mpirun_of(job), *options]
    words = [str(word) for word in cluster.testbed.on("n0", *words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)


def reference(cluster, program, arguments, env=None, ranks=8):
    outcome = cluster.run(ranks, program, *arguments, env=env, seconds=PATIENCE)
    assert outcome.status == 0 and checksum(outcome.out), outcome
    return checksum(outcome.out), outcome.seconds


def lasting_on(cluster, program, env=None, ranks=8):
    """Calls `lasting` for a job of a second on these hosts, with all kinds of communication."""
    return lasting(lambda rounds: reference(cluster, program, (rounds, "all"), env, ranks), 20, 1)
