"""Runs the test suite of mpi4py (unmodified source) on the staged Tutti and adds up what it says.

usage: python tests/mpi4py_suite.py [--ranks 1,2,4] [--only NAME,...] [--timeout SECONDS] [--hosts N]

Every file of the suite; with --hosts 4 those for point to point, collectives and one-sided communication, on two ranks on each of so many
hosts of a testbed. Each file is a job of its own: one that hangs or
dies costs only itself. Failures that tests/mpi4py_known.tsv lists do not count against it. Ends with a line `N passed, N failed, N skipped`; the details are in build/mpi4py/log.
"""

import argparse
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

from harness import ROOT, Job, Mpi
from hosts import Cluster, Testbed, refusal

SUITE = ROOT / "build" / "mpi4py" / "mpi4py-4.1.2" / "test"
LOGS = ROOT / "build" / "mpi4py" / "log"


def known_failures(names):
    """Patterns of tests in these files that cannot pass yet."""
    lines = (Path(__file__).parent / "mpi4py_known.tsv").read_text(encoding="utf-8").splitlines()
    patterns = [line.split("\t")[0] for line in lines if line and not line.startswith("#")]
    files = {pattern: re.findall(r"test_[\w*]+", pattern) for pattern in patterns}
    return [pattern for pattern in patterns if any(fnmatch(f"test_{name}", file) for name in names for file in files[pattern])]


def read(text):
    """Tests run and skipped by the words of unittest, and the names of the failed ones, on whatever rank.

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
    """Tests run, skipped, and names of the failed of one file on that many ranks."""
    env = {**mpi.env, "MPI4PY_MPIABI": "mpiabi", "MPI4PY_LIBMPI": str(mpi.prefix / "lib" / "libmpi_abi.so.1")}
    command = mpi.command(ranks, sys.executable, SUITE / "main.py", "--no-builddir", "-i", rf"^test_{name}\.py$")
    outcome = Job(command, env, cwd=SUITE).wait(timeout)
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"{name}-{ranks}.txt").write_text(str(Path(command[0])) + "\n" + outcome.out + outcome.err, encoding="utf-8")
    found = read(outcome.out + outcome.err)
    if outcome.timed_out:
        return 0, 0, {f"test_{name}: hung ({timeout:.0f} s)"}
    if found is None:
        return 0, 0, {f"test_{name}: died (status {outcome.status})"}
    if outcome.status and not found[2]:
        found[2].add(f"test_{name}: status {outcome.status}")
    return found


def main():
    parser = argparse.ArgumentParser(description="mpi4py's test suite on Tutti")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--hosts", type=int, default=0)
    options = parser.parse_args()
    every = sorted(path.stem[5:] for path in SUITE.glob("test_*.py"))
    names = options.only.split(",") if options.only else every
    mpi = Mpi("tutti")
    if options.hosts:
        if why := refusal():
            print(f"mpi4py across hosts: skipped, {why}")
            return
        mpi = Cluster("tutti", Testbed(options.hosts), 2)
        options.ranks = str(2 * options.hosts)
        names = [name for name in names if name.startswith(("p2p_", "cco_", "rma", "win"))]
    known = known_failures(names)
    totals, bad, seen = [0, 0, 0], False, set()
    for ranks in map(int, options.ranks.split(",")):
        here = [0, 0, 0]
        for name in names:
            ran, skipped, failed = run_file(mpi, name, ranks, options.timeout)
            here = [here[0] + max(0, ran - skipped - len(failed)), here[1] + len(failed), here[2] + skipped]
            matching = {test: [pattern for pattern in known if fnmatch(test, pattern)] for test in failed}
            seen.update(*matching.values())
            for test in sorted(test for test in failed if not matching[test]):
                bad = True
                print(f"  {ranks} ranks: {test}; see build/mpi4py/log/{name}-{ranks}.txt", flush=True)
        print(f"mpi4py on {ranks} ranks: {here[0]} passed, {here[1]} failed, {here[2]} skipped", flush=True)
        totals = [one + other for one, other in zip(totals, here)]
    if not options.only and not options.hosts:
        for pattern in [pattern for pattern in known if pattern not in seen]:
            print(f"  tests/mpi4py_known.tsv: {pattern} does not fail any more")
    print("failures are all known (tests/mpi4py_known.tsv)" if not bad else "there are new failures, see above")
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
