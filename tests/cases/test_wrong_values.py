"""Values that mean nothing are refused before anything starts: settings, options of mpirun and of tutti,
variables by which other launchers name hosts."""

import os
import subprocess

import pytest

SETTINGS = [
    ("TUTTI_ALGORITHM", "bcast=foo", ["no algorithm \"foo\" for bcast", "knomial", "scatter_ring"]),
    ("TUTTI_ALGORITHM", "foo=ring", ["\"foo\" is no collective", "allreduce", "barrier"]),
    ("TUTTI_ALGORITHM", "allreduce=ring:rdix=2", ["rdix is no parameter", "radix", "segment"]),
    ("TUTTI_ALGORITHM", "bcast=knomial:window=0", ["a number from 1 to 64"]),
    ("TUTTI_ALGORITHM", "ring", ["collective=algorithm"]),
    ("TUTTI_DEBUG", "thread_lanes=0", ["from 1 to 8"]),
    ("TUTTI_SILENCE_MS", "99999999999999999", ["from 1 to"]),
    ("TUTTI_MULTICAST_WINDOW", "5000", ["from 1 to 4096"]),
    ("TUTTI_DEBUG", "bank_small_slots=1000", ["from 2 to 128"]),
    ("TUTTI_SPIN_US", "-7", ["from -1 to"]),
]


@pytest.mark.parametrize("name, value, parts", SETTINGS)
def test_settings_are_refused_with_what_is_valid(tutti, name, value, parts):
    for words in (["-n", "2", "true"], ["-n", "2", "-env", name, value, "true"]):
        env = {name: value} if "-env" not in words else {}
        outcome = tutti.run_words(words, env=env)
        assert outcome.status == 2 and name in outcome.err and all(part in outcome.err for part in parts), outcome
    # A process without a launcher finds the error itself.
    program = tutti.compile("small.c")
    alone = subprocess.run([program], env={**tutti.env, name: value}, capture_output=True, text=True, timeout=60)
    assert alone.returncode != 0 and all(part in alone.stderr for part in (name, *parts)), alone.stderr


def test_a_value_that_is_no_text_is_refused(tutti):
    env = {os.fsencode(key): os.fsencode(value) for key, value in tutti.env.items()} | {b"TUTTI_TRACE": b"\xff"}
    done = subprocess.run([tutti.mpirun, "-n", "1", "true"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "TUTTI_TRACE" in done.stderr and "UTF-8" in done.stderr, done


def test_right_algorithms_are_taken(tutti):
    env = {"TUTTI_ALGORITHM": "allreduce=rabenseifner, bcast=knomial:radix=4:segment=32K:window=8"}
    outcome = tutti.run(4, tutti.compile("coll_reduce.c"), env=env)
    assert outcome.status == 0 and "ok" in outcome.out.split(), outcome


@pytest.mark.parametrize("options, part", [
    ("--rank-by slot:moon", "modifier moon"), ("--display map:moon", "modifier moon"), ("--radix 70000", "from 0 to 65536"),
    ("--runtime-options donotlaunch=perhaps", "true or false"), ("--interface=", "empty"), ("--unset-env A=B", "not the name"),
])
def test_options_of_mpirun(tutti, options, part):
    outcome = tutti.run_words([*options.split(), "-n", "1", "true"])
    assert outcome.status == 2 and part in outcome.err, outcome


@pytest.mark.parametrize("words, parts", [
    ("bench --ops foo", ["foo", "latency", "allreduce"]), ("bench --ops bcast,io", ["io"]), ("bench --ranks 0", ["0"]),
    ("bench --rounds 0", ["0"]), ("compare --libraries foo", ["foo", "mpich"]), ("sim --algorithm foo", ["foo", "knomial"]),
    ("sim --radix 4", ["--algorithm"]), ("bench io --modes foo", ["foo", "collective"]), ("bench io --ops foo", ["foo", "write_tile"]),
    ("connections --patterns foo", ["foo", "ep"]), ("tune --ops foo", ["foo", "allreduce"]), ("tune --hopeless nan", ["nan"]),
    ("io-server --root /tmp --mode foo", ["foo", "scratch"]), ("consistency --tolerance -1", ["-1"]),
])
def test_options_of_tutti(tutti, words, parts):
    done = subprocess.run([tutti.prefix / "bin" / "tutti", *words.split()], capture_output=True, text=True, timeout=60, env=tutti.env)
    assert done.returncode != 0 and all(part in done.stderr for part in parts), done


VARIABLES = [
    ("OMPI_MCA_orte_default_hostfile", "FILE", "line 1: x=3: not understood"), ("I_MPI_HYDRA_HOST_FILE", "FILE", "line 1: x=3"),
    ("HYDRA_HOST_FILE", "/nowhere", "/nowhere"), ("PE_HOSTFILE", "FILE", "not a number of slots"), ("LSB_MCPU_HOSTS", "a 2 b", "b has no number"),
    ("SLURM_JOB_NODELIST", "x[3-1]", "not a range"), ("PRTE_MCA_prte_default_hostfile", "FILE", "line 1: x=3"),
    ("I_MPI_PERHOST", "some", "a number, all or allcores"),
]


@pytest.mark.parametrize("name, value, part", VARIABLES)
def test_hosts_of_other_launchers_are_not_passed_over(tutti, tmp_path, name, value, part):
    """Without a word all ranks of a Kubernetes MPIJob would run in one pod."""
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost x=3\n")
    env = {name: value.replace("FILE", str(hosts))}
    outcome = tutti.run_words(["-n", "2", "true"], env=env)
    assert outcome.status == 2 and name in outcome.err and part in outcome.err, outcome
    if name != "I_MPI_PERHOST":
        assert tutti.run_words(["--host", "localhost:2", "-n", "2", "true"], env=env).status == 0
