"""MPICH's own test suite: its lists, how its programs are compiled and run, which failures are known."""

import re
import subprocess
from dataclasses import dataclass, field

from harness import ROOT, Front, Job

SUITE = ROOT / "build" / "public" / "mpich" / "test" / "mpi"
BUILT = ROOT / "build" / "public" / "mpich-built"
UTILITIES = ["mtest.c", "mtest_common.c", "mtest_thread.c", "dtypes.c"]
HAVE = """STDC_HEADERS HAVE_STDLIB_H HAVE_STRING_H HAVE_UNISTD_H HAVE_STDARG_H HAVE_INTTYPES_H HAVE_STDINT_H HAVE_SYS_TIME_H HAVE_PTHREAD_H
HAVE_USLEEP HAVE_LONG_DOUBLE HAVE_LONG_LONG HAVE_FLOAT__COMPLEX HAVE_DOUBLE__COMPLEX HAVE_LONG_DOUBLE__COMPLEX HAVE__BOOL HAVE_INT8_T
HAVE_INT16_T HAVE_INT32_T HAVE_INT64_T HAVE_UINT8_T HAVE_UINT16_T HAVE_UINT32_T HAVE_UINT64_T HAVE_MPI_WIN_CREATE HAVE_MPI_SPAWN
USE_STRICT_MPI HAVE_MEMSET HAVE_MPI_INTEGER16
HAVE_SYS_RESOURCE_H HAVE_STRINGS_H HAVE_MEMORY_H HAVE_SYS_STAT_H HAVE_SYS_TYPES_H HAVE_STRDUP""".split()
# Tests that expect errors without an object at the handler of MPI_COMM_WORLD. Since MPI-4 (section 9.3) such
# errors go to the handler of MPI_COMM_SELF. In these tests all handlers return from the start.
BEFORE_MPI_4 = ("errors/", "attr/attrerrtype", "spawn/namepub")
# Threads of these wait for one another in loops of their own, so that 25 of them take turns on two
# processors: on every library.
SPINNING = "threads/"
# Tests that need more memory than this are not run.
MOST_GIBIBYTES = 3


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
    """Returns the test that a line of a list describes, or None."""
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
    """Returns the tests of a folder, each once. The lists repeat some with settings of MPICH."""
    path = next((folder / name for name in ("testlist", "testlist.in") if (folder / name).exists()), None)
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    tests = [test for test in map(read_test, lines) if test]
    return [test for at, test in enumerate(tests) if test not in tests[:at]]


def built(mpi):
    """Returns the folder of the programs that are built for an ABI."""
    return BUILT.with_name(f"{BUILT.name}-{mpi.abi}") if isinstance(mpi, Front) else BUILT


def compile_line(mpi, *words):
    """Compiles as the suite does, without warnings."""
    include = [built(mpi), built(mpi) / "include", SUITE / "include", SUITE / "util", SUITE / "dtpools" / "include"]
    # Functions of MPI-1 that the generator of datatypes calls have the arguments of those that took their
    # place; MPICH's own header has them.
    removed = [] if isinstance(mpi, Front) and mpi.abi == "mpich" else ["-DMPI_Type_hvector=MPI_Type_create_hvector", "-DMPI_Type_hindexed=MPI_Type_create_hindexed"]
    line = [mpi.mpicc, *removed, "-std=gnu99", "-w", "-O1", "-pthread", *(f"-I{path}" for path in include), *words]
    return subprocess.run([str(word) for word in line], capture_output=True, text=True, timeout=300)


def configure(place, *more):
    """Writes the files that the suite's configuration would create, where its programs look for them."""
    (place / "include").mkdir(parents=True, exist_ok=True)
    defined = "".join(f"#define {name} 1\n" for name in [*HAVE, *more])
    threads = "#define THREAD_PACKAGE_NONE 0\n#define THREAD_PACKAGE_POSIX 3\n#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX\n"
    for folder in (place, place / "include"):
        (folder / "mpitestconf.h").write_text(defined + threads, encoding="utf-8")
    (place / "mpitestthreadconf.h").write_text("", encoding="utf-8")
    (place / "dtpoolsconf.h").write_text(defined, encoding="utf-8")


def prepare(mpi):
    """Configures the suite and builds the library (libmtest.a) that all programs need."""
    place = built(mpi)
    configure(place)
    objects = []
    for source in [*(SUITE / "util" / name for name in UTILITIES), *(SUITE / "dtpools" / "src").glob("*.c")]:
        objects.append(place / f"{source.name}.o")
        made = compile_line(mpi, "-c", "-o", objects[-1], source)
        assert made.returncode == 0, made.stderr
    subprocess.run(["ar", "rcs", str(place / "libmtest.a"), *map(str, objects)], check=True, timeout=60)


def known_failures():
    """Returns the tests that cannot pass: folder/name."""
    lines = (ROOT / "tests" / "suites" / "mpich_known.tsv").read_text(encoding="utf-8").splitlines()
    return {line.split("\t")[0] for line in lines if line and not line.startswith("#")}


def run(mpi, program, label, test, seconds):
    """Runs a program. Returns the outcome, and whether it is the expected one."""
    # The list's limit is for one test more than is usual; programs look for their children where they are.
    options = ["-initial-errhandler", "mpi_errors_return"] if label.startswith(BEFORE_MPI_4) else []
    seconds *= 2 if label.startswith(SPINNING) else 1
    outcome = Job(mpi.command(test.ranks, program, *test.arguments, options=options), {**mpi.env, **test.environment}, cwd=program.parent).wait(
        max(seconds, test.seconds))
    if test.fails:
        return outcome, outcome.status != 0 and not outcome.timed_out
    return outcome, outcome.status == 0 and not outcome.timed_out and "no errors" in outcome.out.lower()
