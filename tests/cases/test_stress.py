"""Random collectives against computed values: on 2, 4 and 8 ranks, under settings that force other paths, and
with each algorithm forced in its turn. A few seconds here; `make stress SECONDS=60 SEED=7` does it for
longer.
"""

import subprocess
import time

import pytest

RANKS = [2, 4, 8]

# Every path of data, whichever one this machine would choose. A setting that Tutti does not have is left out.
SETTINGS = {
    "single copy": {"TUTTI_SINGLE_COPY": "always", "TUTTI_SINGLE_COPY_BYTES": "1"},
    "double copy": {"TUTTI_SINGLE_COPY": "never"},
    "mapped": {"TUTTI_MAPPED": "always"},
    "mapped at once": {"TUTTI_MAPPED": "always", "TUTTI_DEBUG": "map_after=1,map_bytes=4K"},
    "mapped and sent home": {"TUTTI_MAPPED": "always", "TUTTI_DEBUG": "mapped_home=always"},
    "not mapped": {"TUTTI_MAPPED": "never"},
    "mapped, all else single copy": {"TUTTI_MAPPED": "always", "TUTTI_SINGLE_COPY": "always", "TUTTI_SINGLE_COPY_BYTES": "1"},
    "park at once": {"TUTTI_SPIN_US": "0", "TUTTI_DEBUG": "yield_rounds=0"},
    "no eager": {"TUTTI_EAGER_BYTES": "0"},
    "small banks": {"TUTTI_DEBUG": "bank_bytes=4K,bank_small_bytes=256,bank_small_slots=2"},
    "little shared memory": {"TUTTI_DEBUG": "collective_bytes=64K"},
    "deterministic": {"TUTTI_DETERMINISTIC": "1"},
}


def tutti_says(mpi, *arguments):
    said = subprocess.run([mpi.prefix / "bin" / "tutti", "info", *arguments], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    return [line for line in said.stdout.splitlines() if line and not line.startswith("#")]


def run(mpi, request, ranks, env=None, share=1.0):
    """Runs the program once, by default for three seconds (`share` of that) and with a seed that changes from
    day to day."""
    seconds = request.config.getoption("--stress-seconds") * share
    seed = request.config.getoption("--stress-seed") or int(time.time()) // 86400
    program = mpi.compile("coll_stress.c")
    outcome = mpi.run(ranks, program, seconds, seed, 200 if ranks <= 4 else 80, env=env, seconds=120 + 3 * seconds)
    assert outcome.status == 0 and "ok" in outcome.out.split(), f"seed {seed}, {env}: {outcome}"


@pytest.mark.parametrize("ranks", RANKS)
def test_collectives(mpi, request, ranks):
    run(mpi, request, ranks)


def test_many_communicators(mpi, request):
    program = mpi.compile("coll_stress.c")
    seconds = request.config.getoption("--stress-seconds")
    outcome = mpi.run(4, program, seconds, 5, 600, 2000, seconds=120 + 3 * seconds)
    assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(tutti, request, setting):
    known = {line.split("=")[0] for line in tutti_says(tutti, "--settings")}
    if not known.issuperset(SETTINGS[setting]):
        pytest.skip(f"no setting {', '.join(sorted(SETTINGS[setting].keys() - known))}")
    run(tutti, request, 4, env=SETTINGS[setting], share=0.3)


def test_every_algorithm(tutti, request):
    """The n-th run forces the n-th algorithm of each collective."""
    by_collective = {}
    for line in tutti_says(tutti, "--algorithms"):
        collective, name = line.split("\t")[:2]
        by_collective.setdefault(collective, []).append(name)
    assert "bcast" in by_collective
    for turn in range(max(map(len, by_collective.values()))):
        forced = ",".join(f"{collective}={names[turn % len(names)]}" for collective, names in by_collective.items())
        for ranks, share in [(4, 0.3), (5, 0.2)]:
            run(tutti, request, ranks, env={"TUTTI_ALGORITHM": forced}, share=share)


@pytest.mark.parametrize("bytes_shared", ["auto", "0"])
@pytest.mark.parametrize("forms", ["nn", "bb", "bn", "nb", "pp", "pn", "np"])
def test_collectives_that_do_not_fit(tutti, request, forms, bytes_shared):
    """All pairs of kinds in all forms, through banks and by messages; a few of them in test_programs.py."""
    if request.config.getoption("--stress-seconds") < 10:
        pytest.skip("make stress")
    for ranks in RANKS + [3]:
        program = tutti.compile("misfits.c")
        outcome = tutti.run(ranks, program, *forms, env={"TUTTI_DEBUG": f"collective_bytes={bytes_shared}"}, seconds=200)
        assert outcome.status == 0 and "ok" in outcome.out.split(), f"{ranks} ranks: {outcome}"
