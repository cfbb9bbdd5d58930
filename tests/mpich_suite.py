"""Runs programs of MPICH's own test suite (unmodified, from the source package of the distribution) on the staged Tutti.

usage: python tests/mpich_suite.py [--dirs part,errhan] [--only NAME,...] [--timeout SECONDS]
    [--random] [--tune] [--front mpich|openmpi]

`scripts/public.sh mpich` fetches the sources. A test of the list is a program, a number of ranks and arguments; it passes when it
ends well and says "No Errors", or, where the list says so, when its job fails. With --random also those on random datatypes
that the suite's own generator makes of its configuration, with --front compiled by that library's own wrapper
and header, and run on the front for it. Programs are compiled as for strict MPI, without what only MPICH does;
what needs extensions (MPIX_), or more memory than a small machine has, is not run. Failures that
tests/mpich_known.tsv lists do not count. Ends with a line `N passed, N failed, N skipped`.
"""

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from harness import ROOT, Front, Job, Mpi

SUITE = ROOT / "build" / "public" / "mpich" / "test" / "mpi"
BUILT = ROOT / "build" / "public" / "mpich-built"
DIRS = """attr coll comm datatype errhan group info init io mpi_t part pt2pt rma spawn topo threads threads/comm threads/coll threads/init
threads/mpi_t threads/part threads/pt2pt threads/rma threads/spawn errors/attr errors/coll errors/comm errors/datatype errors/group errors/io errors/pt2pt
errors/rma errors/spawn errors/topo errors/faults""".split()
UTILITIES = ["mtest.c", "mtest_common.c", "mtest_thread.c", "dtypes.c"]
HAVE = """STDC_HEADERS HAVE_STDLIB_H HAVE_STRING_H HAVE_UNISTD_H HAVE_STDARG_H HAVE_INTTYPES_H HAVE_STDINT_H HAVE_SYS_TIME_H HAVE_PTHREAD_H
HAVE_USLEEP HAVE_LONG_DOUBLE HAVE_LONG_LONG HAVE_FLOAT__COMPLEX HAVE_DOUBLE__COMPLEX HAVE_LONG_DOUBLE__COMPLEX HAVE__BOOL HAVE_INT8_T
HAVE_INT16_T HAVE_INT32_T HAVE_INT64_T HAVE_UINT8_T HAVE_UINT16_T HAVE_UINT32_T HAVE_UINT64_T HAVE_MPI_WIN_CREATE HAVE_MPI_SPAWN
USE_STRICT_MPI HAVE_MEMSET HAVE_MPI_INTEGER16
HAVE_SYS_RESOURCE_H HAVE_STRINGS_H HAVE_MEMORY_H HAVE_SYS_STAT_H HAVE_SYS_TYPES_H HAVE_STRDUP""".split()
# What no program may need to be run here.
FOREIGN = re.compile(r"MPIX_|QMPI_")


# What counts on errors without an object going to the handler of MPI_COMM_WORLD, not to that of MPI_COMM_SELF (MPI-4, section 9.3): there
# all begin with a handler that returns.
BEFORE_MPI_4 = ("errors/", "attr/attrerrtype", "spawn/namepub")
# Threads of these wait for one another in loops of their own, so that 25 of them take turns on two processors: on every library.
SPINNING = "threads/"
# Tests that want more memory are not run.
MOST_GIBIBYTES = 3
# What random datatypes are made of, unless the suite's configuration says otherwise.
RANDOM_TYPES = ["MPI_INT", "MPI_INT:4+MPI_DOUBLE:8"]


@dataclass
class Test:
    """One line of a list."""

    name: str
    ranks: int
    arguments: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    fails: bool = False
    seconds: float = 0


def read_test(line):
    """What a line of a list says, or nothing."""
    words = re.sub(r"@\w+@", "", line).split()
    if len(words) < 2 or line.startswith("#") or not words[1].isdigit():
        return None
    test = Test(words[0], int(words[1]))
    for key, _, value in (word.partition("=") for word in words[2:]):
        if key == "arg":
            test.arguments.append(value)
        elif key == "env" and not value.startswith("MPIR_"):
            test.environment.update([value.split("=", 1)])
        elif key == "resultTest":
            if value == "TestTimeout":
                return None
            test.fails = value in ("TestStatus", "TestErrFatal")
        elif key == "timeLimit":
            test.seconds = float(value)
        elif key == "mpiexecarg":
            return None
        elif key == "strict" and value.lower() == "false":
            return None
        elif key == "mem" and float(value) > MOST_GIBIBYTES:
            return None
    return test


