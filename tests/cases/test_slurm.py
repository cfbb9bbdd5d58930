"""Jobs that srun starts on the hosts of a testbed, by PMIx and by PMI-2."""

import pytest

import slurm
from harness import Job
from keeping import PATIENCE, Gate, ends_right, until
from slurm import Slurm


@pytest.fixture(scope="module")
def cluster(hosts, tutti, tmp_path_factory):
    """Starts Slurm on four hosts."""
    if why := slurm.refusal():
        pytest.skip(why)
    return Slurm(hosts(4), tmp_path_factory.getbasetemp())


@pytest.fixture(params=["pmix", "pmi2"])
def srun(request, cluster, tutti):
    """Runs a program under srun."""

    def run(words, *command, env=None, seconds=90):
        paths = {"LD_LIBRARY_PATH": str(tutti.prefix / "lib"), "SLURM_CONF": str(cluster.configuration)}
        line = cluster.on_first("srun", f"--mpi={request.param}", *words.split(), *command)
        return Job(line, {**tutti.env, **paths, **(env or {})}).wait(seconds)

    return run


def gone(outcome):
    """Checks that the job ended by itself and left no process."""
    assert not outcome.timed_out, str(outcome)
    assert outcome.left == [], f"processes left: {outcome.left}\n{outcome}"


PLACES = ["-N4 -n8 --ntasks-per-node=2", "-N4 -n8 --ntasks-per-node=2 -m cyclic", "-N3 -n7", "-N1 -n4", "-N2 -n2"]


@pytest.mark.parametrize("places", PLACES)
def test_ranks_find_each_other(srun, job, places):
    ranks = int(places.split("-n")[1].split()[0])
    outcome = srun(places, job, "hello")
    gone(outcome)
    assert outcome.status == 0, str(outcome)
    assert sorted(outcome.out.splitlines()) == sorted(f"rank {i} of {ranks}" for i in range(ranks)), str(outcome)


@pytest.mark.parametrize("source", ["p2p_match.c", "coll_move.c", "coll_reduce.c", "comms.c"])
def test_programs_are_right(srun, mpi, source):
    outcome = srun("-N4 -n8 --ntasks-per-node=2", mpi.compile(source), seconds=300)
    gone(outcome)
    assert outcome.status == 0, str(outcome)


def test_abort_ends_the_job_everywhere(srun, job):
    outcome = srun("-N4 -n8 --ntasks-per-node=2", job, "abort", 7)
    gone(outcome)
    assert outcome.status != 0 and "MPI_Abort" in outcome.err, str(outcome)


@pytest.mark.parametrize("places, rank", [("-N4 -n4", 0), ("-N4 -n4", 3), ("-N4 -n8 --ntasks-per-node=2", 4),
                                          ("-N4 -n8 --ntasks-per-node=2", 7), ("-N1 -n3", 0), ("-N1 -n3", 2)])
def test_a_killed_rank_ends_the_job(srun, cluster, job, places, rank):
    outcome = srun(places, job, "kill", rank, seconds=40)
    gone(outcome)
    assert outcome.status != 0, str(outcome)
    assert outcome.err.count("ended before MPI_Finalize") == 1 and f"Tutti: rank {rank} (host " in outcome.err, str(outcome)
    assert [found for found in cluster.testbed.processes() if found[2] == "tutti-guardian"] == []


def test_a_rank_that_leaves_early_ends_the_job(srun, job):
    outcome = srun("-N2 -n4 --ntasks-per-node=2", job, "exit", 0, seconds=40)
    gone(outcome)
    assert "rank 3 (host " in outcome.err, str(outcome)


def test_no_guardian_stays(srun, cluster, job):
    """The guardian of the ranks ends with them, and the program sees no child."""
    outcome = srun("-N2 -n4 --ntasks-per-node=2", job, "children")
    gone(outcome)
    assert outcome.status == 0 and outcome.out.split() == ["none"] * 4, str(outcome)
    assert [found for found in cluster.testbed.processes() if found[2] == "tutti-guardian"] == []


