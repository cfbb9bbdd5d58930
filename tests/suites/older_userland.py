"""Tests the wheel with an older C library, Python and shell: Debian 11 (glibc 2.31, Python 3.9), installed by
debootstrap (`make public`).

usage: python tests/suites/older_userland.py [--suite bullseye] [--wheel FILE]

`dist/` must contain the wheel (`make wheel`). pip installs it there beside mpi4py's wheel, from files that
are downloaded on this system. Then programs in Python and in C run, with and without mpirun, on one rank and
on more ranks than there are processors. The last line is `N passed, N failed`.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness import ROOT
from wheels import PROGRAM

HOME = ROOT / "build" / "public"
PACKAGES = "python3,python3-pip,python3-venv,gcc,libc6-dev"
MPI4PY = "mpi4py==4.1.2"
C_PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d: %d\\n", rank, size, sum);
    return MPI_Finalize();
}
"""
# Commands that give a program a system of its own. Mounts disappear with the namespace.
ENTER = """
set -e
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" "$@"
"""


def registry():
    """Returns the address of the registry from which this system gets its packages."""
    sites = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"], capture_output=True, text=True, check=True)
    return next(site for site in sites.stdout.split() if "security" not in site)


class Userland:
    """An older system in a folder."""

    def __init__(self, suite):
        self.root = HOME / suite
        if (self.root / ".whole").exists():
            return
        shutil.rmtree(self.root, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", suite, self.root, registry()]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, timeout=1800)
        (self.root / ".whole").touch()

    def run(self, *words):
        """Runs a command in the older system and returns its output. The command must succeed."""
        command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, self.root, *words]
        clean = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}
        done = subprocess.run([str(word) for word in command], env=clean, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def version(self):
        return self.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def install(userland, wheel):
    """Runs `pip install tutti-mpi mpi4py` from files."""
    files = userland.root / "opt" / "wheels"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    shutil.copy(wheel, files)
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--no-deps", "--dest", files]
    subprocess.run([str(word) for word in (*fetch, "--python-version", userland.version(), MPI4PY)], check=True, timeout=300)
    userland.run("rm", "-rf", "/opt/env")
    userland.run("python3", "-m", "venv", "/opt/env")
    userland.run("sh", "-c", "/opt/env/bin/pip install --quiet --no-index /opt/wheels/*.whl")


def python(userland, ranks):
    (userland.root / "opt" / "hello.py").write_text(PROGRAM, encoding="utf-8")
    said = userland.run("/opt/env/bin/mpirun", "-n", ranks, "/opt/env/bin/python", "/opt/hello.py")
    total = ranks * (ranks + 1) // 2
    assert sorted(said.splitlines()) == [f"rank {rank} of {ranks}: Tutti {total} True" for rank in range(ranks)], said


def c(userland, ranks):
    (userland.root / "opt" / "sum.c").write_text(C_PROGRAM, encoding="utf-8")
    userland.run("/opt/env/bin/mpicc", "/opt/sum.c", "-o", "/opt/sum")
    said = userland.run("/opt/env/bin/mpirun", "-n", ranks, "/opt/sum")
    total = ranks * (ranks - 1) // 2
    assert sorted(said.splitlines()) == [f"rank {rank} of {ranks}: {total}" for rank in range(ranks)], said


def without_mpirun(userland):
    assert "rank 0 of 1: Tutti 1 True" in userland.run("/opt/env/bin/python", "/opt/hello.py")


def tools(userland):
    said = userland.run("/opt/env/bin/tutti", "--version")
    assert said.startswith("tutti "), said
    said = userland.run("/opt/env/bin/tutti", "info", "--settings")
    assert "TUTTI_SPIN_US=-1\n" in said, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", default="bullseye")
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("an older userland takes root and debootstrap (scripts/need.sh public)")
    wheel = options.wheel or max((ROOT / "dist").glob("tutti_mpi-*x86_64.whl"), default=None)
    if wheel is None:
        sys.exit("there is no wheel in dist: make wheel")
    userland = Userland(options.suite)
    install(userland, wheel)
    cases = [("python", python, ranks) for ranks in (1, 2, 4, 8)] + [("c", c, ranks) for ranks in (1, 2, 4)]
    failed = 0
    for name, case, *rest in [*cases, ("without mpirun", without_mpirun), ("tools", tools)]:
        try:
            case(userland, *rest)
        except AssertionError as error:
            failed += 1
            print(f"  {name} {rest}: FAILED\n{error}", flush=True)
    print(f"{wheel.name} on {options.suite}, Python {userland.version()}: {len(cases) + 2 - failed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
