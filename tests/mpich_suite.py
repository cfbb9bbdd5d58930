"""Runs programs of MPICH's own test suite (unmodified, from the source package of the distribution) on the staged Tutti.

usage: python tests/mpich_suite.py [--dirs part,errhan] [--only NAME,...] [--timeout SECONDS]

`scripts/public.sh mpich` fetches the sources. A test of the list is a program, a number of ranks and arguments; it passes when it
ends well and says "No Errors". What needs MPI-IO, extensions of MPICH (MPIX_) or its random datatypes is not run. Failures that
tests/mpich_known.tsv lists do not count. Ends with a line `N passed, N failed, N skipped`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from harness import ROOT, Job, Mpi

SUITE = ROOT / "build" / "public" / "mpich" / "test" / "mpi"
BUILT = ROOT / "build" / "public" / "mpich-built"
DIRS = "attr basic coll comm datatype errhan group info init part pt2pt rma spawn threads topo".split()
UTILITIES = ["mtest.c", "mtest_common.c", "mtest_thread.c", "dtypes.c"]
HAVE = """STDC_HEADERS HAVE_STDLIB_H HAVE_STRING_H HAVE_UNISTD_H HAVE_STDARG_H HAVE_INTTYPES_H HAVE_STDINT_H HAVE_SYS_TIME_H HAVE_PTHREAD_H
HAVE_USLEEP HAVE_LONG_DOUBLE HAVE_LONG_LONG HAVE_FLOAT__COMPLEX HAVE_DOUBLE__COMPLEX HAVE_LONG_DOUBLE__COMPLEX HAVE__BOOL HAVE_INT8_T
HAVE_INT16_T HAVE_INT32_T HAVE_INT64_T HAVE_UINT8_T HAVE_UINT16_T HAVE_UINT32_T HAVE_UINT64_T HAVE_MPI_WIN_CREATE HAVE_MPI_SPAWN
HAVE_SYS_RESOURCE_H HAVE_STRINGS_H HAVE_MEMORY_H HAVE_SYS_STAT_H HAVE_SYS_TYPES_H HAVE_STRDUP""".split()
# What no program may need to be run here.
FOREIGN = re.compile(r"MPIX_|dtpools\.h|MPI_File_|mtest_dtp\.h|MTEST_COMMON_H_ONLY_MPICH")


def read_list(folder):
    """The tests of a folder: program, ranks, arguments, environment."""
    path = next((folder / name for name in ("testlist", "testlist.in") if (folder / name).exists()), None)
    for line in path.read_text(encoding="utf-8").splitlines() if path else []:
        words = line.split()
        if len(words) < 2 or line.startswith(("#", "@")) or not words[1].isdigit() or "resultTest=" in line:
            continue
        values = [word.partition("=") for word in words[2:]]
        arguments = [value for key, _, value in values if key == "arg"]
        environment = dict(value.split("=", 1) for key, _, value in values if key == "env" and "=" in value)
        yield words[0], int(words[1]), arguments, environment


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


def build(mpi, folder, name, recipe):
    """The program, or why there is none."""
    sources, flags = recipe.get(name, ([], []))
    sources = sources or [folder / f"{name}.c"]
    if not all(source.exists() for source in sources):
        return None, "no source in C"
    if any(FOREIGN.search(source.read_text(encoding="utf-8", errors="replace")) for source in sources):
        return None, "needs more than MPI"
    program = BUILT / folder.name / name
    if not program.exists() or program.stat().st_mtime < (mpi.prefix / "include" / "mpi.h").stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        include = [f"-I{BUILT}", f"-I{SUITE / 'include'}", f"-I{SUITE / 'util'}"]
        command = [mpi.mpicc, "-std=gnu99", "-w", "-O1", "-pthread", *include, *flags, "-o", program, *sources, BUILT / "libmtest.a", "-lm"]
        made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300)
        if made.returncode:
            return None, "does not compile: " + (made.stderr.strip().splitlines() or [""])[0]
    return program, ""


def prepare(mpi):
    """What all programs are linked with."""
    BUILT.mkdir(parents=True, exist_ok=True)
    defined = "".join(f"#define {name} 1\n" for name in HAVE)
    threads = "#define THREAD_PACKAGE_NONE 0\n#define THREAD_PACKAGE_POSIX 3\n#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX\n"
    (BUILT / "mpitestconf.h").write_text(defined + threads, encoding="utf-8")
    (BUILT / "mpitestthreadconf.h").write_text("", encoding="utf-8")
    objects = []
    for source in UTILITIES:
        objects.append(BUILT / f"{source}.o")
        include = [f"-I{BUILT}", f"-I{SUITE / 'include'}"]
        command = [mpi.mpicc, "-std=gnu99", "-w", "-O1", "-pthread", *include, "-c", "-o", objects[-1], SUITE / "util" / source]
        subprocess.run([str(word) for word in command], check=True, timeout=300)
    subprocess.run(["ar", "rcs", str(BUILT / "libmtest.a"), *map(str, objects)], check=True, timeout=60)


def known_failures():
    """Tests that cannot pass: folder/name."""
    lines = (Path(__file__).parent / "mpich_known.tsv").read_text(encoding="utf-8").splitlines()
    return {line.split("\t")[0] for line in lines if line and not line.startswith("#")}


def main():
    parser = argparse.ArgumentParser(description="MPICH's test suite on Tutti")
    parser.add_argument("--dirs", default=",".join(DIRS))
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", type=float, default=180)
    options = parser.parse_args()
    if not SUITE.exists():
        print("mpich_suite: the sources are not there; scripts/public.sh mpich fetches them")
        return
    mpi, known, totals, bad = Mpi("tutti"), known_failures(), [0, 0, 0], False
    prepare(mpi)
    for folder in [SUITE / name for name in options.dirs.split(",")]:
        recipe = recipes(folder)
        for name, ranks, arguments, environment in read_list(folder):
            if options.only and name not in options.only.split(","):
                continue
            program, why = build(mpi, folder, name, recipe)
            if not program:
                totals[2] += 1
                print(f"  {folder.name}/{name}: skipped, {why}", flush=True)
                continue
            outcome = Job(mpi.command(ranks, program, *arguments), {**mpi.env, **environment}, cwd=folder).wait(options.timeout)
            good = outcome.status == 0 and not outcome.timed_out and "No Errors" in outcome.out
            totals[0 if good else 1] += 1
            if not good:
                listed = f"{folder.name}/{name}" in known
                bad = bad or not listed
                said = " known" if listed else f"\n{outcome}"
                print(f"  {folder.name}/{name} on {ranks} ranks {' '.join(arguments)}: FAILED{said}", flush=True)
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
