"""Programs that others wrote, where their sources have been fetched (`scripts/public.sh`); `make public` runs
all of them."""

import subprocess
import sys

import pytest

from harness import ROOT

# Folders of MPICH's suite that take seconds; the others are for `make public`.
QUICK = ["attr", "comm", "datatype", "errhan", "group", "info", "io", "errors/io", "spawn"]


def run(*words):
    done = subprocess.run([sys.executable, *map(str, words)], cwd=ROOT / "tests" / "suites", capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("folder", QUICK)
def test_mpich(tutti, folder):
    if not (ROOT / "build" / "public" / "mpich").exists():
        pytest.skip("scripts/public.sh mpich fetches MPICH's test suite")
    assert " passed" in run("mpich_suite.py", "--dirs", folder, "--timeout", "120")


def test_netpipe(tutti):
    if not (ROOT / "build" / "public" / "netpipe").exists():
        pytest.skip("scripts/public.sh netpipe fetches it")
    assert "netpipe 3.7.2: 4 passed, 0 failed" in run("public_programs.py", "--only", "netpipe")
