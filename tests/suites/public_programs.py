"""Builds programs of other projects from their unmodified sources, runs them on the staged Tutti, and checks
their results.

usage: python tests/suites/public_programs.py [--only NAME,...]

The programs are the demonstrations of mpi4py (with mpi4py.futures), the examples of rsmpi (the crate `mpi`),
NetPIPE, which compares the received data with the sent data, the library p4est with its own tests, an example
of numba-mpi, and Valgrind's tool for MPI, which wraps functions by PMPI.

`scripts/public.sh` fetches missing sources. Each program has a line with its name, its version, and `N
passed, N failed`. MPICH's test suite has a driver of its own, tests/suites/mpich_suite.py.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from ctypes.util import find_library

from harness import ROOT, Job, Mpi

HOME = ROOT / "build" / "public"
PYTHON = ROOT / "build" / "python" / "bin" / "python"
# Demonstrations of mpi4py: folder, ranks, what is run, and its input. Not among them: what needs Fortran, a
# display, SWIG, Boost or the network, and nxtval-mpi3.py, whose first rank clears the counter when others may
# have counted already.
DEMOS = [
    ("", 3, "helloworld.py", ""), ("compute-pi", 4, "cpi-cco.py", "100"), ("compute-pi", 4, "cpi-rma.py", "100"), ("compute-pi", 1, "cpi-dpm.py 4", "100"),
    *(("nxtval", 4, f"nxtval-{name}.py", "") for name in ("threads", "dynproc", "onesided", "scalable")),
    ("reductions", 4, "test_reductions.py -q", ""), ("sequential", 4, "test_seq.py", ""), ("threads", 1, "sendrecv.py", ""), ("mandelbrot", 7, "mandelbrot.py", ""),
    *(("", 4, f"osu_{name}.py", "") for name in ("allgather", "alltoall", "alltoallv", "barrier", "bcast", "gather", "scatter", "multi_lat")),
    *(("", 2, f"osu_{name}.py", "") for name in ("bw", "bibw", "latency")),
    *(("futures", 1, f"run_{name}.py", "") for name in ("hello", "cpi", "primes")), ("futures", 5, "run_julia.py", ""),
    ("futures", 5, "-m mpi4py.futures run_primes.py", ""),
    *(("init-fini", 2, f"test_{name}.py", "") for name in ("0", "1", "2", "3", "4", "5", "6", "mpi40")),
]
# Examples of rsmpi that need at least this many ranks, and those that are expected to panic.
LEAST = {"all_gather_bool": 2, "cartesian_map": 4, "immediate_multiple_requests": 2}
PANIC = ("derive_nonthreaded_panic", "derive_postfinalize_panic", "derive_preinit_panic")


def fetch(name):
    """Fetches a program's sources and returns their folder."""
    subprocess.run([ROOT / "scripts" / "public.sh", name], check=True, timeout=900)
    return HOME / name


def copied(folder, name):
    """Creates a fresh copy of sources for a build."""
    place = HOME / "built" / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place, symlinks=True)
    return place


class Count:
    """Counts of programs that passed and failed."""

    def __init__(self):
        self.passed, self.failed = 0, 0

    def note(self, what, good, outcome=""):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"  {what}: FAILED\n{outcome}", flush=True)


def python_env(mpi, **more):
    return {**mpi.env, "MPI4PY_MPIABI": "mpiabi", "MPI4PY_LIBMPI": str(mpi.prefix / "lib" / "libmpi_abi.so.1"), "MPLBACKEND": "Agg", **more}


def demos(mpi, count):
    source = next((ROOT / "build" / "mpi4py").glob("mpi4py-*/demo"))
    place = copied(source, "demos")
    for folder, ranks, what, given in DEMOS:
        (place / "input").write_text(given + "\n", encoding="utf-8")
        with (place / "input").open() as stdin:
            outcome = Job(mpi.command(ranks, PYTHON, *what.split()), python_env(mpi), stdin=stdin, cwd=place / folder).wait(300)
        good = outcome.status == 0 and not outcome.timed_out
        if given and "dpm" not in what:
            good = good and "pi is approximately 3.14" in outcome.out
        count.note(f"{folder}/{what}", good, outcome)
    return source.parent.name.partition("-")[2]


