"""Builds test suites of files that others wrote, from their unmodified sources, and runs them on the staged
Tutti.

usage: python tests/suites/io_suites.py [--only romio,ior,hdf5,pnetcdf,h5py] [--tests NAME,...] [--place DIRECTORY] [--timeout SECONDS]

The programs of ROMIO (in MPICH's source), IOR with verification, the parallel tests of HDF5, those of
PnetCDF, and h5py's own tests with MPI, on HDF5 as it was built here. `scripts/public.sh` fetches what is not
there. Failures that tests/suites/io_known.tsv lists do not count. Ends with a line a suite: `N passed, N
failed, N known`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import ROOT, Job, Mpi

HOME = ROOT / "build" / "public"
KNOWN = Path(__file__).parent / "io_known.tsv"

# Programs of ROMIO: ranks and arguments; FILE is a file of its own. Not among them: perf and coll_perf, which
# only measure, and large_array and large_file, which want more memory and disk than a small machine has.
FNAME = ["-fname", "FILE"]
ROMIO = [
    ("simple", 4, FNAME), ("async", 4, FNAME), ("async-multiple", 4, FNAME), ("atomicity", 4, FNAME), ("coll_test", 4, FNAME), ("excl", 4, FNAME),
    ("creat_excl", 4, FNAME), ("file_info", 4, FNAME), ("i_noncontig", 2, FNAME), ("noncontig", 2, FNAME), ("noncontig_coll", 2, FNAME),
    ("noncontig_coll2", 4, FNAME), ("aggregation1", 4, ["-h", "-f", "FILE"]), ("aggregation2", 4, ["FILE"]), ("hindexed", 4, ["FILE"]), ("misc", 4, FNAME),
    ("shared_fp", 4, FNAME), ("ordered_fp", 4, FNAME), ("split_coll", 4, FNAME), ("psimple", 4, FNAME), ("error", 1, FNAME), ("status", 1, FNAME),
    ("types_with_zeros", 2, ["FILE"]), ("darray_read", 4, ["FILE"]), ("external32", 1, ["FILE"]), ("big_extents", 4, ["FILE"]), ("syshints", 1, ["HINTS"]),
]
HDF5 = "t_mpi testphdf5 t_cache t_cache_image t_pread t_pshutdown t_prestart t_init_term t_shapesame t_filters_parallel t_bigio".split()


def known():
    """Reasons of failures that do not count, by suite and test."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines()
    return {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in lines if line and not line.startswith("#")}


class Suite:
    """Counts the results of a suite's tests."""

    def __init__(self, name, options):
        self.name, self.options, self.known = name, options, known()
        self.passed = self.failed = self.excused = 0

    def wants(self, test):
        return not self.options.tests or any(re.fullmatch(pattern, test) for pattern in self.options.tests.split(","))

    def note(self, test, good, outcome=""):
        if good:
            self.passed += 1
        elif (self.name, test) in self.known:
            self.excused += 1
        else:
            self.failed += 1
            print(f"  {self.name}: {test} fails\n{outcome}", flush=True)

    def run(self, mpi, test, ranks, words, cwd, good=lambda outcome: True, env=None, seconds=None, options=()):
        if self.wants(test):
            outcome = Job(mpi.command(ranks, *words, options=options), {**mpi.env, **(env or {})}, cwd=cwd).wait(seconds or self.options.timeout)
            well = outcome.status == 0 and not outcome.timed_out and not outcome.left
            self.note(test, well and good(outcome), outcome)


def fetch(name):
    subprocess.run([ROOT / "scripts" / "public.sh", name], check=True)
    return HOME / name


def do(words, cwd, mpi, log, env=None):
    """Runs a step of building; its output goes to a log, whose end is shown where it fails."""
    path = f"{mpi.prefix / 'bin'}:{os.environ['PATH']}"
    with open(log, "a", encoding="utf-8") as out:
        done = subprocess.run([str(word) for word in words], cwd=cwd, env={**mpi.env, "PATH": path, **(env or {})}, stdout=out,
                              stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]} fails in {cwd}:\n" + "\n".join(Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-20:]))


def romio(mpi, suite, place):
    source, built = fetch("mpich") / "src" / "mpi" / "romio" / "test", HOME / "romio-built"
    built.mkdir(exist_ok=True)
    for name, ranks, arguments in ROMIO:
        text = source / f"{name}.c"
        if not text.exists():
            # A template, of which only the length modifier of printf is open.
            text = built / f"{name}.c"
            text.write_text((source / f"{name}.c.in").read_text(encoding="utf-8").replace("@LL@", "%lld"), encoding="utf-8")
        program = built / name
        # Requests that ROMIO had before MPI-3.
        before = [f"-DMPIO_{word}=MPI_{word}" for word in ("Request", "Wait", "Test")]
        do([mpi.mpicc, "-removed", "-w", "-O1", *before, "-o", program, text], built, mpi, built / "log")
        words = [{"FILE": place / name, "HINTS": source / "test_hintfile"}.get(word, word) for word in arguments]
        suite.run(mpi, name, ranks, [program, *words], place, lambda outcome: not re.search(r"rror|expect|wrong", outcome.out.replace("No Errors", "")))


