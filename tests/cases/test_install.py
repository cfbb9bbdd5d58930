"""Installed files: compiler wrappers, header, library, and programs built by others."""

import shutil
import subprocess

import pytest

from harness import ROOT, Mpi

HEADER_USER = "#include <mpi.h>\nint main(void) { return MPI_VERSION - 5; }\n"


def text_of(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("compiler, standard, suffix", [("mpicc", "c99", ".c"), ("mpicc", "c11", ".c"),
                                                        ("mpicxx", "c++17", ".cc"), ("mpicxx", "c++20", ".cc")])
def test_the_header_is_clean(tutti, tmp_path, compiler, standard, suffix):
    source = (tmp_path / "user").with_suffix(suffix)
    source.write_text(HEADER_USER)
    command = [tutti.prefix / "bin" / compiler, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o",
               tmp_path / "user", source]
    made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stderr
    assert subprocess.run([tmp_path / "user"], timeout=20).returncode == 0


REMOVED_USER = """#include <mpi.h>
int main(int argc, char **argv) {
    MPI_Aint extent, ub; MPI_Datatype type = MPI_DATATYPE_NULL, types[2] = {MPI_INT, MPI_UB};
    int lengths[2] = {1, 1}; MPI_Aint places[2] = {0, 24};
    MPI_Init(&argc, &argv);
    MPI_Type_struct(2, lengths, places, types, &type); MPI_Type_extent(type, &extent); MPI_Type_ub(type, &ub);
    MPI_Type_free(&type); MPI_Finalize();
    return extent != 24 || ub != 24;
}
"""


def test_removed_functions_work_where_they_are_asked_for(tutti, tmp_path):
    for ranks in (1, 2):
        outcome = tutti.run(ranks, tutti.compile("removed.c", "-removed", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"))
        assert outcome.status == 0 and "ok" in outcome.out, str(outcome)
    (tmp_path / "user.cc").write_text(REMOVED_USER)
    for option in ("-removed", "-DTUTTI_REMOVED"):
        command = [tutti.prefix / "bin" / "mpicxx", option, "-std=c++17", "-Wall", "-Wextra", "-Werror", tmp_path / "user.cc", "-o", tmp_path / "user"]
        made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
        assert made.returncode == 0, made.stderr
        assert subprocess.run([tmp_path / "user"], timeout=20).returncode == 0


def test_the_wrapper_explains_removed_names(tutti, tmp_path):
    """When the compiler or the linker complains about one; other mistakes, and programs that compile, are
    none of its business."""
    def said(name, text, *options):
        (tmp_path / name).write_text(text)
        command = [str(tutti.mpicc), *options, str(tmp_path / name), "-o", str(tmp_path / "out")]
        made = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return made.returncode, made.stderr

    call = "#include <mpi.h>\nint main(void) { MPI_Aint place; int x; return MPI_Address(&x, &place); }\n"
    for options in ([], ["-Werror=implicit-function-declaration", "-c"]):
        status, words = said("call.c", call, *options)
        assert status != 0 and "MPI_Address, now MPI_Get_address" in words and "-removed" in words and "MPI_Type_lb" not in words, words
    status, words = said("type.c", "#include <mpi.h>\nMPI_Datatype end = MPI_UB; MPI_Handler_function *it;\n", "-c")
    assert status != 0 and "MPI_UB, now MPI_Type_create_resized" in words and "MPI_Handler_function, now" in words, words
    status, words = said("object.c", call, "-c", "-w", "-std=gnu89")
    assert status == 0 and "tutti" not in words, words
    status, words = said("other.c", "int main(void) { return MPI_Addressee; } /* MPI_Address */\n")
    assert status != 0 and "tutti" not in words, words


def test_wrappers_show_what_they_do(tutti):
    shown = text_of(tutti.mpicc, "-show", "-O2", "a.c").split()
    assert f"-I{tutti.prefix}/include" in shown and "-lmpi_abi" in shown and "a.c" in shown
    assert "-lmpi_abi" not in text_of(tutti.mpicc, "-show", "-c", "a.c")
    assert text_of(tutti.prefix / "bin" / "mpicxx", "-show").split()[0] == "c++"
    assert text_of(tutti.mpicc, "--version") == text_of("cc", "--version")


def test_the_library_has_its_name_and_symbols(tutti):
    library = tutti.prefix / "lib" / "libmpi_abi.so.1"
    assert "libmpi_abi.so.1" in text_of("readelf", "-d", library).split("SONAME", 1)[1].split("\n", 1)[0]
    symbols = {line.split()[-1] for line in text_of("nm", "-D", "--defined-only", library).splitlines()}
    names = [line.split("\t")[0] for line in (ROOT / "spec" / "functions.tsv").read_text().splitlines()[1:]]
    missing = [name for name in names if name not in symbols or f"P{name}" not in symbols]
    assert len(names) == 664 and not missing, missing


def test_info_lists_settings_and_functions(tutti):
    tool = tutti.prefix / "bin" / "tutti"
    assert "TUTTI_EAGER_BYTES" in text_of(tool, "info")
    lines = [line for line in text_of(tool, "info", "--functions").splitlines() if line.startswith("MPI_")]
    assert len(lines) == 664


def test_programs_built_by_mpich_run_unchanged(tutti):
    """Programs of the standard ABI that MPICH's mpicc_abi has built run on Tutti."""
    mpich = Mpi("mpich")
    if not mpich.mpicc.exists():
        pytest.skip("make peers installs MPICH")
    env = {"LD_LIBRARY_PATH": str(tutti.prefix / "lib")}
    for name in ["p2p_modes", "coll_move", "coll_reduce", "types", "comms", "objects"]:
        outcome = tutti.run(4, mpich.compile(f"{name}.c"), env=env)
        assert outcome.status == 0 and "ok" in outcome.out.split(), f"{name}: {outcome}"


def test_manual_pages_and_completion(tutti, tmp_path):
    """From the tables of the help: as groff reads them, and as shells do."""
    share = tutti.prefix / "share"
    wrappers = [f"man1/{name}.1" for name in ("mpicc", "mpicxx", "mpic++", "mpifort", "mpif77", "mpif90")]
    for page in ("man1/tutti.1", "man1/tutti-info.1", "man1/tutti-dev.1", "man1/mpirun.1", "man1/mpiexec.1", *wrappers, "man7/tutti-settings.7"):
        assert (share / "man" / page).read_text().startswith((".ie", ".TH")), page
    assert "checkpoint" in (share / "man" / "man1" / "mpirun.1").read_text()
    assert "TUTTI_ALGORITHM" in (share / "man" / "man7" / "tutti-settings.7").read_text()
    if shutil.which("man"):
        said = subprocess.run(["man", "--warnings", "-l", share / "man" / "man1" / "mpirun.1"], capture_output=True, text=True, timeout=60)
        assert said.returncode == 0 and "mpirun" in said.stdout and not said.stderr, said.stderr
    assert "EXIT STATUS" in (share / "man" / "man1" / "mpiexec.1").read_text()
    for name, word in (("mpirun", "--timeout"), ("mpiexec", "--timeout"), ("tutti", "checkpoint")):
        bash = share / "bash-completion" / "completions" / name
        assert name in text_of("bash", "-c", f"source {bash}; complete -p {name}") and word in bash.read_text()
        for shell, file in (("zsh", f"zsh/site-functions/_{name}"), ("fish", f"fish/vendor_completions.d/{name}.fish")):
            assert word.strip("-") in (share / file).read_text(), file
            if shutil.which(shell):
                text_of(shell, "-n", share / file)