def rsmpi(mpi, count):
    place = fetch("rsmpi")
    env = {**mpi.env, "MPICC": str(mpi.mpicc), "CARGO_TARGET_DIR": str(HOME / "built" / "rsmpi")}
    if not env.get("LIBCLANG_PATH") and not find_library("clang"):
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "libclang"], check=True, timeout=600)
        env["LIBCLANG_PATH"] = str(next((PYTHON.parent.parent / "lib").glob("python*/site-packages/clang/native")))
    subprocess.run(["cargo", "build", "--quiet", "--examples"], cwd=place, env=env, check=True, timeout=3000)
    for example in sorted((place / "examples").glob("*.rs")):
        for ranks in (1, 2, 4):
            if ranks < LEAST.get(example.stem, 1) or example.stem in PANIC:
                continue
            program = HOME / "built" / "rsmpi" / "debug" / "examples" / example.stem
            if program.exists():
                outcome = Job(mpi.command(ranks, program), mpi.env, cwd=program.parent).wait(180)
                count.note(f"{example.stem} on {ranks} ranks", outcome.status == 0 and not outcome.timed_out, outcome)
    return re.search(r'^version = "(.*)"', (place / "Cargo.toml").read_text(encoding="utf-8"), re.M)[1]


def netpipe(mpi, count):
    place = copied(fetch("netpipe"), "netpipe")
    subprocess.run(["make", "mpi", f"MPICC={mpi.mpicc}"], cwd=place, check=True, capture_output=True, timeout=300)
    for options in (["-i", "-u", "4096"], ["-u", "65536", "-n", "20"], ["-a", "-u", "65536", "-n", "20"], ["-2", "-a", "-u", "65536", "-n", "20"]):
        outcome = Job(mpi.command(2, place / "NPmpi", *options), mpi.env, cwd=place).wait(600)
        good = outcome.status == 0 and not outcome.timed_out and "fail" not in (outcome.out + outcome.err).lower()
        count.note(f"NPmpi {' '.join(options)}", good, outcome)
    return "3.7.2"


# Features that p4est's configure would find here. It does not run without a Fortran compiler. The list also
# serves its library sc.
P4EST_HAS = """ENABLE_MPI ENABLE_MPITHREAD ENABLE_MPICOMMSHARED ENABLE_MPIWINSHARED ENABLE_MEMALIGN ENABLE_DEBUG ENABLE_BUILD_2D ENABLE_BUILD_3D
HAVE_ANY_MEMALIGN HAVE_POSIX_MEMALIGN HAVE_ALIGNED_ALLOC HAVE_UNISTD_H HAVE_STRTOLL HAVE_TIME_H HAVE_SYS_TYPES_H HAVE_SYS_TIME_H HAVE_SIGNAL_H
HAVE_ARPA_NET_H HAVE_NETINET_IN_H HAVE_FSYNC HAVE_ZLIB""".split()
P4EST_SAYS = "PACKAGE_STRING PACKAGE_VERSION CC CFLAGS CPP CPPFLAGS F77 FFLAGS FLIBS LIBS LDFLAGS BLAS_LIBS LAPACK_LIBS".split()
P4EST_TESTS = [f"{name}{dimensions}" for name in ("balance", "partition", "ghost", "lnodes", "search", "subcomm") for dimensions in (2, 3)]
SC_TESTS = ["allgather", "notify", "reduce", "node_comm"]


def p4est(mpi, count):
    place = copied(fetch("p4est"), "p4est")
    for name in ("sc", "p4est"):
        facts = [*(f"{fact} 1" for fact in P4EST_HAS), "SIZEOF_VOID_P 8", "SIZEOF_INT 4", "MEMALIGN_BYTES 16", *(f'{word} ""' for word in P4EST_SAYS)]
        lines = "".join(f"#define {name.upper()}_{fact}\n" for fact in facts)
        (place / f"{name}_config.h").write_text(lines, encoding="utf-8")
    compiler = [mpi.mpicc, "-w", "-O1", *(f"-I{place / part}" for part in (".", "src", "sc/src", "sc/iniparser", "sc/libb64"))]
    sources = [path for part in ("src/p[48]est*.c", "sc/src/*.c", "sc/iniparser/*.c", "sc/libb64/*.c") for path in place.glob(part)]
    subprocess.run([*compiler, "-c", *sources], cwd=place, check=True, timeout=1200)
    subprocess.run(["ar", "rcs", "libp4est.a", *(f"{path.stem}.o" for path in sources)], cwd=place, check=True, timeout=60)
    for name in [*(f"test/test_{name}" for name in P4EST_TESTS), *(f"sc/test/test_{name}" for name in SC_TESTS)]:
        program = place / name
        subprocess.run([*compiler, "-o", program, f"{program}.c", place / "libp4est.a", "-lz", "-lm"], check=True, timeout=300)
        for ranks in (1, 4):
            outcome = Job(mpi.command(ranks, program), mpi.env, cwd=place).wait(300)
            count.note(f"{name} on {ranks} ranks", outcome.status == 0 and not outcome.timed_out, outcome)
    return "2.2"


