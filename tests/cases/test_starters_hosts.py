"""Jobs that Hydra (MPICH's and Intel's) and PRRTE start on the hosts of a testbed, with its agent in the
place of ssh."""

import os
import signal
import time

import pytest

from harness import Job
from hosts import refusal
from jobs import gone
from starters import STARTERS

# prterun of PRRTE 3 (Open MPI 5.0) ends now and then in a deadlock of its own: PMIx_server_finalize waits for
# its thread, which waits in pmix_pending_resolve for a lock that nobody holds. Every rank of the job is gone
# then; a daemon hangs alike. So much later it is taken for hung; it ends within 3 s otherwise.
PRRTE_SECONDS = 8

# Options that give a starter the agent and the ranks of each host.
HYDRA = "-launcher ssh -launcher-exec {agent} -hosts {hosts} -ppn {ranks}"
PRRTE = "--prtemca plm_ssh_agent {agent} --prefix {prefix} --host {places}"


@pytest.fixture(params=[starter for starter in STARTERS if starter.name != "mpich-port"], ids=lambda starter: starter.name)
def started(request, tutti, hosts):
    """Runs a program on three hosts, two ranks on each."""
    starter = request.param
    program = starter.prefix / "bin" / starter.words[0]
    if not program.exists():
        pytest.skip(f"{program} is missing: make starters installs it")
    if why := refusal():
        pytest.skip(why)
    testbed = hosts(3)
    names = {"agent": testbed.agent, "prefix": starter.prefix, "ranks": 2, "hosts": ",".join(testbed.hosts),
             "places": ",".join(f"{host}:2" for host in testbed.hosts)}
    words = (PRRTE if starter.name == "openmpi" else HYDRA).format(**names).split()

    def run(*command, seconds=120, ends=lambda running, testbed: None):
        line = testbed.on("n0", program, *words, "-n", 6, *command)
        running = Job(line, {**tutti.env, **starter.env})
        ends(running, testbed)
        outcome = running.wait(seconds)
        gone(outcome)
        assert (left := testbed.idle()) == [], f"processes left: {left}\n{outcome}"
        return outcome

    run.name = starter.name
    return run


def end_hung_prterun(running, testbed):
    """Kills PRRTE's own processes if only they have been left of their job for PRRTE_SECONDS: a prterun, or a
    daemon of it on another host with the shell and the agent (tutti) that started it. These tests do not
    check whether they end by themselves. A rank that is left fails the test."""
    if not running.until(lambda out, _: out.count("pid ") == 6, seconds=40):
        return
    alone_since = time.monotonic()
    while time.monotonic() - running.start < 60:
        left = testbed.processes()
        if not left:
            return
        if {name for _, _, name in left} - {"prterun", "prted", "sh", "tutti"}:
            alone_since = time.monotonic()
        elif time.monotonic() - alone_since > PRRTE_SECONDS:
            for _, pid, _ in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def test_ranks_find_each_other(started, job):
    outcome = started(job, "hello")
    assert (outcome.status, sorted(outcome.out.splitlines())) == (0, [f"rank {i} of 6" for i in range(6)]), str(outcome)


@pytest.mark.parametrize("source", ["coll_move.c", "coll_reduce.c", "comms.c"])
def test_programs_are_right(started, mpi, source):
    outcome = started(mpi.compile(source), seconds=300)
    assert outcome.status == 0, str(outcome)


@pytest.mark.parametrize("what", [["kill", 0], ["kill", 5], ["exit", 9], ["abort", 7]])
def test_a_rank_that_ends_ends_the_job(started, job, what):
    if (started.name, what[0]) == ("mpich", "exit"):
        pytest.skip("Hydra 5.0.2 does not tell other hosts of a rank that exits without MPI_Finalize: MPICH's own jobs hang alike")
    ends = end_hung_prterun if started.name == "openmpi" else lambda running, testbed: None
    outcome = started(job, *what, seconds=40, ends=ends)
    assert outcome.status != 0, str(outcome)
