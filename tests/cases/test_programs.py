"""C programs that check themselves, on 1, 2, 4, 5 and 8 ranks, and under settings that force other paths."""

import re
import shutil
from ctypes.util import find_library
from pathlib import Path

import pytest

import wrong_arguments
from harness import ROOT, Job, check
from programs import PROGRAMS

RANKS = [1, 2, 4, 5, 8]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(mpi, program, ranks):
    check(mpi.run(ranks, mpi.compile(f"{program}.c")))


@pytest.mark.parametrize("ranks", [1, 3])
def test_cplusplus(mpi, ranks):
    check(mpi.run(ranks, mpi.compile("cplusplus.cpp")))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_tool_interface(tutti, ranks):
    """Control and performance variables, events (MPI_T)."""
    check(tutti.run(ranks, tutti.compile("tool.c")))


@pytest.mark.parametrize("ranks", [1, 3])
def test_profiling_interface(mpi, ranks):
    """A tool that is loaded before the library wraps functions by PMPI, and is called in their place."""
    tool = mpi.compile("profiler.c", "-shared", "-fPIC")
    outcome = mpi.run(ranks, mpi.compile("coll_reduce.c"), env={"LD_PRELOAD": str(tool)})
    check(outcome)
    calls = [line.split() for line in outcome.err.splitlines() if line.startswith("profile:")]
    assert len(calls) == ranks and all(int(one[2]) > 0 and int(one[4]) > 0 for one in calls), str(outcome)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_bad_input(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("bad_input.c"), "freed"))


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_wrong_arguments_are_named(tutti, ranks):
    program = tutti.compile("arguments.c")
    check(tutti.run(ranks, program, env={"TUTTI_DEBUG": "check_arguments=1"}))
    # Checks of handles, ranks and other arguments that take no time are made with every setting.
    check(tutti.run(ranks, program, "unchecked"))


def test_every_argument_is_checked(tutti, tmp_path):
    """Wrong arguments of all functions, one at a time: no crash, no hang, an error unless the list says why
    not."""
    (tmp_path / "wrong.c").write_text(wrong_arguments.source())
    program = tutti.compile(tmp_path / "wrong.c", "-w", "-O0")
    outcome = Job([program], tutti.env).wait(200)
    assert "all called" in outcome.out and not wrong_arguments.complaints(outcome.out), "\n".join(wrong_arguments.complaints(outcome.out))


def test_every_error_class_has_its_call(tutti):
    """The list of the program is that of the ABI, and each class is raised or says why it cannot be."""

    program = tutti.compile("error_classes.c")
    rows = [line.split("\t") for line in (ROOT / "spec" / "constants.tsv").read_text(encoding="ascii").splitlines()]
    known = {row[0]: row[2] for row in rows if row[0].startswith("MPI_ERR_") and row[0] != "MPI_ERR_LASTCODE"}
    listed = [line.split(maxsplit=2) for line in Job([program, "list"], tutti.env).wait(10).out.splitlines()]
    assert {words[0]: words[1] for words in listed} == known and len(listed) == len(known)
    for ranks in (1, 2):
        check(tutti.run(ranks, program, "try"))


@pytest.mark.parametrize("name", ["mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"])
def test_initial_error_handler(tutti, name):
    program = tutti.compile("initial_errors.c")
    check(tutti.run(3, program, name, options=["--initial-errhandler", name]))
    check(tutti.run(2, program, name, env={"TUTTI_INITIAL_ERROR_HANDLER": name}))
    returns = name == "mpi_errors_return"
    for when in ("early", "late"):
        outcome = tutti.run(1, program, name, when, options=["-initial-errhandler", name])
        assert (outcome.status == 0) == returns and ("MPI_Comm_size: called" in outcome.err) != returns, str(outcome)


def test_initial_error_handler_is_one_of_three(tutti):
    outcome = tutti.run(1, "true", options=["--initial-errhandler", "mpi_errors_ignore"])
    assert outcome.status == 2 and "mpi_errors_are_fatal, mpi_errors_abort, mpi_errors_return is needed" in outcome.err, str(outcome)


