"""Programs of other ABIs: our own tests, compiled with MPICH's and Open MPI's headers, on Tutti through its
fronts. Programs that pass with the standard's header pass with these too."""

import subprocess

import pytest

from harness import ROOT, Front
from keeping import PATIENCE, Gate, checksum, ends_right, keep_and_stop, restart

# Programs for which an ABI has the constants and functions.
COMMON = ["p2p_modes", "p2p_match", "coll_move", "coll_reduce", "coll_ops", "coll_many",
          "types", "types_p2p", "comms", "objects", "threads", "threads_mix", "small", "alloc_mem", "topology", "coll_inter",
          "rma_ops", "rma_locks", "rma_random", "partitioned", "disconnect", "half", "user_operators"]
PROGRAMS = {
    "mpich": COMMON + ["p2p_auto_buffer", "p2p_complete", "coll_outstanding", "hardware", "threads_lanes", "life", "large_counts", "sessions"],
    "openmpi": COMMON,
}
CASES = [(abi, program) for abi, programs in PROGRAMS.items() for program in programs]


def check(outcome):
    assert outcome.status == 0 and not outcome.timed_out and "ok" in outcome.out.split(), str(outcome)


@pytest.fixture(scope="session")
def front(tutti):
    """Returns the front of an ABI by its name."""
    made = {}

    def make(abi):
        if abi not in made:
            subprocess.run([ROOT / "scripts" / "peers.sh", abi], check=True, stdout=subprocess.DEVNULL)
            made[abi] = Front(abi)
        return made[abi]

    return make


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("abi, program", CASES)
def test_program(front, abi, program, ranks):
    library = front(abi)
    check(library.run(ranks, library.compile(f"{program}.c")))


@pytest.mark.parametrize("abi", PROGRAMS)
def test_profiling_interface(front, abi):
    """A tool for another ABI wraps functions by PMPI, and is called in their place."""
    library = front(abi)
    tool = library.compile("profiler.c", "-shared", "-fPIC")
    outcome = library.run(2, library.compile("coll_reduce.c"), env={"LD_PRELOAD": str(tool)})
    check(outcome)
    calls = [line.split() for line in outcome.err.splitlines() if line.startswith("profile:")]
    assert len(calls) == 2 and all(int(one[2]) > 0 and int(one[4]) > 0 for one in calls), str(outcome)


@pytest.mark.parametrize("abi", PROGRAMS)
def test_a_program_is_kept_and_goes_on(front, tutti, abi, tmp_path):
    """The binary of another library, stopped and made again elsewhere: the same result."""
    library, gate, sets = front(abi), Gate(tmp_path / "gate"), tmp_path / "sets"
    program = library.compile("kept.c")
    outcome = library.run(2, program, 100, "all")
    assert outcome.status == 0 and checksum(outcome.out), outcome
    job = library.begin(2, program, 100, "all", env=gate.env)
    assert job.until(lambda out, err: "round 0" in out, PATIENCE), job.errors()
    keep_and_stop(tutti, job, sets)
    gate.open()
    gone_on = restart(tutti, sets, job).wait(PATIENCE)
    assert ends_right(gone_on, checksum(outcome.out)), gone_on
