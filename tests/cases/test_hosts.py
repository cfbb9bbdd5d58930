"""Jobs on several hosts: the programs of the tests on 4 hosts x 2 and 8 hosts x 4 ranks, on every kind of
connection."""

import re

import pytest

from harness import ROOT, check
from hosts import Cluster
from programs import PROGRAMS

# Connection settings for ranks on different hosts.
WAYS = {
    "datagrams": {"TUTTI_CONNECTIONS": "never"},
    "connected at once": {"TUTTI_CONNECTIONS": "static"},
    "neighbours connected": {"TUTTI_CONNECTIONS": "partially-static"},
    "connected at the first message": {"TUTTI_DEBUG": "connect_messages=1"},
    "few connections": {"TUTTI_DEBUG": "max_connections=2,connect_messages=2"},
    "no eager": {"TUTTI_EAGER_BYTES": "0", "TUTTI_CONNECTED_EAGER_BYTES": "0"},
    "all read": {"TUTTI_EAGER_BYTES": "0", "TUTTI_CONNECTED_EAGER_BYTES": "0", "TUTTI_REMOTE_READ_BYTES": "1", "TUTTI_CONNECTIONS": "static"},
    "read over few connections": {
        "TUTTI_EAGER_BYTES": "100", "TUTTI_CONNECTED_EAGER_BYTES": "100", "TUTTI_REMOTE_READ_BYTES": "1", "TUTTI_DEBUG": "max_connections=2,connect_messages=2",
    },
    "all streamed": {"TUTTI_REMOTE_READ_BYTES": "0"},
    "hardly any room": {"TUTTI_UNEXPECTED_BYTES": "0"},
    "read by a provider": {
        "TUTTI_FABRIC": "tcp", "TUTTI_EAGER_BYTES": "0", "TUTTI_CONNECTED_EAGER_BYTES": "0", "TUTTI_REMOTE_READ_BYTES": "1",
        "TUTTI_CONNECTIONS": "static",
    },
    "read without connections": {
        "TUTTI_FABRIC": "tcp;ofi_rxm", "TUTTI_EAGER_BYTES": "100", "TUTTI_REMOTE_READ_BYTES": "1",
    },
    "park at once": {"TUTTI_SPIN_US": "0", "TUTTI_DEBUG": "yield_rounds=0"},
}


@pytest.fixture(scope="module")
def four(mpi, hosts):
    """Creates four hosts with two ranks on each."""
    return Cluster(mpi.name, hosts(4), 2)


@pytest.fixture(scope="module")
def eight(mpi, hosts):
    """Creates eight hosts with four ranks on each."""
    return Cluster(mpi.name, hosts(8), 4)


def nothing_left(cluster):
    """Checks that no host runs a process of a job."""
    left = cluster.testbed.idle()
    assert not left, left


@pytest.mark.across
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program != "life"])
def test_on_four_hosts(four, program):
    check(four.run(8, four.compile(f"{program}.c"), seconds=240))
    nothing_left(four)


@pytest.mark.parametrize("program", ["disconnect", "sessions"])
def test_the_network_stays_until_the_end(four, program):
    """Nothing but the end of the process closes its way to other hosts."""
    for ranks in (2, 3, 8):
        check(four.run(ranks, four.compile(f"{program}.c"), seconds=100))
    nothing_left(four)


@pytest.mark.parametrize("ranks", [2, 8])
def test_a_target_on_another_host_need_not_call_mpi(four, ranks):
    check(four.run(ranks, four.compile("progress_thread.c"), env={"TUTTI_PROGRESS_THREAD": "1"}, options=["--map-by", "node"], seconds=60))
    nothing_left(four)


@pytest.mark.parametrize("call", ["send", "barrier", "bcast", "allreduce"])
def test_what_was_sent_leaves_with_the_call(eight, tmp_path, call):
    """A rank that waits for others outside of MPI owes them no message, not even where their addresses came
    late."""
    check(eight.run(32, eight.compile("outside.c"), tmp_path, call, seconds=100))
    nothing_left(eight)


@pytest.mark.parametrize("tune", ["off", "on"])
@pytest.mark.parametrize("arguments", [["loop", "300"], ["ahead"]])
def test_non_blocking_operations_agree_in_the_background(tutti, four, arguments, tune):
    """Before any blocking one, about what hosts have to offer; and about what was tried."""
    assert tutti
    for ranks in (2, 8):
        env, options = {"TUTTI_TUNE": tune, "TUTTI_TUNE_BUDGET": "10000"}, ["--map-by", "node"]
        check(four.run(ranks, four.compile("tuned.c"), *arguments, env=env, options=options, seconds=100))
    nothing_left(four)