@pytest.mark.parametrize("ranks", [1, 3])
def test_conversions(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("conversions.c")))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("program", ["topology", "coll_inter"])
def test_mistakes(tutti, program, ranks):
    check(tutti.run(ranks, tutti.compile(f"{program}.c"), "mistakes"))


# Every path of data, whichever one this machine would choose.
PATHS = {
    "double copy": {"TUTTI_SINGLE_COPY": "never"},
    "single copy": {"TUTTI_SINGLE_COPY": "always", "TUTTI_SINGLE_COPY_BYTES": "1"},
    "no eager": {"TUTTI_EAGER_BYTES": "0"},
    "small pieces": {"TUTTI_DEBUG": "fragment_bytes=1K", "TUTTI_SINGLE_COPY": "never"},
    "little room": {"TUTTI_UNEXPECTED_BYTES": "64K"},
    "hardly any room": {"TUTTI_UNEXPECTED_BYTES": "0", "TUTTI_DEBUG": "collective_bytes=0"},
    "park at once": {"TUTTI_SPIN_US": "0", "TUTTI_DEBUG": "yield_rounds=0"},
    "type checks": {"TUTTI_CHECK_TYPES": "1"},
    "mapped at once": {"TUTTI_MAPPED": "always", "TUTTI_DEBUG": "map_bytes=4K", "TUTTI_EAGER_BYTES": "4K"},
    "mapped and sent home": {"TUTTI_MAPPED": "always", "TUTTI_DEBUG": "map_bytes=4K,mapped_home=always", "TUTTI_EAGER_BYTES": "4K"},
}
# And every way to the memory of windows.
WINDOW_PATHS = {
    "messages": {"TUTTI_ONE_SIDED": "messages"},
    "messages without eager": {"TUTTI_ONE_SIDED": "messages", "TUTTI_EAGER_BYTES": "0"},
    "no reach": {"TUTTI_SINGLE_COPY": "never"},
    "not mapped": {"TUTTI_MAPPED": "never"},
    "mapped at once": {"TUTTI_MAPPED": "always"},
    "park at once": {"TUTTI_SPIN_US": "0", "TUTTI_DEBUG": "yield_rounds=0"},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("program", ["p2p_modes", "p2p_match", "p2p_complete", "coll_move", "coll_reduce", "types_p2p"])
def test_path(tutti, program, path):
    check(tutti.run(4, tutti.compile(f"{program}.c"), env=PATHS[path]))


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("setting", [{"TUTTI_DEBUG": "map_after=3"}, PATHS["mapped at once"], {"TUTTI_MAPPED": "always", "TUTTI_SINGLE_COPY": "always"}])
def test_mapped_messages(tutti, ranks, setting):
    outcome = tutti.run(ranks, tutti.compile("mapped_messages.c"), env={"TUTTI_COUNTERS": "1", **setting})
    check(outcome)
    mapped = sum(int(number) for number in re.findall(r"mapped=\d+/(\d+)", outcome.err))
    assert mapped >= (ranks - 1) * 10_000_000, str(outcome)


@pytest.mark.parametrize("path", WINDOW_PATHS)
@pytest.mark.parametrize("program", ["rma_ops", "rma_locks", "rma_random", "rma_pscw"])
def test_window_path(tutti, program, path):
    check(tutti.run(4, tutti.compile(f"{program}.c"), env=WINDOW_PATHS[path]))


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_random_accesses(tutti, seed):
    check(tutti.run(4, tutti.compile("rma_random.c"), seed))


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("eager", ["0", "16K"])
def test_a_target_need_not_call_mpi(tutti, ranks, eager):
    env = {"TUTTI_PROGRESS_THREAD": "1", "TUTTI_ONE_SIDED": "messages", "TUTTI_EAGER_BYTES": eager, "TUTTI_SINGLE_COPY": "never"}
    check(tutti.run(ranks, tutti.compile("progress_thread.c"), env=env))


@pytest.mark.parametrize("program", ["p2p_match", "coll_move", "coll_outstanding", "rma_random", "sessions", "threads", "life", "disconnect"])
def test_beside_a_progress_thread(tutti, program):
    check(tutti.run(4, tutti.compile(f"{program}.c"), env={"TUTTI_PROGRESS_THREAD": "1"}))


@pytest.mark.parametrize("ranks", [3, 4])
def test_collectives_go_on_while_ranks_compute(tutti, ranks):
    env = {"TUTTI_PROGRESS_THREAD": "1", "TUTTI_ALGORITHM": "bcast=kary:radix=1"}
    check(tutti.run(ranks, tutti.compile("unattended.c"), env=env))


# Tuning that may lose as much time as it likes: short programs get through all that it does.
MUCH = {"TUTTI_TUNE": "on", "TUTTI_TUNE_BUDGET": "10000"}


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
@pytest.mark.parametrize("arguments", [["loop", "400"], ["blocking", "600"], ["persistent", "600"],
                                       ["copies", "300"], ["wishes", "300"], ["changing", "300"], ["mixed", "600"],
                                       ["kinds", "400"], ["bits", "300"], ["ahead"]])
def test_algorithms_are_tried_while_a_program_runs(tutti, tmp_path, ranks, arguments):
    """With a budget that lets all of them be tried in a short program."""
    env = {**MUCH, "TUTTI_MODEL_FILE": str(tmp_path / "model")}
    check(tutti.run(ranks, tutti.compile("tuned.c"), *arguments, env=env))


@pytest.mark.parametrize("arguments", [["loop", "400"], ["changing", "300"], ["mixed", "600"]])
def test_tuning_with_its_own_budget(tutti, tmp_path, arguments):
    env = {"TUTTI_TUNE": "on", "TUTTI_MODEL_FILE": str(tmp_path / "model")}
    check(tutti.run(4, tutti.compile("tuned.c"), *arguments, env=env))


def test_a_duplicate_begins_with_what_was_learned(tutti, tmp_path):
    """The second run knows all from the first operation on, on duplicates too, and finds the same results."""
    env = {**MUCH, "TUTTI_MODEL_FILE": str(tmp_path / "model")}
    for tune in ("on", "known", "on"):
        check(tutti.run(4, tutti.compile("tuned.c"), "changing", "600", env={**env, "TUTTI_TUNE": tune}))


@pytest.mark.parametrize("thread", ["0", "1"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_threads_try_algorithms_at_the_same_time(tutti, tmp_path, ranks, thread):
    env = {**MUCH, "TUTTI_PROGRESS_THREAD": thread, "TUTTI_MODEL_FILE": str(tmp_path / "model")}
    check(tutti.run(ranks, tutti.compile("tuned_threads.c"), env=env))


@pytest.mark.parametrize("search", ["row", "attributes", "factorial"])
def test_the_searches_of_the_paper(tutti, tmp_path, search):
    env = {**MUCH, "TUTTI_TUNE_SEARCH": search, "TUTTI_MODEL_FILE": str(tmp_path / "model")}
    check(tutti.run(4, tutti.compile("tuned.c"), "loop", "400", env=env))


def explained(outcome, word):
    return [line for line in outcome.err.splitlines() if line.startswith("Tutti: ") and word in line]


def test_what_was_learned_is_known_in_the_next_run(tutti, tmp_path):
    """The first run writes it behind the model; the second takes it from the first operation on and tries
    nothing; a file that was damaged since is passed over line by line."""
    model = tmp_path / "model"
    model.write_text("# costs\nswitch 2e-6\n")
    env = {**MUCH, "TUTTI_EXPLAIN": "1", "TUTTI_MODEL_FILE": str(model)}
    program = tutti.compile("tuned.c")
    first = tutti.run(2, program, "alone", "200000", env=env)
    check(first)
    lines = [line for line in model.read_text().splitlines() if line.startswith("learned ")]
    assert model.read_text().startswith("# costs\nswitch 2e-6\n")
    assert lines and explained(first, "learned while") and explained(first, "is kept in")
    before = model.read_text()
    second = tutti.run(2, program, "alone", "200000", env=env)
    check(second)
    assert model.read_text() == before and not explained(second, "learned while")
    known = tutti.run(2, program, "alone", "500", env={**env, "TUTTI_TUNE": "known"})
    check(known)
    assert not explained(known, "learned while")
    model.write_text(before.replace("learned tuned", "learned #uned", 1)[:-10] + "\0\nlearned\nlearned x y\n")
    check(tutti.run(2, program, "alone", "500", env=env))
    assert model.read_text().startswith("# costs\nswitch 2e-6\n")


@pytest.mark.parametrize("pattern", ["pipelined", "tiled", "windowed", "window-tiled", "blocking"])
def test_a_fourier_transform_of_four_patterns(tutti, tmp_path, pattern):
    env = {"TUTTI_TUNE": "on", "TUTTI_MODEL_FILE": str(tmp_path / "model")}
    program = tutti.compile(ROOT / "examples" / "fft3d" / "fft3d.c", "-Wl,--no-as-needed", "-lm")
    outcome = tutti.run(4, program, pattern, "32", "20", env=env)
    assert outcome.status == 0 and outcome.out.split()[-1] == "right", str(outcome)


@pytest.mark.parametrize("program", ["coll_move", "coll_reduce", "coll_many", "coll_outstanding", "comms"])
def test_where_algorithms_are_tried(tutti, program):
    check(tutti.run(4, tutti.compile(f"{program}.c"), env={"TUTTI_TUNE": "on"}))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_errors_of_windows(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("rma_errors.c")))


@pytest.mark.parametrize("path", PATHS)
def test_stress(tutti, path):
    """Random messages and collectives for two seconds; `stress 600 SEED` by hand for longer."""
    check(tutti.run(4, tutti.compile("stress.c"), 2, 1 + list(PATHS).index(path), env=PATHS[path]))


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_finalize_with_messages_nobody_receives(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("unreceived.c"), 2000, env={"TUTTI_DEBUG": "ring_bytes=4096"}))


@pytest.mark.parametrize("what, said", [("twice", "MPI_Init: MPI is initialised already"), ("before", "rank 0: error in MPI_Comm_size: called before MPI_Init"),
                                        ("after", "MPI_Comm_size: called after MPI_Finalize")])
def test_calls_out_of_order_are_named(tutti, what, said):
    outcome = tutti.run(1, tutti.compile("life.c"), what)
    assert outcome.status != 0 and said in outcome.err, str(outcome)


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_errors(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("errors.c")))
    check(tutti.run(ranks, tutti.compile("errors.c"), env={"TUTTI_ALGORITHM": "bcast=knomial"}))


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_disagreements(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("disagree.c")))


