"""The first job on a kind of machine measures the costs of the machine, and later jobs use the figures."""

import multiprocessing
import os
import subprocess
import time

import pytest

from harness import Job

LINE = "Costs of this machine, for the choice of algorithms\n"


@pytest.fixture
def cached(tutti, tmp_path):
    """Runs a job of two ranks with an empty cache directory; returns it and the files in the directory."""

    def run(cache=tmp_path, **env):
        env = {**tutti.env, "XDG_CACHE_HOME": str(cache), "TUTTI_CALIBRATE": "1", **env}
        outcome = Job([tutti.mpirun, "-n", "2", "true"], env).wait(60)
        assert outcome.status == 0 and not outcome.err, str(outcome)
        folder = cache / "tutti"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    return run


def in_force(tutti, cache, **env):
    """Returns the line of `tutti info` that describes the costs in force."""
    info = subprocess.run([tutti.prefix / "bin" / "tutti", "info"], text=True, capture_output=True, check=True,
                          env={**tutti.env, "XDG_CACHE_HOME": str(cache), **env})
    return info.stdout.split(LINE)[1].splitlines()[0].strip()


def measured(run, attempt):
    """The files once a job has measured: other programs may have disturbed earlier jobs."""
    for _ in range(30):
        found = run()
        if found and not found[-1].endswith(".attempt"):
            return found
        attempt.unlink(missing_ok=True)
        time.sleep(0.3)
    pytest.skip("this machine is in use all the time")


def test_the_first_job_measures(cached, tutti, tmp_path):
    assert in_force(tutti, tmp_path).startswith("defaults of the library"), in_force(tutti, tmp_path)
    kind = in_force(tutti, tmp_path).split("not measured on a ")[1].split(" yet")[0]
    model = tmp_path / "tutti" / f"MODEL-{kind}"
    assert measured(cached, model.with_name(model.name + ".attempt")) == [model.name]
    text = model.read_text()
    assert text.startswith("# measured by tutti probe on ") and "\nreduce_byte " in text
    said = in_force(tutti, tmp_path)
    assert said.startswith("measured on ") and kind in said and said.endswith(str(model)), said
    cached()
    assert model.read_text() == text, "it is measured once"
    model.rename(tmp_path / "model")
    assert cached(TUTTI_MODEL_FILE=str(tmp_path / "model")) == [], "a file that the user names is enough"
    assert cached(TUTTI_CALIBRATE="0") == []


def test_what_tuning_has_learned_stays(cached, tutti, tmp_path):
    kind = in_force(tutti, tmp_path).split("not measured on a ")[1].split(" yet")[0]
    model = tmp_path / "tutti" / f"MODEL-{kind}"
    model.parent.mkdir()
    learned = "learned fft blocking allreduce 0 8 0 2@1-00 ring plain\n"
    model.write_text(learned)
    measured(lambda: [name for name in cached() if b"measured" in model.read_bytes()],
             model.with_name(model.name + ".attempt"))
    assert learned in model.read_text()


def test_a_busy_machine_is_not_measured(cached, tmp_path):
    """Later jobs do not try again for ten minutes."""
    neighbours = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2 * os.cpu_count())]
    for one in neighbours:
        one.start()
    try:
        found = cached()
        assert len(found) == 1 and found[0].endswith(".attempt"), found
        tried = (tmp_path / "tutti" / found[0]).stat().st_mtime
    finally:
        for one in neighbours:
            one.kill()
            one.join()
    assert cached() == found and (tmp_path / "tutti" / found[0]).stat().st_mtime == tried


def spin():
    while True:
        pass


def test_without_a_cache_nothing_is_measured(cached, tmp_path):
    (tmp_path / "tutti").touch()
    assert cached() == []
    assert (tmp_path / "tutti").read_bytes() == b""


def test_jobs_that_start_together_do_not_disturb_each_other(tutti, tmp_path):
    env = {**tutti.env, "XDG_CACHE_HOME": str(tmp_path), "TUTTI_CALIBRATE": "1"}
    jobs = [Job([tutti.mpirun, "-n", "1", "true"], env) for _ in range(6)]
    for job in jobs:
        outcome = job.wait(60)
        assert outcome.status == 0 and not outcome.err, str(outcome)
    assert all(path.name.startswith("MODEL-") for path in (tmp_path / "tutti").iterdir())


def test_a_stranger_s_link_is_not_followed(cached, tutti, tmp_path):
    kind = in_force(tutti, tmp_path).split("not measured on a ")[1].split(" yet")[0]
    (tmp_path / "tutti").mkdir()
    (tmp_path / "tutti" / f"MODEL-{kind}.attempt").symlink_to(tmp_path / "elsewhere")
    cached()
    assert not (tmp_path / "elsewhere").exists()
