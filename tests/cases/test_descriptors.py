"""Programs that close or replace descriptors which they have not opened, and limits of files."""

import pytest


@pytest.mark.parametrize("mapped", ["auto", "always"])
def test_files_that_a_program_puts_in_the_place_of_descriptors_stay_as_they_are(tutti, tmp_path, mapped):
    outcome = tutti.run(2, tutti.compile("replaced.c"), tmp_path / "file", env={"TUTTI_MAPPED": mapped}, seconds=60)
    assert not outcome.timed_out and not outcome.left, str(outcome)
    # A rank may have been ended before it had a file.
    files = list(tmp_path.iterdir())
    assert files and all(file.read_bytes() in (b"mine", b"") for file in files), str(outcome)
    assert outcome.status != 0 and outcome.err.count("put another file in its place") in (1, 2), str(outcome)


@pytest.mark.parametrize("mapped", ["auto", "always"])
def test_a_limit_of_files_does_not_end_a_program(tutti, tmp_path, mapped):
    outcome = tutti.run(2, tutti.compile("replaced.c"), tmp_path / "file", "limit", env={"TUTTI_MAPPED": mapped}, seconds=60)
    if outcome.status != 0:
        assert outcome.status < 128 and "file" in outcome.err and not outcome.timed_out, str(outcome)
