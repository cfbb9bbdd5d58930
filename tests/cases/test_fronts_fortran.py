"""Programs that were compiled with the Fortran modules of Open MPI and MPICH, as Debian has them, start and
run on Tutti.

The packages are unpacked beside the build and not installed: nothing of them is run.
"""

import os
import re
import shutil
import subprocess

import pytest

from harness import BUILT, ROOT

SOURCES = ROOT / "tests" / "programs" / "fortran"
PACKAGES = ROOT / "build" / "debian"
OTHERS = {
    "openmpi": (["libopenmpi-dev", "libopenmpi3"], ["libmpi_usempif08.so.40", "libmpi_usempi_ignore_tkr.so.40", "libmpi_mpifh.so.40", "libmpi.so.40"]),
    "mpich": (["libmpich-dev", "libmpich12"], ["libmpichfort.so.12", "libmpich.so.12"]),
}
# Names that Open MPI's libraries have for each other.
INNER = re.compile(r"^p?ompix?_\w+_f$|^P?MPIX?_\w+_f(08)?$|_dummy$|_class$")


def unpacked(name):
    """The folder with Debian's packages of a library."""
    folder = PACKAGES / name
    if not folder.exists():
        made = folder.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        got = subprocess.run(["apt-get", "download", *OTHERS[name][0]], cwd=made, capture_output=True, text=True, timeout=300)
        if got.returncode:
            pytest.skip(f"Debian's {name} cannot be fetched: {got.stderr.strip()[-200:]}")
        for package in made.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, made], check=True, timeout=60)
        made.rename(folder)
    return folder


@pytest.fixture(scope="module")
def compilers(tutti):
    """Compiles a program as a user of the other library does."""
    if not shutil.which("gfortran"):
        subprocess.run([ROOT / "scripts" / "need.sh", "fortran"], check=True, timeout=600)

    def compiled(name, source, text=None):
        root = unpacked(name)
        libraries = [next(root.rglob(library)) for library in OTHERS[name][1]]
        modules = {path.parent for path in root.rglob("mpi_f08.mod")}
        program = BUILT / f"fortran-{name}" / source.stem
        program.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            source = program.with_suffix(".f90")
            source.write_text(text)
        command = ["gfortran", "-O1", "-w", *(f"-I{folder}" for folder in modules), source, "-o", program,
                   *libraries, "-Wl,--allow-shlib-undefined"]
        made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, cwd=program.parent)
        if "Fortran 2018" in made.stderr or "Cannot read module" in made.stderr or "different version of GNU Fortran" in made.stderr:
            pytest.skip("Debian's modules are for another gfortran")
        assert made.returncode == 0, made.stderr
        return program

    return compiled


def without(text, *parts):
    """Returns the text of a program without the parts that an older library lacks: sections from one comment
    to the next, and lines with some words."""
    for begin, end in parts:
        before, rest = text.split(begin, 1)
        text = before + end + rest.split(end, 1)[1]
    return text


def eight(name):
    text = (SOURCES / "eight.f90").read_text()
    if name == "openmpi":
        # Open MPI 4 has no large counts, and Debian's library lacks two subroutines that its own module
        # needs.
        text = without(text, ("  ! Large counts", "  ! Collectives"))
        text = "\n".join(line for line in text.splitlines() if "f08_" not in line and "_f082f" not in line and "_f2f08" not in line
                         and "statuses both ways" not in line) + "\n"
    return text


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("source", ["eight.f90", "other_modules.f90"])
def test_programs_of_other_modules(tutti, compilers, tmp_path, name, source, ranks):
    text = eight(name) if source == "eight.f90" else (SOURCES / source).read_text()
    program = compilers(name, SOURCES / source, text)
    done = tutti.run(ranks, program, cwd=tmp_path)
    assert done.status == 0 and "all is well in Fortran" in done.out, done


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("name", OTHERS)
def test_mpif_and_the_module_mpi(tutti, compilers, tmp_path, name, ranks):
    program = compilers(name, SOURCES / "ninety.f90", (SOURCES / "ninety.f90").read_text())
    done = tutti.run(ranks, program, cwd=tmp_path)
    assert done.status == 0 and "all is well in Fortran" in done.out, done


def names(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines()}


@pytest.mark.parametrize("name, library, front", [
    ("openmpi", "libmpi_usempif08.so.40", "libmpi_usempif08.so.40"),
    ("openmpi", "libmpi_usempi_ignore_tkr.so.40", "libmpi_usempi_ignore_tkr.so.40"),
    ("openmpi", "libmpi_mpifh.so.40", "libmpi_mpifh.so.40"),
    ("mpich", "libmpichfort.so.12", "libmpifort.so.12"),
])
def test_fronts_have_every_name(tutti, name, library, front):
    """The front has every name that a program may use of the other library."""
    theirs = names(next(unpacked(name).rglob(library)))
    own = names(tutti.prefix / "lib" / "tutti" / name / front)
    missing = {one for one in theirs - own if not INNER.search(one)}
    if name == "mpich":
        # Excluded: interfaces of the other library to C, extensions, and constants that a compiler puts into
        # the program.
        own_names = r"^__mpi_c_interface|^P?MPIR_|^P?MPI_F_|^P?MPI_Status_|^P?MPIX_|^p?mpixr?_|^mpir_|mpirinit|_cdesc|assign|compile_constants"
        missing = {one for one in missing if not re.search(own_names, one)}
    assert not missing, sorted(missing)


@pytest.mark.parametrize("name", ["libmpi.so.40", "libmpi_usempif08-gfortran.so.40", "libmpi_cxx.so.40"])
def test_open_mpis_libraries_are_there(tutti, name):
    assert os.path.exists(tutti.prefix / "lib" / "tutti" / "openmpi" / name)


@pytest.mark.parametrize("name", ["libmpi.so.12", "libmpich.so.12", "libmpifort.so.12", "libmpichfort.so.12", "libmpicxx.so.12", "libmpichcxx.so.12"])
def test_mpichs_libraries_are_there(tutti, name):
    assert os.path.exists(tutti.prefix / "lib" / "tutti" / "mpich" / name)
