"""A program that requests another MPI library while it runs: Tutti is loaded as `libmpi.so`, and a second
library is reported."""

import shutil
import subprocess

import pytest

# Loads a library by its name and counts ranks by the functions in it.
LOADER = """
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) { fprintf(stderr, "%s\\n", dlerror()); return 3; }
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(library, "MPI_Init");
    int (*finalize)(void) = (int (*)(void))dlsym(library, "MPI_Finalize");
    void *ompi_world = dlsym(library, "ompi_mpi_comm_world");
    int size = -1;
    if (!init || !finalize) { sleep(2); return 0; }
    init(&argc, &argv);
    if (ompi_world) ((int (*)(void *, int *))dlsym(library, "MPI_Comm_size"))(ompi_world, &size);
    else ((int (*)(int, int *))dlsym(library, "MPI_Comm_size"))(0x44000000, &size);
    printf("%s %d\\n", ompi_world ? "openmpi" : "mpich", size);
    return finalize();
}
"""
# A program of the standard ABI that loads another library before or after MPI_Init.
BESIDE = """
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    if (argc > 2) MPI_Init(&argc, &argv);
    if (!dlopen(argv[1], RTLD_NOW | RTLD_LOCAL)) fprintf(stderr, "%s\\n", dlerror());
    if (argc <= 2) MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
"""


def compiled(compiler, folder, name, text, *flags):
    (folder / f"{name}.c").write_text(text)
    subprocess.run([str(word) for word in (compiler, folder / f"{name}.c", "-o", folder / name, *flags)], check=True, timeout=60)
    return folder / name


def library(folder, name, soname=None, *needs):
    """Builds an empty library of this name."""
    command = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", f"-Wl,-soname,{soname or name}", "-o", folder / name,
               "-x", "none", "-Wl,--no-as-needed", *needs]
    subprocess.run([str(word) for word in command], check=True, timeout=60)
    return folder / name


@pytest.fixture(scope="module")
def loader(tutti, tmp_path_factory):
    return compiled("cc", tmp_path_factory.mktemp("loader"), "loader", LOADER, "-ldl")


@pytest.mark.parametrize("name, abi", [("libmpi.so", "openmpi"), ("libmpi.so.40", "openmpi"), ("libmpi.so.12", "mpich"), ("libmpich.so", "mpich")])
def test_fronts_answer_to_every_name(tutti, loader, name, abi):
    outcome = tutti.run(2, loader, name)
    assert outcome.status == 0 and outcome.out.split() == [abi, "2"] * 2 and "another MPI" not in outcome.err, outcome


def test_a_name_without_version_is_of_the_abi_that_the_system_has(tutti, loader, tmp_path):
    """A program that would get MPICH's library gets Tutti's of that ABI."""
    library(tmp_path, "libmpi.so", "libmpi.so.12")
    outcome = tutti.run(2, loader, "libmpi.so", env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert outcome.status == 0 and outcome.out.split() == ["mpich", "2"] * 2, outcome


def test_a_program_of_mpichs_abi_keeps_it(tutti, tmp_path):
    front = tutti.prefix / "lib" / "tutti" / "mpich"
    program = compiled("cc", tmp_path, "linked", LOADER, "-Wl,--no-as-needed", f"-L{front}", "-l:libmpi.so.12", "-Wl,--allow-shlib-undefined", "-ldl")
    outcome = tutti.run(2, program, "libmpi.so")
    assert outcome.status == 0 and outcome.out.split() == ["mpich", "2"] * 2, outcome


def test_mpirun_names_another_library_that_a_rank_has_loaded(tutti, loader, tmp_path):
    other = library(tmp_path, "libmpi.so.40")
    outcome = tutti.run(2, loader, other)
    assert outcome.status == 0 and f"another MPI library, {other}" in outcome.err and outcome.err.count("another MPI") == 1, outcome
    # A script before it, and a word that it is meant.
    outcome = tutti.run_words(["-n", "2", "sh", "-c", f"{loader} {other}; true"])
    assert f"another MPI library, {other}" in outcome.err, outcome
    for words, env in ((["-n", "1", loader, other], {}), (["-n", "2", loader, other], {"TUTTI_FOREIGN_MPI": "start"})):
        assert "another MPI" not in tutti.run_words(words, env=env).err


@pytest.mark.parametrize("order", [[], ["later"]])
def test_a_second_library_beside_tutti_is_named(tutti, tmp_path, order):
    program = compiled(tutti.mpicc, tmp_path, "beside", BESIDE, "-ldl")
    other = library(tmp_path, "libmpi.so.40")
    outcome = tutti.run(2, program, other, *order)
    assert outcome.status == 0 and outcome.err.count(f"second MPI library, {other}") == 1, outcome
    # Tutti's own for other ABIs are none.
    front = tutti.prefix / "lib" / "tutti" / "openmpi" / "libmpi.so.40"
    assert "second MPI" not in tutti.run(2, program, front, *order).err


def test_mpi4py_finds_tutti_beside_another_mpi(tutti, tmp_path):
    """PyPI's wheel looks for `libmpi.so` first, which an installed libopenmpi-dev has."""
    mpi4py = next((folder for folder in ("build/mpi4py", "build/public/mpi4py") if (tutti.prefix.parents[1] / folder).exists()), None)
    python = shutil.which("python3")
    if not mpi4py or not python:
        pytest.skip("no mpi4py is built")
    library(tmp_path, "libmpi.so", "libmpi.so.40")
    look = "import ctypes; lib = ctypes.CDLL('libmpi.so'); lib.MPI_Init(None, None); print(hasattr(lib, 'ompi_mpi_comm_self')); lib.MPI_Finalize()"
    outcome = tutti.run(2, python, "-c", look, env={"LD_LIBRARY_PATH": str(tmp_path)})
    assert outcome.status == 0 and outcome.out.split() == ["True"] * 2, outcome
