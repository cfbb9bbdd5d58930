"""Runs programs of MPICH's own test suite (unmodified, from the source package of the distribution) on the
staged Tutti.

usage: python tests/suites/mpich_suite.py [--dirs part,errhan] [--only NAME,...] [--timeout SECONDS]
    [--random] [--tune] [--front mpich|openmpi]

`scripts/public.sh mpich` fetches the sources. A test of the list is a program, a number of ranks and
arguments. The test passes when the program ends well and prints "No Errors". Where the list says so, it
passes when its job fails.

With --random the list includes tests on random datatypes, made by the suite's own generator from its
configuration. With --front the programs are compiled by that library's own wrapper and header, and run on the
front for it.

Programs are compiled for strict MPI, without the extensions of MPICH. Programs that need extensions (MPIX_),
or more memory than a small machine has, are skipped. Failures that tests/suites/mpich_known.tsv lists do not
count. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import re
import sys

from harness import Front, Mpi
from mpich import SUITE, built, compile_line, known_failures, prepare, read_list, read_test, run

DIRS = """attr coll comm datatype errhan group info init io mpi_t part pt2pt rma spawn topo threads threads/comm threads/coll threads/init
threads/mpi_t threads/part threads/pt2pt threads/rma threads/spawn errors/attr errors/coll errors/comm errors/datatype errors/group errors/io errors/pt2pt
errors/rma errors/spawn errors/topo errors/faults""".split()
# Names of functions outside MPI. A program that uses one is skipped.
FOREIGN = re.compile(r"MPIX_|QMPI_")


# Base types of random datatypes, unless the suite's configuration names others.
RANDOM_TYPES = ["MPI_INT", "MPI_INT:4+MPI_DOUBLE:8"]


def random_list(folder):
    """Returns the tests on random datatypes: those that maint/gentests_dtp.sh writes."""
    seed, here = 0, str(folder.relative_to(SUITE))
    for line in (SUITE / "maint" / "dtp-test-config.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        path, extra, counts, options, ranks, least, most = line.split(":")[:7]
        least, most = int(least), int(most or least)
        for kind in RANDOM_TYPES:
            size, last = most, 0
            for count in map(int, counts.split()):
                size = min(max(size * last // count, least), most) if last else most
                last = count
                twice = path.startswith(("pt2pt/", "part/"))
                for counted in [[f"-sendcnt={count}", f"-recvcnt={more}"] for more in (count, 2 * count)] if twice else [[f"-count={count}"]]:
                    seed += 1
                    if path.rpartition("/")[0] == here:
                        words = [f"-type={kind}", *counted, f"-seed={seed}", f"-testsize={size}", *extra.split()]
                        test = read_test(" ".join([path.rpartition("/")[2], ranks, *(f"arg={word}" for word in words), options]))
                        yield from [test] if test else []


def recipes(folder):
    """Reads from the makefile the sources and definitions of programs that are not simply NAME.c."""
    made = {}
    text = (folder / "Makefile.am").read_text(encoding="utf-8").replace("\\\n", " ")
    for name, what, value in re.findall(r"^(\w+)_(SOURCES|CPPFLAGS)\s*=\s*(.*)$", text, re.M):
        sources, flags = made.setdefault(name, ([], []))
        if what == "SOURCES":
            sources += [folder / word for word in value.split() if word.endswith(".c")]
        else:
            flags += [word for word in value.split() if word.startswith("-D")]
    return made


def build(mpi, folder, name, recipe):
    """Returns the built program, or the reason why there is none."""
    sources, flags = recipe.get(name, ([], []))
    sources = sources or [folder / f"{name}.c"]
    if not all(source.exists() for source in sources):
        return None, "no source in C"
    if any(FOREIGN.search(source.read_text(encoding="utf-8", errors="replace")) for source in sources):
        return None, "needs more than MPI"
    program = built(mpi) / folder.relative_to(SUITE) / name
    if not program.exists() or program.stat().st_mtime < (mpi.prefix / "include" / "mpi.h").stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        made = compile_line(mpi, *flags, "-o", program, *sources, built(mpi) / "libmtest.a", "-lm")
        if made.returncode:
            said = [line for line in made.stderr.splitlines() if "error:" in line or "undefined" in line]
            return None, "does not compile: " + (said or made.stderr.splitlines() or [""])[0].rpartition("/")[2]
    return program, ""


def run_folder(mpi, folder, options, known):
    """Runs a folder. Returns the numbers of passed, failed and skipped tests, and whether a failure is
    new."""
    totals, bad, recipe = [0, 0, 0], False, recipes(folder)
    tests = [*read_list(folder), *(random_list(folder) if options.random else [])]
    for test in tests:
        if options.only and test.name not in options.only.split(","):
            continue
        label = f"{folder.relative_to(SUITE)}/{test.name}"
        program, why = build(mpi, folder, test.name, recipe)
        if not program:
            totals[2] += 1
            print(f"  {label}: skipped, {why}", flush=True)
            continue
        outcome, good = run(mpi, program, label, test, options.timeout)
        totals[0 if good else 1] += 1
        if not good:
            bad = bad or label not in known
            said = " known" if label in known else f"\n{outcome}"
            print(f"  {label} on {test.ranks} ranks {' '.join(test.arguments)}: FAILED{said}", flush=True)
    print(f"{folder.relative_to(SUITE)}: {totals[0]} passed, {totals[1]} failed, {totals[2]} skipped", flush=True)
    return totals, bad


def main():
    parser = argparse.ArgumentParser(description="MPICH's test suite on Tutti")
    parser.add_argument("--dirs", default=",".join(DIRS))
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=180)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--tune", action="store_true", help="algorithms are tried meanwhile")
    parser.add_argument("--front", choices=["mpich", "openmpi"], help="through the front for that library's ABI")
    options = parser.parse_args()
    if not SUITE.exists():
        print("mpich_suite: the sources are not there; scripts/public.sh mpich fetches them")
        return
    mpi = Front(options.front) if options.front else Mpi("tutti")
    known, sums, bad = known_failures(), [0, 0, 0], False
    if options.tune:
        mpi.env |= {"TUTTI_TUNE": "on", "TUTTI_MODEL_FILE": str(SUITE / "model")}
    prepare(mpi)
    for folder in [SUITE / name for name in options.dirs.split(",")]:
        totals, new = run_folder(mpi, folder, options, known)
        sums, bad = [one + other for one, other in zip(sums, totals)], bad or new
    print(f"{sums[0]} passed, {sums[1]} failed, {sums[2]} skipped")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
