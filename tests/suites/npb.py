"""NAS Parallel Benchmarks 3.4.1: MPI kernels and BT-IO from their unmodified sources, verified by themselves.

usage: python tests/suites/npb.py [--classes S,W] [--most RANKS] [--only bt,cg,...]

`scripts/public.sh npb` fetches what is not there, mpifort and mpicc build it. Each kernel runs on all numbers
of ranks that it takes, up to nine. Ends with `N passed, N failed`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import ROOT, Mpi

HOME = ROOT / "build" / "public"
POWERS, SQUARES, ANY = (1, 2, 4, 8), (1, 4, 9), tuple(range(1, 10))
# Numbers of ranks that a kernel takes.
KERNELS = {"bt": SQUARES, "sp": SQUARES, "lu": (1, 2, 4, 6, 8, 9), "cg": POWERS, "ft": POWERS, "is": POWERS, "mg": POWERS, "ep": ANY}
# The ways in which BT writes its file: by collective calls, by one call for each piece, or in Fortran's own
# files.
FILES = {"full": "mpi_io_full", "simple": "mpi_io_simple", "fortran": "fortran_io", "epio": "ep_io"}
SETTINGS = """MPIFC = mpifort
FLINK = mpifort
FFLAGS = -O2 -w -fallow-argument-mismatch -fallow-invalid-boz
FLINKFLAGS = -O2
MPICC = mpicc
CLINK = mpicc
CFLAGS = -O2
CLINKFLAGS = -O2
CC = cc
BINDIR = ../bin
CONVERTFLAG = -DFORTRAN_REC_SIZE=1
RAND = randi8
"""


class Sources:
    """A copy of the sources, in which kernels are built."""

    def __init__(self, mpi):
        subprocess.run([ROOT / "scripts" / "public.sh", "npb"], check=True)
        self.place = HOME / "built" / "npb"
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(HOME / "npb" / "NPB3.4.1" / "NPB3.4-MPI", self.place, ignore=shutil.ignore_patterns(".git", "*.o", "*.mod"))
        (self.place / "bin").mkdir(exist_ok=True)
        (self.place / "config" / "make.def").write_text(SETTINGS)
        self.env = {**mpi.env, "PATH": f"{mpi.prefix / 'bin'}:{os.environ['PATH']}"}

    def build(self, kernel, size, subtype=""):
        """Returns the program of a kernel, or None if it does not build."""
        words = ["make", "-s", kernel.upper(), f"CLASS={size}"] + ([f"SUBTYPE={subtype}"] if subtype else [])
        made = subprocess.run(words, cwd=self.place, env=self.env, capture_output=True, text=True, check=False)
        suffix = f".{FILES[subtype]}" if subtype else ""
        program = self.place / "bin" / f"{kernel}.{size}.x{suffix}"
        if made.returncode or not program.exists():
            print(f"  {kernel}.{size} {subtype} does not build\n{made.stdout[-2000:]}{made.stderr[-2000:]}", flush=True)
            return None
        return program


def is_verified(outcome):
    """Returns true if the kernel has verified its result."""
    said = " ".join(outcome.out.split())
    return outcome.status == 0 and not outcome.left and "Verification = SUCCESSFUL" in said


def tries(words):
    """Returns what to run: kernel, class, the way of writing files, numbers of ranks."""
    for size in words.classes.split(","):
        for kernel, ranks in KERNELS.items():
            yield kernel, size, "", ranks
        for subtype in FILES:
            yield "bt", size, subtype, SQUARES[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", default="S,W", help="sizes of the problems")
    parser.add_argument("--most", type=int, default=9, help="most ranks")
    parser.add_argument("--only", default="", help="only these kernels")
    words = parser.parse_args()
    mpi, passed, failed = Mpi("tutti"), 0, 0
    subprocess.run([ROOT / "scripts" / "fortran.sh", mpi.prefix], check=True, env={**os.environ, "DESTDIR": ""})
    sources = Sources(mpi)
    for kernel, size, subtype, all_ranks in tries(words):
        if words.only and kernel not in words.only.split(","):
            continue
        program = sources.build(kernel, size, subtype)
        good = []
        for ranks in [ranks for ranks in all_ranks if ranks <= words.most]:
            with tempfile.TemporaryDirectory() as folder:
                outcome = mpi.run(ranks, program, cwd=Path(folder), seconds=300) if program else None
            if outcome and is_verified(outcome):
                good.append(ranks)
                passed += 1
            else:
                failed += 1
                print(f"  {kernel}.{size} {subtype} on {ranks} ranks: {outcome}", flush=True)
        print(f"{kernel}.{size} {subtype or ' '}: verified on {', '.join(map(str, good))} ranks", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