def numba(mpi, count):
    place = fetch("numba-mpi")
    # numba-mpi looks for a library named libmpi among the loaded ones. It takes mpi4py from the folder where
    # that was built for this library.
    shutil.copy(mpi.prefix / "lib" / "libmpi_abi.so.1", place / "libmpi.so.1")
    (place / "path").mkdir(exist_ok=True)
    link = place / "path" / "mpi4py"
    link.unlink(missing_ok=True)
    link.symlink_to(next((PYTHON.parent.parent / "lib").glob("python*/site-packages/mpi4py")))
    env = python_env(mpi, PYTHONPATH=str(place / "path"))
    options = ["-env", "LD_PRELOAD", place / "libmpi.so.1"]
    outcome = Job(mpi.command(2, place / "bin" / "python", "-c", NUMBA, options=options), env).wait(900)
    count.note("allreduce, send and receive inside compiled functions", outcome.status == 0 and outcome.out.count("right") == 2, outcome)
    found = subprocess.run([place / "bin" / "pip", "show", "numba-mpi"], capture_output=True, text=True, check=True)
    return re.search(r"^Version: (.*)", found.stdout, re.M)[1]


# numba-mpi has no test in its package; this is its example, with a check.
NUMBA = """
import numba, numba_mpi, numpy as np

@numba.njit()
def work():
    me, size = numba_mpi.rank(), numba_mpi.size()
    partial, total = np.array([me + 1.5]), np.zeros(1)
    numba_mpi.allreduce(partial, total, numba_mpi.Operator.SUM)
    data = np.arange(1000.0) if me == 0 else np.zeros(1000)
    if me == 0:
        numba_mpi.send(data, dest=1, tag=11)
    else:
        numba_mpi.recv(data, source=0, tag=11)
    return total[0], data.sum()

assert work() == (4.0, 499500.0)
print("right")
"""


def valgrind(mpi, count):
    """Runs Valgrind's wrappers of MPI, preloaded. Each wrapper checks the memory that a call reads, using the
    datatypes, calls PMPI, and marks the memory that was written."""
    place = fetch("valgrind")
    wrappers = HOME / "built" / "libmpiwrap.so"
    wrappers.parent.mkdir(exist_ok=True)
    includes = [f"-I{place / part}" for part in ("include", "memcheck")]
    subprocess.run([mpi.mpicc, "-g", "-O1", "-w", "-fPIC", "-shared", *includes, "-o", wrappers, place / "mpi" / "libmpiwrap.c"], check=True, timeout=300)
    options = ["-env", "LD_PRELOAD", wrappers, "-env", "MPIWRAP_DEBUG", "verbose"]
    for source, wrong, calls in (("undefined.c", 1, ["PMPI_{,B,S,R}Send", "PMPI_Recv", "PMPI_Allreduce"]), ("types_p2p.c", 0, ["PMPI_Type_commit"])):
        words = ["valgrind", "--leak-check=no", mpi.compile(source)]
        outcome = Job(mpi.command(2, *words, options=options), mpi.env).wait(600)
        good = outcome.status == 0 and not outcome.timed_out and outcome.err.count("Active for pid") == 2
        good = good and all(f"enter {call}" in outcome.err for call in [*calls, "PMPI_Finalize"])
        found = sum(map(int, re.findall(r"ERROR SUMMARY: (\d+) errors", outcome.err)))
        good = good and found == wrong and outcome.err.count("check_mem_is_defined_untyped") == wrong
        count.note(f"libmpiwrap and memcheck on {source}", good, outcome)
    return (place / "NEWS").read_text(encoding="utf-8", errors="replace").partition("Release ")[2].split()[0]


PROGRAMS = {"demos": demos, "rsmpi": rsmpi, "netpipe": netpipe, "p4est": p4est, "valgrind": valgrind, "numba-mpi": numba}


def main():
    parser = argparse.ArgumentParser(description="public programs on Tutti")
    parser.add_argument("--only", default=",".join(PROGRAMS))
    options = parser.parse_args()
    os.environ.pop("RUSTUP_TOOLCHAIN", None)
    mpi, lines, bad = Mpi("tutti"), [], False
    for name in options.only.split(","):
        count = Count()
        try:
            version = PROGRAMS[name](mpi, count)
        except (subprocess.SubprocessError, OSError, StopIteration) as error:
            version, count.failed = "", count.failed + 1
            print(f"  {name}: {error}", flush=True)
        bad = bad or count.failed > 0
        lines.append(f"{name} {version}: {count.passed} passed, {count.failed} failed")
    print("\n".join(lines))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