@pytest.mark.parametrize("program", [["tuned.c", "blocking", "300"], ["tuned.c", "persistent", "300"], ["tuned.c", "copies", "200"],
                                     ["tuned.c", "wishes", "200"], ["tuned.c", "changing", "100"], ["tuned.c", "mixed", "200"],
                                     ["tuned_threads.c"]])
def test_all_forms_are_tried_between_hosts(four, tmp_path, program):
    source, *arguments = program
    env, options = {"TUTTI_TUNE": "on", "TUTTI_TUNE_BUDGET": "10000", "TUTTI_MODEL_FILE": str(tmp_path / "model")}, ["--map-by", "node"]
    check(four.run(4, four.compile(source), *arguments, env=env, options=options, seconds=100))
    nothing_left(four)


@pytest.mark.across
@pytest.mark.parametrize("program", ["p2p_modes", "p2p_match", "coll_move", "coll_reduce", "coll_many", "comms"])
def test_on_eight_hosts(eight, program):
    check(eight.run(32, eight.compile(f"{program}.c"), seconds=300))
    nothing_left(eight)


@pytest.mark.across
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", ["p2p_match", "p2p_complete", "coll_move"])
def test_ways(tutti, four, program, way):
    assert tutti
    check(four.run(8, four.compile(f"{program}.c"), env=WAYS[way], seconds=240))


@pytest.mark.across
@pytest.mark.parametrize("way", WAYS)
def test_stress(tutti, four, way):
    """Random messages and collectives for two seconds."""
    assert tutti
    check(four.run(6, four.compile("stress.c"), 2, 1 + list(WAYS).index(way), env=WAYS[way]))


@pytest.mark.across
@pytest.mark.parametrize("size", [0, 8, 4096])
def test_unexpected_messages_of_other_hosts_are_bounded(tutti, four, size):
    assert tutti
    env = {"TUTTI_UNEXPECTED_BYTES": "1M"}
    program = four.compile("p2p_flood.c")
    check(four.run(8, program, 10_000, size, 12, env=env))
    check(four.run(5, program, 2000, size, 12, "isend", env=env))
    check(four.run(4, program, 200, size, 12, "isend", env={"TUTTI_UNEXPECTED_BYTES": "0"}))
    nothing_left(four)


@pytest.mark.across
@pytest.mark.parametrize("way", ["datagrams", "connected at once", "no eager"])
def test_disagreements(tutti, four, way):
    """A collective that fails at one member fails on all hosts."""
    assert tutti
    check(four.run(8, four.compile("refused.c"), "banks", env=WAYS[way], seconds=100))
    nothing_left(four)


@pytest.mark.across
@pytest.mark.parametrize("forms", ["nn", "bn", "pn", "pp"])
def test_collectives_that_do_not_fit(tutti, four, forms):
    assert tutti
    check(four.run(4, four.compile("misfits.c"), *forms, seconds=100))
    nothing_left(four)


# Algorithms whose levels overlap, of every kind, by which collectives they have.
LEVELS = {
    "chosen": "",
    "banks": "barrier,bcast,gather,scatter,allgather,alltoall,reduce,allreduce,reduce_scatter_block,scan=levels_bank",
    "exposed": "bcast,reduce,allreduce=levels;allgather=levels_ring",
    "frames": "gatherv,scatterv,alltoallv=levels_frames;allgatherv=levels_bank",
    "other": "bcast=levels_circulant;allreduce=levels_slices",
}


@pytest.mark.across
@pytest.mark.parametrize("forced", LEVELS)
def test_random_placements(tutti, four, eight, forced):
    """Communicators whose ranks lie on the hosts in any order."""
    assert tutti
    parts = [part.split("=") for part in LEVELS[forced].split(";") if part]
    words = [f"{name}={algorithm}" for names, algorithm in parts for name in names.split(",")]
    env = {"TUTTI_ALGORITHM": ",".join(words)} if words else {}
    seed = 1 + list(LEVELS).index(forced)
    check(four.run(8, four.compile("placements.c"), 6, seed, env=env, seconds=240))
    check(eight.run(12, eight.compile("placements.c"), 6, seed, env=env, seconds=240))


