"""Runs the test suite of mpi4py (unmodified source) on the staged Tutti and adds up what it says.

usage: python tests/mpi4py_suite.py [--ranks 1,2,4,5] [--only NAME,...] [--all] [--timeout SECONDS]

By default the files that concern point to point, collectives, communicators, groups, datatypes, requests,
attributes, info and error handling; --all runs every file. Each file is a job of its own: one that hangs or
dies costs only itself. Ends with a line `N passed, N failed, N skipped`; the details are in build/mpi4py/log.
"""

import argparse
import re
import sys
from pathlib import Path

from harness import ROOT, Job, Mpi

SUITE = ROOT / "build" / "mpi4py" / "mpi4py-4.1.2" / "test"
LOGS = ROOT / "build" / "mpi4py" / "log"
FILES = """
address attributes buffer cco_buf cco_buf_inter cco_nb_buf cco_nb_vec cco_obj cco_obj_inter cco_pr_buf cco_pr_vec
cco_vec cco_vec_inter comm comm_inter datatype environ errhandler errorcode exceptions group handle info msgspec
msgzero objmodel op p2p_buf p2p_buf_matched p2p_obj p2p_obj_matched pack pickle request status subclass threads
toplevel util_dtlib util_pkl5 util_sync
""".split()


def counts(text):
    """Tests run, failed and skipped by the words of unittest; None if it did not come to its end."""
    ran = re.findall(r"^Ran (\d+) tests? in", text, re.M)
    verdict = re.findall(r"^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", text, re.M)
    if not ran or not verdict:
        return None
    said = dict(re.findall(r"(\w+(?: \w+)?)=(\d+)", verdict[0] or ""))
    failed = sum(int(said.get(word, 0)) for word in ("failures", "errors", "unexpected successes"))
    skipped = int(said.get("skipped", 0)) + int(said.get("expected failures", 0))
    return int(ran[0]) - failed - skipped, failed, skipped


def run_file(mpi, name, ranks, timeout):
    """Passed, failed, skipped of one file on that many ranks (as rank 0 counts them), and a word about it."""
    env = {**mpi.env, "MPI4PY_MPIABI": "mpiabi", "MPI4PY_LIBMPI": str(mpi.prefix / "lib" / "libmpi_abi.so.1")}
    command = mpi.command(ranks, sys.executable, SUITE / "main.py", "--no-builddir", "-i", rf"^test_{name}\.py$")
    outcome = Job(command, env, cwd=SUITE).wait(timeout)
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"{name}-{ranks}.txt").write_text(str(Path(command[0])) + "\n" + outcome.out + outcome.err, encoding="utf-8")
    found = counts(outcome.out + outcome.err)
    if outcome.timed_out:
        return (0, 1, 0), f"hung ({timeout} s)"
    if found is None:
        return (0, 1, 0), f"died (status {outcome.status})"
    if outcome.status and not found[1]:
        return (found[0], 1, found[2]), f"another rank failed (status {outcome.status})"
    return found, f"{found[1]} failed" if found[1] else "ok"


def main():
    parser = argparse.ArgumentParser(description="mpi4py's test suite on Tutti")
    parser.add_argument("--ranks", default="1,2,4,5")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--timeout", type=float, default=120)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else FILES
    if options.all:
        names = sorted(path.stem[5:] for path in SUITE.glob("test_*.py"))
    mpi = Mpi("tutti")
    totals, bad = [0, 0, 0], False
    for ranks in map(int, options.ranks.split(",")):
        here = [0, 0, 0]
        for name in names:
            found, word = run_file(mpi, name, ranks, options.timeout)
            here = [one + other for one, other in zip(here, found)]
            if word != "ok":
                bad = True
                print(f"  {name} on {ranks} ranks: {word}; see build/mpi4py/log/{name}-{ranks}.txt", flush=True)
        print(f"mpi4py on {ranks} ranks: {here[0]} passed, {here[1]} failed, {here[2]} skipped", flush=True)
        totals = [one + other for one, other in zip(totals, here)]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