def test_the_interface_is_a_setting(srun, job):
    outcome = srun("-N2 -n2", job, "hello", env={"TUTTI_INTERFACE": "10.0.0.0/24"})
    assert outcome.status == 0, str(outcome)
    outcome = srun("-N2 -n2", job, "hello", env={"TUTTI_INTERFACE": "nowhere0"})
    gone(outcome)
    assert outcome.status != 0 and "nowhere0" in outcome.err, str(outcome)


@pytest.fixture
def allocated(cluster, tutti):
    """Runs mpirun inside an allocation of Slurm."""

    def run(words, *command, seconds=90):
        line = cluster.on_first("salloc", "-Q", *words.split(), tutti.mpirun, *command)
        # Shorter than the silence after which a daemon without notice leaves by itself.
        return Job(line, {**tutti.env, "SLURM_CONF": str(cluster.configuration)}).wait(seconds, grace=2)

    return run


@pytest.mark.parametrize("options", [[], ["--radix", "1"], ["--map-by", "node"]])
def test_mpirun_runs_on_the_hosts_of_its_allocation(allocated, options):
    outcome = allocated("-w n0,n1,n2 -N3 --ntasks-per-node=2", *options, "-l", "hostname")
    gone(outcome)
    hosts = [0, 1, 2, 0, 1, 2] if "--map-by" in options else [0, 0, 1, 1, 2, 2]
    wanted = [f"[{rank}] n{host}" for rank, host in enumerate(hosts)]
    assert (outcome.status, sorted(outcome.out.splitlines()), outcome.err) == (0, wanted, ""), str(outcome)


def test_mpirun_in_an_allocation_ends_as_elsewhere(allocated):
    outcome = allocated("-w n0,n1,n2 -N3 --ntasks-per-node=1", "sh", "-c", "[ $TUTTI_JOB_RANK = 2 ] && kill -SEGV $$; sleep 100")
    gone(outcome)
    assert outcome.status == 139 and "host n2, sh) was killed by signal 11" in outcome.err, str(outcome)


def test_a_signal_before_the_limit_ends_in_a_checkpoint(cluster, mpi, tutti, tmp_path_factory):
    """The signal comes as sbatch sends it with --signal=B:USR2@SECONDS. Another allocation continues the job
    on other hosts."""
    program, ranks, rounds = mpi.compile("kept.c"), 4, 20
    expected = mpi.run(ranks, program, rounds, "all").out.split()[-1]
    folder = tmp_path_factory.mktemp("sets")
    gate, out, err = Gate(folder / "gate"), folder / "out", folder / "err"
    script = folder / "script"
    options = ["--checkpoint-dir", folder / "sets", "--checkpoint-on", "USR2"]
    words = [tutti.mpirun, *options, program, rounds, "all"]
    exports = "".join(f"export {name}={value}\n" for name, value in gate.env.items())
    script.write_text(f"#!/bin/sh\n{exports}exec {' '.join(map(str, words))}\n")
    where = f"-N2 --ntasks-per-node=2 -w n0,n1 -o {out} -e {err}"
    number = cluster.sh("n0", f"sbatch --parsable {where} {script}").strip()

    def said(file, text):
        return file.exists() and text in file.read_text()

    until(lambda: said(out, "round 0"), lambda: f"{out.read_text()}{err.read_text()}")
    cluster.sh("n0", f"scancel --batch --signal=USR2 {number}")
    until(lambda: said(err, f"mpirun --restart {folder / 'sets'} goes on from it"), lambda: err.read_text())
    cluster.sh("n0", f"scancel {number}")
    until(lambda: not cluster.sh("n0", "squeue -h"), "the job does not end")
    gate.open()
    line = cluster.on_first("salloc", "-Q", "-N2", "-w", "n2,n3", tutti.mpirun, "--restart", folder / "sets")
    outcome = Job(line, {**tutti.env, "SLURM_CONF": str(cluster.configuration)}).wait(PATIENCE)
    assert ends_right(outcome, expected), outcome
