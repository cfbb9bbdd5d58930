"""Programs as the distribution installs them, unmodified, on the MPI library that they were built for and on
Tutti, through the front for it: results are compared, and times taken as a ratio.

usage: python tests/suites/installed_programs.py [--only NAME,...] [--rounds N]

LAMMPS, GROMACS, elk (Fortran), PETSc's examples, the testers of ScaLAPACK and BLACS, HDF5's h5perf and
ph5diff, and Rmpi. The packages are installed into a layer over this system (an overlay in a mount namespace)
that only these programs see: build/public/installed; that takes root. A time is that of a whole job on two
ranks (BLACS: four), the least of --rounds (2) in turn; a ratio above 1 means that Tutti is slower. Prints a
line a program, then `N passed, N failed`. Times never make it fail.
"""

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from harness import ROOT, Job, Mpi

HOME = ROOT / "build" / "public" / "installed"
INPUTS = ROOT / "tests" / "suites" / "inputs"
HDF5 = ROOT / "build" / "public" / "hdf5"
PACKAGES = """openmpi-bin mpich lammps gromacs elk-lapw scalapack-mpi-test r-cran-rmpi libpetsc-real3.18-dev
libpetsc3.18-dev-examples libhdf5-openmpi-dev pkg-config gcc libc6-dev""".split()
# The layer is laid over these; to run programs it is only read.
MOUNT = """
set -e
base=$1 mode=$2
shift 2
for folder in usr etc var; do
    mkdir -p "$base/$folder/upper" "$base/$folder/work"
    case $mode in
        write) layers=lowerdir=/$folder,upperdir=$base/$folder/upper,workdir=$base/$folder/work ;;
        read) layers=lowerdir=$base/$folder/upper:/$folder ;;
    esac
    mount -t overlay overlay -o "$layers" "/$folder"
done
exec "$@"
"""
INSTALL = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "$@"
"""
OPENMPI = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
MPICH = ["mpiexec.hydra"]
SCALAPACK = Path("/usr/lib/x86_64-linux-gnu/scalapack")
PETSC = "/usr/share/petsc/3.18/share/petsc/examples/src"
PETSC_EXAMPLES = {
    "ksp-ex2": ("ksp/ksp/tutorials/ex2", "-m 700 -n 700 -ksp_type cg -ksp_monitor_short"),
    "ksp-ex45": ("ksp/ksp/tutorials/ex45", "-da_grid_x 97 -da_grid_y 97 -da_grid_z 97 -ksp_monitor_short"),
    "snes-ex5": ("snes/tutorials/ex5", "-da_refine 7 -snes_monitor_short"),
    "snes-ex19": ("snes/tutorials/ex19", "-da_refine 5 -snes_monitor_short -pc_type asm"),
}
# Testers of ScaLAPACK; on two ranks those of 2 x 2 grids are left out by the tester itself.
TESTERS = ["xdlu", "xdllt", "xdqr", "xdinv", "xzlu", "xdbrd", "xdhrd"]


def inside(mode, *words):
    """Returns a command that sees the layer."""
    return ["unshare", "--mount", "sh", "-c", MOUNT, "sh", HOME, mode, *words]


def in_layer(*words, cwd=None):
    done = subprocess.run([str(word) for word in inside("read", *words)], cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def install():
    """Installs the packages, once."""
    mark, wanted = HOME / ".packages", " ".join(PACKAGES)
    if mark.exists() and mark.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    words = inside("write", "sh", "-ec", INSTALL, "sh", *PACKAGES)
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL, timeout=1800)
    mark.write_text(wanted, encoding="utf-8")


@dataclass
class Program:
    """One program with its input."""

    name: str
    words: list
    result: Callable
    prepare: Callable = lambda folder: None
    launcher: tuple = tuple(OPENMPI)
    # Number of ranks that is timed. With the numbers in `others` only the results are checked.
    ranks: int = 2
    others: tuple = (4,)
    # Exit status of the program, where that is not 0 on any library.
    status: int = 0


def copies(folder, *names):
    for name in names:
        shutil.copy(INPUTS / name, folder)


def rows(pattern, text):
    """Returns the lines that matter, without the order in which ranks wrote them."""
    return "\n".join(sorted(line.strip() for line in text.splitlines() if re.search(pattern, line)))


def lammps():
    def result(folder, outcome):
        table = (folder / "log.lammps").read_text(encoding="utf-8").partition("Step ")[2]
        return table.partition("Loop time")[0]

    return [Program("LAMMPS", ["lmp", "-in", "liquid.lammps"], result, lambda folder: copies(folder, "liquid.lammps"))]


def gromacs():
    def prepare(folder):
        copies(folder, "water.top", "water.mdp")
        box = ["-box", *["3.72412"] * 3, "-o", "conf.gro", "-p", "water.top"]
        in_layer("gmx", "-quiet", "solvate", "-cs", "spc216.gro", *box, cwd=folder)
        in_layer("gmx", "-quiet", "grompp", "-f", "water.mdp", "-c", "conf.gro", "-p", "water.top", "-o", "run.tpr", cwd=folder)

    def result(folder, outcome):
        log = (folder / "run.log").read_text(encoding="utf-8")
        return "\n".join(re.findall(r"Energies \(kJ/mol\)\n((?:.+\n)+)", log))

    # Balancing of load goes by measured times, so that results differ from run to run without -reprod.
    return [Program("GROMACS", "gmx_mpi -quiet mdrun -s run.tpr -deffnm run -reprod -ntomp 1".split(), result, prepare)]


def elk():
    def result(folder, outcome):
        return (folder / "TOTENERGY.OUT").read_text(encoding="utf-8")

    return [Program("elk", ["elk-lapw"], result, lambda folder: shutil.copy(INPUTS / "aluminium.elk", folder / "elk.in"))]


def petsc():
    flags = in_layer("env", "PKG_CONFIG_PATH=/usr/lib/petscdir/3.18/lib/pkgconfig", "pkg-config", "--cflags", "--libs", "PETSc").split()
    place = HOME.with_name("built") / "petsc"
    place.mkdir(parents=True, exist_ok=True)
    for name, (source, _) in PETSC_EXAMPLES.items():
        if not (place / name).exists():
            in_layer("mpicc.openmpi", "-w", "-O2", f"{PETSC}/{source}.c", "-o", place / name, *flags, "-lm")
    return [Program(f"PETSc {name}", [place / name, *words.split()], lambda folder, outcome: outcome.out)
            for name, (_, words) in PETSC_EXAMPLES.items()]


def scalapack():
    def prepare(folder):
        shutil.copytree(HOME / "usr" / "upper" / "share" / "scalapack", folder, dirs_exist_ok=True)

    def result(folder, outcome):
        # The lines in between contain times and are left out.
        passed, failed = (len(re.findall(rf"\s{word}\s*$", outcome.out, re.M)) for word in ("PASSED", "FAILED"))
        return f"{passed} passed {failed} failed\n" + rows(r"tests? (completed|skipped|were)", outcome.out)

    made = [Program(f"ScaLAPACK {name}", [SCALAPACK / "openmpi-tests" / name], result, prepare) for name in TESTERS]
    # More ranks of MPICH's own than there are processors take minutes: they wait without giving way.
    return made + [Program(f"ScaLAPACK {name}, MPICH", [SCALAPACK / "mpich-tests" / name], result, prepare, tuple(MPICH), others=())
                   for name in TESTERS[:3]]


def blacs():
    def prepare(folder):
        shutil.copytree(HOME / "usr" / "upper" / "share" / "scalapack" / "BLACS", folder, dirs_exist_ok=True)

    def result(folder, outcome):
        return rows(r"TESTS;|BLACS_GRIDEXIT|auxiliary", outcome.out)

    # The last test is whether BLACS_ABORT ends all.
    return [Program(f"BLACS {name}", [SCALAPACK / "openmpi-tests" / name], result, prepare, ranks=4, others=(), status=255)
            for name in ("xCbtest", "xFbtest")]


def hdf5():
    subprocess.run([ROOT / "scripts" / "public.sh", "hdf5"], check=True, timeout=900)
    place, tools = HOME.with_name("built") / "hdf5-tools", HDF5 / "tools"
    place.mkdir(parents=True, exist_ok=True)
    include = ["/usr/include/hdf5/openmpi", HDF5 / "src", tools / "lib", HDF5 / "test", tools / "src" / "h5diff"]
    sources = {"h5perf": (tools / "src" / "h5perf").glob("pio_*.c"),
               "ph5diff": [tools / "src" / "h5diff" / f"{name}.c" for name in ("ph5diff_main", "h5diff_common")]}
    for name, own in sources.items():
        if not (place / name).exists():
            words = ["mpicc.openmpi", "-w", "-O2", *(f"-I{folder}" for folder in include), "-o", place / name, *own, *(tools / "lib").glob("*.c")]
            in_layer(*words, "-L/usr/lib/x86_64-linux-gnu/hdf5/openmpi", "-lhdf5", "-lm")

    def perf(folder, outcome):
        return re.sub(r"[\d.]+ MB/s", "", outcome.out.partition("End of Parameters")[2])

    def files(folder):
        shutil.copytree(tools / "test" / "h5diff" / "testfiles", folder / "testfiles")

    words = "-A phdf5 -e 16M -x 256K -X 1M -B 64K -d 4 -C -i 3".split()
    return [Program("HDF5 h5perf", [place / "h5perf", *words], perf),
            Program("HDF5 ph5diff", [place / "ph5diff", "-r", "testfiles/h5diff_basic1.h5", "testfiles/h5diff_basic2.h5"],
                    lambda folder, outcome: rows(".", outcome.out), files)]


def rmpi():
    return [Program("Rmpi", ["Rscript", "sum.R"], lambda folder, outcome: rows("sum of all ranks", outcome.out), lambda folder: copies(folder, "sum.R"))]


GROUPS = {"lammps": lammps, "gromacs": gromacs, "elk": elk, "petsc": petsc, "scalapack": scalapack, "blacs": blacs, "hdf5": hdf5, "rmpi": rmpi}


def alike(one, other):
    """Returns true if texts are equal, except for the last digits of numbers."""
    ones, others = one.split(), other.split()
    return bool(ones) and len(ones) == len(others) and all(a == b or close(a, b) for a, b in zip(ones, others))


def close(one, other):
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-5, abs_tol=1e-9)
    except ValueError:
        return False


def run(mpi, program, ranks, own):
    """Returns the result of a job, its seconds, and a description of the failure, if any."""
    folder = HOME.with_name("built") / "installed" / ("own" if own else "tutti")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program.prepare(folder)
    launcher = [*program.launcher, "-n", ranks] if own else [mpi.mpirun, "-n", ranks]
    env = {**mpi.env, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HDF5_PARAPREFIX": str(folder)}
    outcome = Job(inside("read", *launcher, *program.words), env, cwd=folder).wait(300)
    if outcome.timed_out or outcome.status != program.status:
        return "", outcome.seconds, str(outcome)
    return program.result(folder, outcome), outcome.seconds, ""


def compare(mpi, program, rounds):
    """Returns whether the results are alike, and the least seconds of either."""
    seconds, good = {True: math.inf, False: math.inf}, True
    for ranks in (*[program.ranks] * rounds, *program.others):
        results = {}
        for own in (True, False):
            results[own], took, wrong = run(mpi, program, ranks, own)
            if ranks == program.ranks:
                seconds[own] = min(seconds[own], took)
            if wrong:
                print(f"  {program.name} on {ranks} ranks, {'its own library' if own else 'Tutti'}: FAILED\n{wrong}", flush=True)
        if not alike(results[True], results[False]):
            good = False
            print(f"  {program.name} on {ranks} ranks: results differ\n{results[True][:1500]}\n--- Tutti\n{results[False][:1500]}", flush=True)
    return good, seconds[True], seconds[False]


def main():
    parser = argparse.ArgumentParser(description="programs of the distribution on Tutti")
    parser.add_argument("--only", default=",".join(GROUPS))
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("programs are installed in a layer over the system, which takes root")
    install()
    mpi, passed, failed, ratios = Mpi("tutti"), 0, 0, []
    for name in options.only.split(","):
        for program in GROUPS[name]():
            good, own, tutti = compare(mpi, program, options.rounds)
            passed, failed = passed + good, failed + (not good)
            ratios.append(tutti / own)
            print(f"{program.name}: {'same results' if good else 'FAILED'}, {own:.2f} s, Tutti {tutti:.2f} s, ratio {tutti / own:.2f}", flush=True)
    print(f"mean ratio {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