def read_list(folder):
    """The tests of a folder, each once: lists repeat some with settings of MPICH."""
    path = next((folder / name for name in ("testlist", "testlist.in") if (folder / name).exists()), None)
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    tests = [test for test in map(read_test, lines) if test]
    return [test for at, test in enumerate(tests) if test not in tests[:at]]


def random_list(folder):
    """Tests on random datatypes: those that maint/gentests_dtp.sh writes."""
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
    """From the makefile: sources and definitions of programs that are not simply NAME.c."""
    made = {}
    text = (folder / "Makefile.am").read_text(encoding="utf-8").replace("\\\n", " ")
    for name, what, value in re.findall(r"^(\w+)_(SOURCES|CPPFLAGS)\s*=\s*(.*)$", text, re.M):
        sources, flags = made.setdefault(name, ([], []))
        if what == "SOURCES":
            sources += [folder / word for word in value.split() if word.endswith(".c")]
        else:
            flags += [word for word in value.split() if word.startswith("-D")]
    return made


def built(mpi):
    """Where the programs of an ABI are."""
    return BUILT.with_name(f"{BUILT.name}-{mpi.abi}") if isinstance(mpi, Front) else BUILT


def compile_line(mpi, *words):
    """Compiles as the suite does, without warnings."""
    include = [built(mpi), built(mpi) / "include", SUITE / "include", SUITE / "util", SUITE / "dtpools" / "include"]
    # Functions of MPI-1 that the generator of datatypes calls have the arguments of those that took their place;
    # MPICH's own header has them.
    removed = [] if isinstance(mpi, Front) and mpi.abi == "mpich" else ["-DMPI_Type_hvector=MPI_Type_create_hvector", "-DMPI_Type_hindexed=MPI_Type_create_hindexed"]
    line = [mpi.mpicc, *removed, "-std=gnu99", "-w", "-O1", "-pthread", *(f"-I{path}" for path in include), *words]
    return subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=300)


def build(mpi, folder, name, recipe):
    """The program, or why there is none."""
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


def configure(place, *more):
    """Writes what the suite's configuration would find out, where its programs look for it."""
    (place / "include").mkdir(parents=True, exist_ok=True)
    defined = "".join(f"#define {name} 1\n" for name in [*HAVE, *more])
    threads = "#define THREAD_PACKAGE_NONE 0\n#define THREAD_PACKAGE_POSIX 3\n#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX\n"
    for folder in (place, place / "include"):
        (folder / "mpitestconf.h").write_text(defined + threads, encoding="utf-8")
    (place / "mpitestthreadconf.h").write_text("", encoding="utf-8")
    (place / "dtpoolsconf.h").write_text(defined, encoding="utf-8")


def prepare(mpi):
    """What all programs are linked with."""
    place = built(mpi)
    configure(place)
    objects = []
    for source in [*(SUITE / "util" / name for name in UTILITIES), *(SUITE / "dtpools" / "src").glob("*.c")]:
        objects.append(place / f"{source.name}.o")
        made = compile_line(mpi, "-c", "-o", objects[-1], source)
        assert made.returncode == 0, made.stderr
    subprocess.run(["ar", "rcs", str(place / "libmtest.a"), *map(str, objects)], check=True, timeout=60)


def known_failures():
    """Tests that cannot pass: folder/name."""
    lines = (Path(__file__).parent / "mpich_known.tsv").read_text(encoding="utf-8").splitlines()
    return {line.split("\t")[0] for line in lines if line and not line.startswith("#")}


def run(mpi, program, label, test, seconds):
    """The outcome, and whether it is the one to be expected."""
    # The list's limit is for one test more than is usual; programs look for their children where they are.
    options = ["-initial-errhandler", "mpi_errors_return"] if label.startswith(BEFORE_MPI_4) else []
    seconds *= 2 if label.startswith(SPINNING) else 1
    outcome = Job(mpi.command(test.ranks, program, *test.arguments, options=options), {**mpi.env, **test.environment}, cwd=program.parent).wait(
        max(seconds, test.seconds))
    if test.fails:
        return outcome, outcome.status != 0 and not outcome.timed_out
    return outcome, outcome.status == 0 and not outcome.timed_out and "no errors" in outcome.out.lower()


def run_folder(mpi, folder, options, known):
    """Passed, failed and skipped tests of a folder, and whether a failure is new."""
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
