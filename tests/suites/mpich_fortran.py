"""Runs MPICH's own tests in Fortran (unmodified, from Debian's source package) by the staged mpifort.

usage: python tests/suites/mpich_fortran.py [--layers f77,f90,f08] [--dirs coll,...] [--only NAME,...]

The layers are mpif.h in fixed form, the module mpi, and the module mpi_f08. As with the programs in C
(tests/suites/mpich_suite.py), a program is skipped, with the reason, if it is missing, needs a generator of
the suite or needs more than MPI. Failures that tests/suites/mpich_known.tsv lists do not count. The last line
is `N passed, N failed, N skipped`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from functools import cached_property

from harness import ROOT, Mpi
from mpich import BUILT, SUITE, configure, known_failures, read_list, run

LAYERS = {"f77": ".f", "f90": ".f90", "f08": ".f90"}
# Values that the suite's configuration puts into its files.
VALUES = {"F77_MPI_ADDRESS": "integer*8", "F77_MPI_OFFSET": "integer*8"}
FLAGS = ["-w", "-fallow-argument-mismatch", "-fallow-invalid-boz", "-O1", "-fno-range-check", "-pthread"]


class Layer:
    """One of the three Fortran layers, with the objects that all its programs need."""

    def __init__(self, mpi, name):
        self.mpi, self.name, self.suffix = mpi, name, LAYERS[name]
        self.built = BUILT.with_name(f"{BUILT.name}-{name}")
        self.env = {**mpi.env, "PATH": f"{mpi.prefix / 'bin'}:{os.environ['PATH']}"}
        # Names as gfortran has them.
        configure(self.built, "F77_NAME_LOWER_USCORE", "HAVE_FORTRAN_BINDING")
        self.helper = self.built / "helper.o"
        made = self.make(self.built, "mpifort", "-c", "-o", self.helper, SUITE / "util" / f"mtest_{name}{self.suffix}")
        assert not made, made

    def make(self, folder, compiler, *words):
        """Runs a compiler. Returns its error messages if it failed."""
        flags = FLAGS if compiler == "mpifort" else ["-w", "-O1", "-pthread"]
        includes = [f"-I{path}" for path in (".", "../attr", self.built, SUITE / "include", SUITE / "util")]
        line = [self.mpi.prefix / "bin" / compiler, *flags, *includes, *words]
        done = subprocess.run([str(word) for word in line], cwd=folder, env=self.env, capture_output=True, text=True, timeout=300)
        return "" if done.returncode == 0 else done.stderr + done.stdout

    def prepare(self, folder):
        """Copies a folder, fills in the files of the suite's configuration, and returns the copy's path."""
        place = self.built / "programs" / folder.name
        shutil.copytree(folder, place, dirs_exist_ok=True)
        for path in place.glob("*.in"):
            text = path.read_text(encoding="utf-8")
            if path.name != "Makefile.in":
                path.with_suffix("").write_text(re.sub(r"@(\w+)@", lambda at: VALUES.get(at[1], ""), text), encoding="utf-8")
        return place

    def build(self, place, name):
        """Returns the built program, or the reason why there is none."""
        text = (place / "Makefile.am").read_text(encoding="utf-8").replace("\\\n", " ")
        listed = re.search(rf"^(?:nodist_)?{name}_SOURCES\s*=\s*(.*)$", text, re.M)
        sources = [place / word for word in listed[1].split()] if listed else [place / f"{name}{self.suffix}"]
        sources = [source for source in sources if source.suffix != ".h"]
        if missing := [source.name for source in sources if not source.exists()]:
            return None, f"{missing[0]} is made by the suite's own generator"
        if any(re.search(r"\bmpix_", source.read_text(encoding="utf-8", errors="replace"), re.I) for source in sources):
            return None, "needs more than MPI"
        objects = []
        for source in sources:
            objects.append(source.with_suffix(f".{name}.o"))
            compiler = "mpicc" if source.suffix == ".c" else "mpifort"
            if said := self.make(place, compiler, "-c", "-o", objects[-1], source):
                return None, failure(said)
        if all(source.suffix == ".c" for source in sources):
            said = self.make(place, "mpicc", "-o", place / name, *objects, *self.helpers_in_c)
        else:
            said = self.make(place, "mpifort", "-o", place / name, *objects, self.helper)
        return (None, failure(said)) if said else (place / name, "")

    @cached_property
    def helpers_in_c(self):
        """Compiles the parts of the suite that programs in C use, and returns the objects."""
        objects = []
        for name in ("mtest.c", "mtest_common.c", "mtest_thread.c"):
            objects.append(self.built / f"{name}.o")
            said = self.make(self.built, "mpicc", "-c", "-o", objects[-1], SUITE / "util" / name)
            assert not said, said
        return [*objects, "-lmpifort_abi"]


def failure(said):
    """Returns the first line of a compiler's output that gives the reason."""
    lines = [line.strip() for line in said.splitlines() if re.search("Error|error:|undefined", line)]
    return "does not compile: " + (lines or said.strip().splitlines() or [""])[0][-150:]


def run_folder(layer, folder, words, known):
    """Runs a folder. Returns the numbers of passed, failed and skipped tests, and whether a failure is
    new."""
    totals, is_bad, place = [0, 0, 0], False, layer.prepare(folder)
    for test in read_list(place):
        label = f"{layer.name}/{folder.name}/{test.name}"
        if words.only and test.name not in words.only.split(","):
            continue
        program, why = layer.build(place, test.name)
        if not program:
            fails = why.startswith("does not compile")
            totals[1 if fails else 2] += 1
            is_bad |= fails and label not in known
            print(f"  {label}: {why}{' (known)' if label in known else ''}", flush=True)
            continue
        # Known failures of a test in C (errors before MPI-4) apply to the test in Fortran too.
        in_c = f"{folder.name}/{test.name}".replace("spawn/connacc", "spawn/namepub")
        outcome, good = run(layer.mpi, program, in_c, test, 60)
        totals[0 if good else 1] += 1
        if not good:
            is_bad |= label not in known
            print(f"  {label} on {test.ranks} ranks: FAILED{' known' if label in known else f'{chr(10)}{outcome}'}", flush=True)
    print(f"{layer.name}/{folder.name}: {totals[0]} passed, {totals[1]} failed, {totals[2]} skipped", flush=True)
    return totals, is_bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--dirs", default="")
    parser.add_argument("--only", default="")
    words = parser.parse_args()
    subprocess.run([ROOT / "scripts" / "public.sh", "mpich"], check=True)
    mpi, known, sums, is_bad = Mpi("tutti"), known_failures(), [0, 0, 0], False
    subprocess.run([ROOT / "scripts" / "fortran.sh", mpi.prefix], check=True, env={**os.environ, "DESTDIR": ""})
    for name in words.layers.split(","):
        layer = Layer(mpi, name)
        for folder in sorted(path for path in (SUITE / name).iterdir() if path.is_dir()):
            if words.dirs and folder.name not in words.dirs.split(","):
                continue
            totals, is_new = run_folder(layer, folder, words, known)
            sums, is_bad = [one + other for one, other in zip(sums, totals)], is_bad or is_new
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
