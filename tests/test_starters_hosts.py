"""Jobs that Hydra (MPICH's and Intel's) and PRRTE start on the hosts of a testbed, with its agent in the place of ssh."""

import pytest

from harness import Job
from hosts import refusal
from test_starters import STARTERS, gone

# How a starter is told the agent and the ranks of each host.
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

    def run(*command, seconds=120):
        line = testbed.on("n0", program, *words, "-n", 6, *command)
        outcome = Job(line, {**tutti.env, **starter.env}).wait(seconds)
        gone(outcome)
        assert (left := testbed.idle()) == [], f"processes left: {left}\n{outcome}"
        return outcome

    run.name = starter.name
    return run


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
    outcome = started(job, *what, seconds=40)
    assert outcome.status != 0, str(outcome)
