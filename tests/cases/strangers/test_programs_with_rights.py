"""Programs with other rights than their caller's, and children of ranks: which settings they trust, and what
they inherit."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from strangers import A, B, as_user, begin_as

# These tests share the two users and netd's directory, so they do not run beside others.
pytestmark = pytest.mark.alone

HERE = Path(__file__).parent


@pytest.fixture
def set_user(users, tutti, folder):
    """Builds a program of user A that runs with A's rights, whichever user starts it."""
    program = folder / "sums"
    shutil.copy(tutti.compile(HERE / "sums.c", name="strangers_sums"), program)
    os.chown(program, A, A)
    os.chmod(program, 0o4755)
    return program


def start(program, **variables):
    """Starts it as user B. The loader leaves the path of libraries out for such a program, so it is written
    into it."""
    words = ["setpriv", f"--reuid={B}", f"--regid={B}", "--clear-groups", str(program)]
    env = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, cwd="/")


def test_a_set_user_id_program_believes_no_variable(set_user, tmp_path):
    alone = start(set_user)
    assert alone.returncode == 0 and "rank 0: ok" in alone.stdout, alone
    for name, value in (("TUTTI_TRACE", "/tmp/tutti-trace-of-a"), ("PMIX_PREFIX", "/tmp/lies"), ("TUTTI_JOB_FD", "0"), ("PMI_RANK", "0")):
        refused = start(set_user, **{name: value})
        assert refused.returncode != 0 and name in refused.stderr and "other rights than its caller" in refused.stderr, refused
    assert not Path("/tmp/tutti-trace-of-a").exists()
    # Without the additional rights the same program starts, so the refusal is due to them.
    os.chmod(set_user, 0o755)
    assert start(set_user, TUTTI_EXPLAIN="1").returncode == 0


def test_children_of_a_rank_do_not_inherit_the_job(users, tutti, folder):
    program = tutti.compile(HERE / "children.c", name="strangers_children")
    outcome = begin_as(A, tutti, tutti.mpirun, "-n", 2, program, cwd=folder).wait(60)
    assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)


def test_a_shell_before_mpi_init_still_hands_it_down(users, tutti, folder):
    program = tutti.compile(HERE / "sums.c", name="strangers_sums")
    outcome = begin_as(A, tutti, tutti.mpirun, "-n", 2, "sh", "-c", f"{program}; {program}", cwd=folder).wait(60)
    assert outcome.status == 0 and outcome.out.split().count("ok") == 4, str(outcome)
