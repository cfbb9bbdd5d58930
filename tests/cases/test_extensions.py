"""Extensions of the standard: sums that are rounded once, continuations, 16-bit floats."""

import pytest

from harness import check


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_reproducible_sums_by_a_hint(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("reproducible.c", "-lm"), seconds=300))


@pytest.mark.parametrize("ranks", [3, 8])
def test_reproducible_sums_by_a_setting(tutti, ranks):
    """The setting does what the hint does."""
    program, env = tutti.compile("reproducible.c", "-lm"), {"TUTTI_DETERMINISTIC": "bits"}
    check(tutti.run(ranks, program, "setting", env=env, seconds=300))


ALGORITHMS = ["together", "together_slices", "bank_together", "bank_together_slices", "exposed_together"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_reproducible_sums_by_every_algorithm(tutti, algorithm):
    """The bits do not depend on the algorithm."""
    names = [f"{what}={algorithm}" for what in ("allreduce", "reduce")]
    env = {"TUTTI_ALGORITHM": ",".join(names)}
    check(tutti.run(5, tutti.compile("reproducible.c", "-lm"), env=env, seconds=300))


@pytest.mark.parametrize("ranks", [1, 2, 4, 5])
def test_continuations(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("continuations.c")))


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_bfloat16(tutti, ranks):
    check(tutti.run(ranks, tutti.compile("half.c", "-DTUTTI_EXTENSIONS")))