@pytest.mark.across
def test_a_rank_a_host(mpi, hosts):
    """No pair of ranks shares memory."""
    alone = Cluster(mpi.name, hosts(4), 1)
    for program in ("p2p_match", "coll_move", "coll_reduce"):
        check(alone.run(4, alone.compile(f"{program}.c"), seconds=240))


def test_hello(four, job):
    outcome = four.run(8, job, "hello")
    assert sorted(outcome.out.splitlines()) == [f"rank {i} of 8" for i in range(8)], str(outcome)


def test_ranks_are_where_they_were_placed(tutti, four):
    assert tutti
    command = [four.mpirun, "--agent", four.testbed.agent]
    for options, expected in [(["--host", "n1:2,n3:1", "-n", 3], ["n1", "n1", "n3"]),
                              (["--host", "n0:2,n1:2", "--map-by", "node", "-n", 4], ["n0", "n1", "n0", "n1"])]:
        outcome = four.launch([*command, *options, "-l", "hostname"]).wait(60)
        assert outcome.status == 0, str(outcome)
        assert sorted(outcome.out.splitlines()) == [f"[{rank}] {host}" for rank, host in enumerate(expected)], str(outcome)


def test_hosts_of_one_machine_are_known(tutti, four):
    """The hosts of a testbed share the processors of this machine, unless they may use different ones."""
    assert tutti
    program, hosts = four.compile("coll_reduce.c"), ",".join(f"n{host}:2" for host in range(4))
    options = [four.mpirun, "--agent", four.testbed.agent, "--host", hosts, "-genv", "TUTTI_EXPLAIN", "1"]
    outcome = four.launch([*options, program]).wait(100)
    assert "on 8 ranks on 4 hosts, up to 4 of them on one machine: " in outcome.err, str(outcome)


def test_info_says_what_a_job_on_several_hosts_chooses(tutti, four):
    assert tutti
    program, hosts = four.compile("coll_move.c"), ",".join(f"n{host}:2" for host in range(4))
    options = [four.mpirun, "--agent", four.testbed.agent, "--host", hosts]
    job = four.launch([*options, "-genv", "TUTTI_EXPLAIN", "1", program]).wait(100)
    said = re.search(r"Tutti: (bcast) of (\d+) bytes on 8 ranks( on 4 hosts, .*): (\S+(?: \(.*?\))?), least time by the model", job.err)
    assert said, str(job)
    collective, size, where, choice = said.groups()
    asked = four.launch([*options, four.testbed.program, "info", "--collective", collective, "--bytes", size]).wait(100)
    assert asked.out.count(" bytes on 8 ranks") == 1 and where in asked.out, str(asked)
    assert f": {choice}, least time by the model" in asked.out, str(asked)
    machines = four.launch([*options, four.testbed.program, "info", "--machines"]).wait(100)
    assert machines.out.startswith("machines of hosts: 0,0,0,0; processors: "), str(machines)


def test_hostfile(tutti, four, tmp_path):
    assert tutti
    (tmp_path / "hosts").write_text("# ours\nn0 slots=2\nn2:1\nn3\n")
    options = ["--agent", four.testbed.agent, "--hostfile", tmp_path / "hosts", "-n", 4, "-l", "hostname"]
    outcome = four.launch([four.mpirun, *options]).wait(60)
    assert sorted(outcome.out.splitlines()) == ["[0] n0", "[1] n0", "[2] n2", "[3] n3"], str(outcome)


@pytest.mark.across
def test_asp(four, tmp_path):
    """The example on a ring of 40 cities."""
    graph = tmp_path / "ring.graph"
    names = "".join(f"c{i}\t0\t0\n" for i in range(40))
    graph.write_text(f"tutti-graph 40 40\n{names}" + "".join(f"{i} {(i + 1) % 40} {i + 1}\n" for i in range(40)))
    outcome = four.run(8, four.compile(ROOT / "examples" / "asp" / "asp.c"), graph, "c0", "c3")
    assert outcome.status == 0, str(outcome)
    assert "check: 0 of 1600 distances differ" in outcome.out, str(outcome)


@pytest.mark.across
@pytest.mark.parametrize("pattern", ["ep", "cg", "mg", "lu", "is", "sp", "bt"])
def test_patterns(eight, pattern):
    """Runs the communication patterns of the NAS kernels on 16 ranks."""
    program = eight.compile(ROOT / "crates" / "tools" / "bench" / "patterns.c")
    outcome = eight.run(16, program, pattern, 2)
    assert outcome.status == 0 and f"pattern name={pattern} ranks=16" in outcome.out, str(outcome)
