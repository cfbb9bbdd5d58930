"""Runs the test suite of mpi4py (unmodified source) on the staged Tutti and adds up the results.

usage: python tests/suites/mpi4py_suite.py [--ranks 1,2,4] [--only NAME,...] [--timeout SECONDS]
    [--hosts N [--per-host RANKS]] [--front ABI] [--tune]

Runs every file of the suite as a job of its own, so that a file that hangs or dies costs only itself. With
--front mpich or openmpi it runs the wheel from PyPI, which was built for those libraries, on Tutti's front
for them. With --hosts the ranks are on that many hosts of a testbed, one rank on each or as many as
--per-host says. With --tune algorithms are tried meanwhile.

Failures that tests/suites/mpi4py_known.tsv lists do not count. The last line is `N passed, N failed, N
skipped`; the details are in build/mpi4py/log.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatch
from pathlib import Path

from harness import ROOT, Front, Job, Mpi
from hosts import Cluster, Testbed, refusal

SUITE = ROOT / "build" / "mpi4py" / "mpi4py-4.1.2" / "test"
LOGS = ROOT / "build" / "mpi4py" / "log"
# The longest that a file which is known to hang may take.
KNOWN_TO_HANG_S = 60
# Files that run at the same time on one host.
BESIDE = 2


def limit(seconds, ranks, hosts):
    """Returns the seconds allowed for a file that takes this many on up to 4 ranks of a host.

    The longest tests of the suite go over all roots and all counts up to the number of ranks, in blocks of as
    many elements, and compare each element in Python. The work of a rank therefore grows with the cube of the
    number of ranks, measured on all libraries alike. Between hosts of a testbed each of many thousand fences
    takes several changes of process.
    """
    return seconds * max(1, ranks / 4) ** 3 * (3 if hosts else 1)


def known_failures(names, hosts, front):
    """Returns patterns of tests in these files that cannot pass yet. Some apply only where the ranks are on
    several hosts, or on a front."""
    lines = (Path(__file__).parent / "mpi4py_known.tsv").read_text(encoding="utf-8").splitlines()
    fields = [[*line.split("\t"), ""] for line in lines if line and not line.startswith("#")]
    patterns = [pattern for pattern, _, where, *_ in fields if not where or where == "hosts" and hosts or where == front]
    files = {pattern: re.findall(r"test_[\w*]+", pattern) for pattern in patterns}
    return [pattern for pattern in patterns if any(fnmatch(f"test_{name}", file) for name in names for file in files[pattern])]


def read(text):
    """Returns the numbers of tests run and skipped as unittest reports them, and the names of the failed
    ones, on whatever rank.

    None if it did not come to its end. A test with several wrong parts is one failure.
    """
    ran = re.findall(r"^Ran (\d+) tests? in", text, re.M)
    verdict = re.findall(r"^(?:\[\d+\S*\] )?(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", text, re.M)
    if not ran or not verdict:
        return None
    said = dict(re.findall(r"(\w+(?: \w+)?)=(\d+)", verdict[0] or ""))
    skipped = int(said.get("skipped", 0)) + int(said.get("expected failures", 0))
    return int(ran[0]), skipped, set(re.findall(r"^(?:ERROR|FAIL): \w+ \(([\w.]+)\)", text, re.M))


def run_file(mpi, name, ranks, timeout):
    """Runs one file on that many ranks. Returns the numbers of tests run and skipped, and the names of the
    failed ones."""
    if isinstance(mpi, Front):
        # The wheel has a variant for each ABI, and takes that of the first library found: mpirun offers both.
        library = mpi.folder / ("libmpi.so.12" if mpi.abi == "mpich" else "libmpi.so.40")
        env = {**mpi.env, "MPI4PY_MPIABI": mpi.abi, "MPI4PY_LIBMPI": str(library)}
        python = ROOT / "build" / "wheel-python" / "bin" / "python"
    else:
        env, python = {**mpi.env, "MPI4PY_MPIABI": "mpiabi", "MPI4PY_LIBMPI": str(mpi.prefix / "lib" / "libmpi_abi.so.1")}, sys.executable
    command = mpi.command(ranks, python, SUITE / "main.py", "--no-builddir", "-i", rf"^test_{name}\.py$")
    # Tests leave folders behind, which go with this one. On a testbed other hosts need one that they have
    # too.
    with tempfile.TemporaryDirectory(prefix="tutti-mpi4py-") as scratch:
        here = env if isinstance(mpi, Cluster) else {**env, "TMPDIR": scratch}
        outcome = Job(command, here, cwd=SUITE).wait(timeout)
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"{mpi.name}-{name}-{ranks}.txt").write_text(str(Path(command[0])) + "\n" + outcome.out + outcome.err, encoding="utf-8")
    found = read(outcome.out + outcome.err)
    if outcome.timed_out:
        return 0, 0, {f"test_{name}: hung ({timeout:.0f} s)"}
    if found is None:
        return 0, 0, {f"test_{name}: died (status {outcome.status})"}
    if outcome.status and not found[2]:
        found[2].add(f"test_{name}: status {outcome.status}")
    return found


def chosen(only):
    """Returns the names of files to run. A name without a file is an error, and so is a missing suite."""
    every = sorted(path.stem[5:] for path in SUITE.glob("test_*.py"))
    if not every:
        sys.exit("mpi4py_suite: mpi4py is not there; make python fetches and builds it")
    names = only.split(",") if only else every
    if unknown := sorted(set(names) - set(every)):
        sys.exit(f"mpi4py_suite: no test_{', test_'.join(unknown)} in mpi4py; there are {', '.join(every)}")
    return names


def run_files(mpi, names, ranks, options, known):
    """Runs these files. Returns the numbers of passed, failed and skipped tests, the patterns of known
    failures that were seen, and whether a failure is new."""
    sums, bad, seen = [0, 0, 0], False, set()

    def run_one(name):
        hangs = any(fnmatch(f"test_{name}: hung", pattern.rstrip("*")) for pattern in known)
        return run_file(mpi, name, ranks, KNOWN_TO_HANG_S if hangs else limit(options.timeout, ranks, options.hosts))

    # Ranks of one file often wait for one another, and Python takes half a second to start: two files run
    # beside each other.
    with ThreadPoolExecutor(1 if options.hosts else BESIDE) as pool:
        outcomes = list(pool.map(run_one, names))
    for name, (ran, skipped, failed) in zip(names, outcomes):
        sums = [sums[0] + max(0, ran - skipped - len(failed)), sums[1] + len(failed), sums[2] + skipped]
        matching = {test: [pattern for pattern in known if fnmatch(test, pattern)] for test in failed}
        seen.update(*matching.values())
        for test in sorted(test for test in failed if not matching[test]):
            bad = True
            print(f"  {ranks} ranks: {test}; see build/mpi4py/log/{mpi.name}-{name}-{ranks}.txt", flush=True)
    print(f"mpi4py on {ranks} ranks: {sums[0]} passed, {sums[1]} failed, {sums[2]} skipped", flush=True)
    return sums, seen, bad


def main():
    parser = argparse.ArgumentParser(description="mpi4py's test suite on Tutti")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--per-host", type=int, default=1)
    parser.add_argument("--front", choices=["mpich", "openmpi"])
    parser.add_argument("--tune", action="store_true")
    options = parser.parse_args()
    names = chosen(options.only)
    mpi = Mpi("tutti")
    if options.front:
        subprocess.run([ROOT / "scripts" / "python.sh", "wheel"], check=True)
        mpi = Front(options.front)
    if options.hosts:
        if why := refusal():
            print(f"mpi4py across hosts: skipped, {why}")
            return
        mpi = Cluster("tutti", Testbed(options.hosts), options.per_host)
        options.ranks = str(options.per_host * options.hosts)
    if options.tune:
        mpi.env |= {"TUTTI_TUNE": "on", "TUTTI_MODEL_FILE": str(LOGS / "model")}
    known = known_failures(names, options.hosts, options.front)
    totals, bad, seen = [0, 0, 0], False, set()
    for ranks in map(int, options.ranks.split(",")):
        sums, matched, new = run_files(mpi, names, ranks, options, known)
        totals, bad = [one + other for one, other in zip(totals, sums)], bad or new
        seen |= matched
    if not sum(totals):
        sys.exit("mpi4py_suite: nothing was run")
    if not options.only and not options.hosts:
        for pattern in [pattern for pattern in known if pattern not in seen]:
            print(f"  tests/suites/mpi4py_known.tsv: {pattern} does not fail any more")
    print("failures are all known (tests/suites/mpi4py_known.tsv)" if not bad else "there are new failures, see above")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
