"""Programs in Fortran through mpifort: mpif.h in fixed form, the modules mpi and mpi_f08."""

import os
import re
import shutil
import subprocess

import pytest

from harness import BUILT, ROOT

SOURCES = ROOT / "tests" / "programs" / "fortran"
COMPILER = os.environ.get("FC", "gfortran")


@pytest.fixture(scope="module")
def modules(tutti):
    """The module of the compiler, beside the staged library."""
    if not shutil.which(COMPILER):
        subprocess.run([ROOT / "scripts" / "need.sh", "fortran"], check=True, timeout=600)
    subprocess.run([ROOT / "scripts" / "fortran.sh", tutti.prefix], check=True, timeout=120, env={**os.environ, "DESTDIR": ""})
    return tutti.prefix / "lib" / "tutti" / "fortran" / COMPILER


def compiled(tutti, source, *flags):
    program = BUILT / "fortran" / source.replace(".", "_")
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [tutti.prefix / "bin" / "mpifort", "-O1", *flags, "-o", program, SOURCES / source]
    made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, cwd=program.parent)
    assert made.returncode == 0, made.stderr
    return program


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("source, flags", [("seventyseven.f", ("-std=legacy", "-w")), ("ninety.f90", ("-Wall",)),
                                           ("eight.f90", ("-std=f2018", "-Wall")), ("large.f90", ("-std=f2018", "-Wall"))])
def test_program(tutti, modules, tmp_path, source, flags, ranks):
    done = tutti.run(ranks, compiled(tutti, source, *flags), cwd=tmp_path)
    assert done.status == 0 and "all is well in Fortran" in done.out, done


def test_wrapper_shows_what_it_does(tutti):
    def show(*words):
        return subprocess.run([tutti.prefix / "bin" / "mpifort", *words], capture_output=True, text=True, check=True).stdout

    assert "-lmpifort_abi -lmpi_abi" in show("-show", "x.f90")
    assert show("--showme:libs").split() == ["mpifort_abi", "mpi_abi"]
    assert str(tutti.prefix / "include") in show("--showme:compile")
    assert "Tutti" in show("--showme:version")


def test_every_interface_has_its_subroutine(tutti):
    """The layer of the standard ABI has every subroutine that mpi_f08 declares."""
    listed = subprocess.run(["nm", "-D", tutti.prefix / "lib" / "libmpifort_abi.so.1"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    folder = ROOT / "crates" / "fronts" / "fortran"
    text = (folder / "generated" / "f08_interfaces.inc").read_text() + (folder / "mpi_f08.f90").read_text().split("abstract interface", 1)[1]
    declared = re.findall(r"^ *(?:subroutine|.* function) (MPI_\w+)\(", text.split("contains")[0], re.M)
    callbacks = {name for name in declared if name.removesuffix("_c").endswith("_function")}
    assert len(declared) > 400 and len(callbacks) == 18
    missing = [name for name in declared if name not in callbacks and not name.startswith("MPI_Status_f") and name.lower() + "_" not in names]
    assert not missing, missing


@pytest.mark.parametrize("library", ["libmpifort_abi.so.1", "tutti/openmpi/libmpi_mpifh.so.40", "tutti/mpich/libmpifort.so.12"])
def test_names_of_all_compilers(tutti, library):
    """Each subroutine has the names of gfortran, flang, ifx, g77, IBM's and Cray's compilers, and nothing is
    left undefined."""
    listed = subprocess.run(["nm", "-D", tutti.prefix / "lib" / library], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines() if line.split()[-2] in "TWB"}
    for one in ("send", "allreduce", "comm_create_keyval", "file_write_at_all", "win_allocate_shared_cptr", "type_struct"):
        assert {f"mpi_{one}_", f"mpi_{one}__", f"mpi_{one}", f"MPI_{one.upper()}", f"pmpi_{one}_"} <= names, one
    loads = subprocess.run(["ldd", "-r", tutti.prefix / "lib" / library], capture_output=True, text=True)
    assert "undefined symbol" not in loads.stdout + loads.stderr, loads.stdout