# Without banks all collectives are messages, as between hosts.
MESSAGES = {"messages": {"TUTTI_DEBUG": "collective_bytes=0"}, "no eager": {"TUTTI_DEBUG": "collective_bytes=0", "TUTTI_EAGER_BYTES": "0"},
            "rings": {"TUTTI_DEBUG": "collective_bytes=0", "TUTTI_ALGORITHM": "bcast=scatter_ring,reduce=rabenseifner"}}


@pytest.mark.parametrize("ranks", [1, 4])
def test_characters_are_small_integers(tutti, ranks):
    program = tutti.compile("chars.c")
    check(tutti.run(ranks, program))
    check(tutti.run(ranks, program, env={"TUTTI_ONE_SIDED": "messages", "TUTTI_DEBUG": "collective_bytes=0"}))
    check(tutti.run(ranks, program, "strict", env={"TUTTI_CHECK_TYPES": "1"}))
    check(tutti.run(ranks, program, "strict", env={"TUTTI_CHECK_TYPES": "1", "TUTTI_ONE_SIDED": "messages"}))


@pytest.mark.parametrize("path", MESSAGES)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_disagreements_by_messages(tutti, ranks, path):
    check(tutti.run(ranks, tutti.compile("refused.c"), env=MESSAGES[path], seconds=60))