# Patterns of IOR: transfers in one file or in one each, in order, at random (-z), in segments, alone and
# together (-c), by file views and by explicit offsets. Each is written, read by another rank (-C, not at
# random) and compared (-W as it is written, -R as it is read). Not among them: useStridedDatatype, which has
# several segments of a buffer of one, and is told wrong data on MPICH too.
IOR = {
    "alone": "-C -t 64k -b 1m", "together": "-C -c -t 64k -b 1m", "segments": "-C -t 64k -b 64k -s 16",
    "segments together": "-C -c -t 47008 -b 47008 -s 16", "a file each": "-C -F -t 256k -b 2m", "small": "-C -t 1k -b 64k -s 3",
    "by views": "-C -c -t 4k -b 4k -s 64 --mpiio.useFileView", "at random": "-z --random-offset-seed=7 -t 16k -b 1m", "large": "-C -c -t 4m -b 32m",
    "preallocated": "-C --mpiio.preallocate -t 64k -b 1m", "synced": "-C -c -e -t 256k -b 1m",
}


def ior(mpi, suite, place):
    """Runs IOR of its own repository, by MPI-IO: on a file system, and on io-servers, near and far."""
    built = HOME / "ior-built"
    if not (built / "src" / "ior").exists():
        shutil.rmtree(built, ignore_errors=True)
        shutil.copytree(fetch("ior"), built)
        do(["./bootstrap"], built, mpi, HOME / "ior.log")
        do(["./configure", "--with-mpiio", "--without-hdf5", "--without-ncmpi"], built, mpi, HOME / "ior.log", {"MPICC": "mpicc", "CC": "mpicc", "CFLAGS": "-O1 -w"})
        do(["make", "-C", "src", "ior"], built, mpi, HOME / "ior.log")
    servers = ["--io-servers", 3, "--io-root", place / "servers"]
    for where, target, options, env in [("", place / "ior", [], {}), (" on near servers", "tutti:ior", servers, {}),
                                        (" on far servers", "tutti:ior", servers, {"TUTTI_IO_NEAR": "0"})]:
        for name, words in IOR.items():
            command = [built / "src" / "ior", "-a", "MPIIO", "-w", "-W", "-r", "-R", *words.split(), "-o", target]
            suite.run(mpi, f"{name}{where}", 4, command, place, compared, env, options=options)


def compared(outcome):
    """Returns true if IOR has compared the data and reported no difference. IOR continues where data are
    wrong, and reports it."""
    return "read" in outcome.out and not re.search(r"ERROR|WARNING|FAILED|incorrect", outcome.out + outcome.err)


def hdf5_built(mpi):
    """Builds and installs HDF5 with MPI."""
    source, built = fetch("hdf5"), HOME / "hdf5-built"
    if not (built / "installed" / "lib" / "libhdf5_hl.so").exists():
        built.mkdir(exist_ok=True)
        options = ["--enable-parallel", "--disable-fortran", "--disable-cxx", "--enable-hl", "--enable-shared", "--disable-static", "--with-zlib"]
        if not (built / "Makefile").exists():
            do([source / "configure", f"--prefix={built / 'installed'}", *options], built, mpi, built / "log", {"CC": "mpicc", "CFLAGS": "-O1 -w"})
        for part in ("src", "hl/src"):
            do(["make", f"-j{os.environ.get('CARGO_BUILD_JOBS', os.cpu_count())}", "-C", part, "install"], built, mpi, built / "log")
    return built


def hdf5(mpi, suite, place):
    built = hdf5_built(mpi)
    do(["make", "-C", "test", "libh5test.la"], built, mpi, built / "log")
    do(["make", "-C", "testpar", *HDF5], built, mpi, built / "log")
    for name in filter(suite.wants, HDF5):
        env = {"HDF5_PARAPREFIX": str(place), "srcdir": str(HOME / "hdf5" / "testpar"), "HDF5TestExpress": "1"}
        suite.run(mpi, name, 4, [built / "testpar" / name], built / "testpar", lambda outcome: "FAILED" not in outcome.out, env, seconds=900)


# Programs of PnetCDF that are run with something else than 4 ranks and a file of their own: the second of a
# pair reads what the first has written, and some are written for one rank.
PNETCDF_FILES = {"C/pres_temp_4D_wr": "pres_temp_4D.nc", "C/pres_temp_4D_rd": "pres_temp_4D.nc"}
PNETCDF_ALONE = ("C/", "cdf_format/", "nc_test/tst_misc")


