"""Checkpoints and other users: nothing is written through files that another user has put there, and images
of another user are rejected."""

import os
import shutil
from pathlib import Path

import pytest

from strangers import A, B, PYTHON, begin_as, call_as

# These tests share the two users and netd's directory, so they do not run beside others.
pytestmark = pytest.mark.alone

HERE = Path(__file__).parent


@pytest.fixture
def kept(users, tutti, folder):
    """A checkpoint of a job of A: the directory of its sets."""
    sets = folder / "sets"
    program = tutti.compile(HERE / "steps.c", name="strangers_steps")
    job = begin_as(A, tutti, tutti.mpirun, "--checkpoint-dir", sets, "-n", 2, program, folder / "go", cwd=folder)
    assert job.until(lambda out, _: "ready" in out), str(job.wait(1))
    done = call_as(A, tutti.prefix / "bin" / "tutti", "checkpoint", "--stop", job.process.pid)
    outcome = job.wait(60)
    if "ptrace" in done.stderr + outcome.err:
        pytest.skip(done.stderr + outcome.err)
    assert done.returncode == 0, (done, str(outcome))
    (folder / "go").touch()
    return sets


def restart(tutti, sets, *options):
    return begin_as(A, tutti, tutti.mpirun, *options, "--restart", sets, cwd=sets.parent).wait(60)


def test_what_others_could_have_written_is_refused_by_name(tutti, kept):
    def refused(path, why):
        outcome = restart(tutti, kept)
        assert outcome.status != 0 and why in outcome.err and str(path) in outcome.err, str(outcome)
        assert "--restart-untrusted" in outcome.err, str(outcome)

    image = next(kept.glob("*/rank-0"))
    for path in (image, image.parent, kept):
        mode = path.stat().st_mode & 0o7777
        os.chmod(path, mode | 0o022)
        refused(path, "can be written by others")
        os.chmod(path, mode)
        os.chown(path, B, B)
        os.chmod(path, mode | 0o055)
        refused(path, f"belongs to user {B}")
        os.chown(path, A, A)
        os.chmod(path, mode)
    os.chmod(image, 0o622)
    allowed = restart(tutti, kept, "--restart-untrusted")
    assert allowed.status == 0 and "ok" in allowed.out.split(), str(allowed)


def test_a_checkpoint_goes_on_as_before(tutti, kept):
    outcome = restart(tutti, kept)
    assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)


def test_no_probe_is_written_through_a_link(users, tutti, folder):
    """In a folder in which all may write, as scratch folders are."""
    shared = folder.parent / "shared"
    shared.mkdir()
    os.chmod(shared, 0o1777)
    victim = folder / "victim"
    victim.write_text("untouched")
    os.chown(victim, A, A)
    code = "import os, sys; [os.symlink(sys.argv[1], os.path.join(sys.argv[2], name)) for name in ('.probe', 'probe-0')]"
    assert call_as(B, PYTHON, "-c", code, victim, shared).returncode == 0
    job = begin_as(A, tutti, tutti.mpirun, "--checkpoint-dir", shared, "-n", 1, "true", cwd=folder).wait(60)
    assert job.status == 0, str(job)
    assert victim.read_text() == "untouched"
    assert sorted(path.name for path in shared.iterdir()) == [".probe", "probe-0"]
    shutil.rmtree(shared)