@pytest.mark.parametrize("path", ["banks", "messages"])
@pytest.mark.parametrize("forms", ["nn", "bn", "pn"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_that_do_not_fit(tutti, ranks, forms, path):
    """Every pair of kinds; `make stress` has all forms."""
    if forms == "pn" and (ranks > 2 or path == "messages"):
        pytest.skip("make stress")
    check(tutti.run(ranks, tutti.compile("misfits.c"), *forms, env=MESSAGES.get(path), seconds=100))


@pytest.mark.parametrize("ranks", [2, 4])
def test_disagreements_without_banks(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("disagree.c"), "messages", env=MESSAGES["messages"], seconds=60))


def test_two_roots_are_told_before_they_leave(tutti):
    """Both only send, and never meet again on that communicator."""
    outcome = tutti.run(2, tutti.compile("disagree.c"), "leave", env=MESSAGES["messages"], seconds=60)
    said = ["bcast has another root at rank", "has sent this rank a message in bcast that it was not to get"]
    assert outcome.status == 8 and not outcome.timed_out and any(words in outcome.err for words in said), str(outcome)


@pytest.mark.parametrize("env", [{}, MESSAGES["messages"]])
def test_a_report_names_collectives_and_roots(tutti, env):
    import signal
    import time

    job = tutti.begin(3, tutti.compile("refused.c"), "wait", env=env)
    assert job.until(lambda out, err: "waiting" in out)
    seen = False
    for _ in range(20):
        job.process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        text = job.errors() + job.output()
        seen = "bcast with root 0 in MPI_COMM_WORLD" in text and "a non-blocking bcast with root 0 in MPI_COMM_WORLD" in text
        if seen:
            break
    job.process.send_signal(signal.SIGTERM)
    outcome = job.wait(20)
    assert seen, str(outcome)


@pytest.mark.parametrize("what, status, said", [
    ("abort", 300 % 256, "rank 1: MPI_Abort with error code 300"), ("errors_abort", 6, "MPI_Send on MPI_COMM_WORLD: argument dest is -50"),
    ("inherit", 66, "MPI_Send on ocean: argument count is -1"), ("wait", 15, "MPI_Wait on ocean: a message of 4 bytes")])
def test_fatal_errors_are_named(tutti, what, status, said):
    outcome = tutti.run(2, tutti.compile("errors.c"), what)
    assert outcome.status == status and said in outcome.err, str(outcome)


@pytest.mark.parametrize("what", ["atexit", "fork"])
def test_unusual_ends(tutti, what):
    outcome = tutti.run(2, tutti.compile("life.c"), what)
    assert outcome.status == 0, str(outcome)


def test_flood_arrives(mpi):
    check(mpi.run(3, mpi.compile("p2p_flood.c"), 5000, 1000, 0))


def test_flood_has_bounded_memory(tutti):
    # 2 x 200 MB on the way, 8 MiB of them kept.
    env = {"TUTTI_UNEXPECTED_BYTES": "8M"}
    check(tutti.run(3, tutti.compile("p2p_flood.c"), 50000, 4000, 48, env=env))


@pytest.mark.parametrize("size", [0, 8, 4096])
def test_unexpected_messages_of_any_length_are_bounded(tutti, size):
    """Envelopes, payloads and rendezvous requests of all senders together: 1 MiB are counted, the allocator
    takes its share."""
    env = {"TUTTI_UNEXPECTED_BYTES": "1M"}
    program = tutti.compile("p2p_flood.c")
    check(tutti.run(2, program, 500_000, min(size, 8), 12, env=env))
    check(tutti.run(6, program, 20_000, size, 12, env=env))
    check(tutti.run(4, program, 5000, size, 12, "isend", env=env))
    check(tutti.run(3, program, 500, size, 12, "isend", env={"TUTTI_UNEXPECTED_BYTES": "0"}))


def test_message_over_2_gib(mpi):
    words = Path("/proc/meminfo").read_text(encoding="ascii").split()
    if int(words[words.index("MemAvailable:") + 1]) < 7 << 20:
        pytest.skip("needs 7 GiB of free memory")
    check(mpi.run(2, mpi.compile("p2p_huge.c"), seconds=300))


def test_singleton(mpi):
    """Without a launcher a program is a job of one rank."""

    program = mpi.compile("coll_move.c")
    check(Job([program], mpi.env).wait(60))


def test_asp(mpi, tmp_path):
    """The example on a ring of 40 cities."""
    graph = tmp_path / "ring.graph"
    names = "".join(f"c{i}\t0\t0\n" for i in range(40))
    graph.write_text(f"tutti-graph 40 40\n{names}" + "".join(f"{i} {(i + 1) % 40} {i + 1}\n" for i in range(40)))
    outcome = mpi.run(3, mpi.compile(ROOT / "examples" / "asp" / "asp.c"), graph, "c0", "c3")
    assert outcome.status == 0, str(outcome)
    assert "check: 0 of 1600 distances differ" in outcome.out, str(outcome)
    assert "c0 - c3: 0.0 km, 2 cities on the way" in outcome.out, str(outcome)


def test_bench_delivers_what_was_sent(mpi, tmp_path):
    """Every operation of the benchmark, every form, with data that change and are checked."""
    program = mpi.compile(ROOT / "crates" / "tools" / "bench" / "tutti-bench.c", "-O3")
    blocking = ["barrier", "bcast", "reduce", "allreduce", "scan", "exscan", "gather", "gatherv", "scatter", "scatterv", "allgather",
                "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce_scatter_block", "reduce_scatter"]
    ops = ["latency", "pingpong", "bandwidth", "bibandwidth", "ring", "line", "copy_bcast", "copy_allgather"]
    ops += ["put", "put_ring", "get", "accumulate", "fetch_and_op", "bcast_rotating", "ibcast_rotating"]
    ops += [form + op for form in ("", "i", "p") for op in blocking]
    outcome = mpi.run(4, program, "--op", ",".join(ops), "--sizes", "8,65536", "--ms", "5", "--changing")
    assert outcome.status == 0, str(outcome)
    cells = [line for line in outcome.out.splitlines() if line.startswith("cell ")]
    assert len(cells) == 2 * len(ops) - 5, str(outcome)
    assert all("wrong=0" in line for line in cells), str(outcome)
    assert shutil.which("cc")


@pytest.mark.parametrize("command", [["bench", "--ops", "barrier,bcast,pallreduce", "--sizes", "8,4K", "--start-ranks", "0"],
                                     ["consistency", "--sizes", "8:64:2", "--some-sizes", "8", "--neighbours", "3,4"]])
def test_tools_measure(tutti, tmp_path, command):
    """Jobs that are asked cell by cell answer, and end."""

    program = tutti.prefix / "bin" / "tutti"
    outcome = Job([program, *command, "--ranks", "2", "--rounds", "1", "--ms", "1", "--out", tmp_path], tutti.env).wait(120)
    assert outcome.status == 0 and not outcome.left, str(outcome)
    assert "failure" not in outcome.out.lower() and ("bcast" in outcome.out or "comparisons" in outcome.out), str(outcome)


@pytest.mark.parametrize("program", ["coll_move.c", "coll_reduce.c", "coll_many.c"])
def test_hierarchical_collectives(tutti, program):
    """Ranks dealt out over two sockets that hwloc makes up: neighbours in rank are far, and trees follow the
    sockets."""
    if not find_library("hwloc"):
        pytest.skip("hwloc is not installed")
    names = ["barrier", "bcast", "reduce", "allreduce", "gather", "scatter"]
    forced = [f"{name}=hierarchical" for name in names] + ["allgather=hierarchical_ring", "allgatherv=hierarchical_ring"]
    env = {"HWLOC_SYNTHETIC": "pack:2 numa:1 core:1 pu:1", "TUTTI_ALGORITHM": ",".join(forced)}
    for ranks in (3, 5):
        check(tutti.run(ranks, tutti.compile(program), options=["--bind-to", "core"], env=env))