def pnetcdf(mpi, suite, place):
    built = HOME / "pnetcdf-built"
    if not (built / "configure").exists():
        shutil.rmtree(built, ignore_errors=True)
        shutil.copytree(fetch("pnetcdf"), built)
        do(["autoreconf", "-fi"], built, mpi, built / "log")
    if not (built / "Makefile").exists():
        options = [f"--prefix={built / 'installed'}", "--disable-fortran", "--disable-cxx", "--enable-shared", "--disable-static"]
        do(["./configure", *options], built, mpi, built / "log", {"MPICC": "mpicc", "CFLAGS": "-O1 -w"})
    jobs = f"-j{os.environ.get('CARGO_BUILD_JOBS', os.cpu_count())}"
    do(["make", jobs, "-C", "src", "install"], built, mpi, built / "log")
    do(["make", jobs, "-C", "test", "tests"], built, mpi, built / "log")
    for folder in ("C", "nc_test", "cdf_format", "header", "testcases", "nonblocking"):
        text = (built / "test" / folder / "Makefile.am").read_text(encoding="utf-8").replace("\\\n", " ")
        programs = re.findall(r"^TESTPROGRAMS\s*\+?=\s*(.*)$", text, re.M) or re.findall(r"^check_PROGRAMS\s*\+?=\s*(.*)$", text, re.M)
        for name in sorted({word for line in programs for word in line.split() if re.fullmatch(r"[\w-]+", word)}, reverse=True):
            program, test = built / "test" / folder / name, f"{folder}/{name}"
            if program.exists():
                argument = program.parent if name == "test_inq_format" else place / PNETCDF_FILES.get(test, f"{name}.nc")
                suite.run(mpi, test, 1 if test.startswith(PNETCDF_ALONE) else 4, [program, argument], program.parent,
                          lambda outcome: "fail" not in outcome.out.lower().replace("0 failures", ""), {"TESTOUTDIR": str(place)})


def h5py(mpi, suite, place):
    """Builds h5py of PyPI from source on the HDF5 that was built here, with mpi4py. Runs its tests of MPI,
    and all others on one rank."""
    built, home = hdf5_built(mpi), HOME / "h5py"
    python = home / "bin" / "python"
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run(["python3", "-m", "venv", home], check=True)
        log = HOME / "h5py.log"
        abi = {"MPICC": str(mpi.mpicc), "CC": str(mpi.mpicc), "HDF5_MPI": "ON", "HDF5_DIR": str(built / "installed"), "MPI4PY_BUILD_MPIABI": "1"}
        do([home / "bin" / "pip", "install", "--quiet", "cython", "numpy", "setuptools>=77", "wheel", "pkgconfig", "pytest", "pytest-mpi"], HOME, mpi, log)
        do([home / "bin" / "pip", "install", "--quiet", "--no-binary=mpi4py", "mpi4py==4.1.2"], HOME, mpi, log, abi)
        do([home / "bin" / "pip", "install", "--quiet", "--no-binary=h5py", "--no-build-isolation", "h5py==3.16.0"], HOME, mpi, log, abi)
        (home / ".complete").touch()
    tests = next((home / "lib").glob("python*/site-packages/h5py")) / "tests"
    words = [python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--basetemp", place / "pytest"]
    suite.run(mpi, "tests of MPI", 4, [python, "-m", "pytest", "-q", "--with-mpi", "-m", "mpi", tests], place, lambda outcome: " passed" in outcome.out)
    # HDF5 with MPI has no page buffering; and root may write what is read-only.
    others = "not PageBuffering" + (" and not test_append_permissions" if os.geteuid() == 0 else "")
    words += ["-k", others]
    suite.run(mpi, "all others", 1, [*words, tests], place, lambda outcome: " passed" in outcome.out, seconds=900)


SUITES = {"romio": romio, "ior": ior, "hdf5": hdf5, "pnetcdf": pnetcdf, "h5py": h5py}


def main():
    parser = argparse.ArgumentParser(description="test suites of files on Tutti")
    parser.add_argument("--only", default=",".join(SUITES))
    parser.add_argument("--tests", default="")
    parser.add_argument("--place", default="/dev/shm")
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    mpi, lines, bad = Mpi("tutti"), [], False
    for name in options.only.split(","):
        suite = Suite(name, options)
        with tempfile.TemporaryDirectory(dir=options.place, prefix="tutti-suite-") as place:
            try:
                SUITES[name](mpi, suite, Path(place))
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                suite.note("building", False, error)
        bad = bad or suite.failed > 0
        lines.append(f"{name}: {suite.passed} passed, {suite.failed} failed, {suite.excused} known")
        print(lines[-1], flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
