"""The wheel, as pip installs it: in an environment of its own, beside mpi4py's wheel, away from any other
Tutti. Its platform's tag is what the files need."""

import os
import re
import subprocess
import sys
import zipfile

import pytest

from wheels import PROGRAM, packed, packer


@pytest.fixture(scope="module")
def environment(tutti, tmp_path_factory):
    """Installs the wheel and mpi4py by `pip install tutti-mpi mpi4py` into an environment, and returns the
    wheel and the environment's folder."""
    folder = tmp_path_factory.mktemp("wheel")
    made = packed(tutti)
    subprocess.run([sys.executable, "-m", "venv", folder / "python"], check=True, timeout=120)
    install = [folder / "python" / "bin" / "pip", "install", "--quiet", "--only-binary", "mpi4py", made, "mpi4py==4.1.2"]
    subprocess.run([str(word) for word in install], check=True, timeout=300)
    return made, folder / "python"


def run(prefix, *words, cwd=None):
    """Runs a command with nothing in the environment that could lead to another Tutti."""
    clean = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run([str(word) for word in words], env=clean, cwd=cwd or prefix, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_two_commands(environment, tmp_path, ranks):
    _, prefix = environment
    (tmp_path / "hello.py").write_text(PROGRAM)
    said = run(prefix, prefix / "bin" / "mpirun", "-n", ranks, prefix / "bin" / "python", tmp_path / "hello.py", cwd=tmp_path)
    total = ranks * (ranks + 1) // 2
    assert sorted(said.splitlines()) == [f"rank {rank} of {ranks}: Tutti {total} True" for rank in range(ranks)]


def test_a_program_without_mpirun(environment, tmp_path):
    _, prefix = environment
    (tmp_path / "hello.py").write_text(PROGRAM)
    assert run(prefix, prefix / "bin" / "python", tmp_path / "hello.py").strip() == "rank 0 of 1: Tutti 1 True"


def test_compilers_and_second_names(environment, tmp_path):
    """mpicc finds its files relative to its own place. Second names replace links, which a wheel cannot
    have."""
    _, prefix = environment
    (tmp_path / "a.c").write_text('#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { MPI_Init(&c, &v); puts("ok"); return MPI_Finalize(); }\n')
    run(prefix, prefix / "bin" / "mpicc", tmp_path / "a.c", "-o", tmp_path / "a")
    assert run(prefix, prefix / "bin" / "mpiexec", "-n", 2, tmp_path / "a").split() == ["ok", "ok"]
    for library in ("tutti/mpich/libmpich.so.12", "tutti/mpich/libmpi.so", "tutti/openmpi/libmpi.so", "tutti/openmpi/libmpi_cxx.so.40", "tutti/mpich/libmpifort.so.12", "tutti/openmpi/libmpi_mpifh.so.40"):
        run(prefix, prefix / "bin" / "python", "-c", f"import ctypes; ctypes.CDLL('{prefix}/lib/{library}').MPI_Send")
    assert "TUTTI_EAGER_BYTES" in run(prefix, prefix / "bin" / "tutti", "info")


def test_the_tag_is_true(environment):
    """Every file needs at most the C library that the tag names, and only libraries that exist everywhere. No
    file names a path of this machine."""
    made, prefix = environment
    major, minor = re.search(r"manylinux_(\d+)_(\d+)_", made.name).groups()
    assert f"Tag: py3-none-manylinux_{major}_{minor}" in next(prefix.glob("lib/python*/site-packages/tutti_mpi-*/WHEEL")).read_text()
    binaries = [path for folder in ("bin", "lib/tutti") for path in (prefix / folder).rglob("*")
                if path.is_file() and not path.is_symlink() and packer.is_elf(path)] + list(prefix.glob("lib/libmpi*.so.1"))
    assert {"mpirun", "libmpi.so.12", "libmpi.so.40", "libmpi_abi.so.1"} <= {path.name for path in binaries}
    for path in binaries:
        assert packer.wanted_glibc(path) <= (int(major), int(minor)), path
        runpath = re.findall(r"R(?:UN)?PATH\s+(\S+)", packer.text_of("objdump", "-p", path))
        assert all(part.startswith("$ORIGIN") for one in runpath for part in one.split(":")), f"{path}: {runpath}"


def test_a_library_that_is_not_everywhere_is_refused(tmp_path):
    (tmp_path / "a.c").write_text("int zlibVersion(void); int main(void) { return zlibVersion(); }\n")
    (tmp_path / "z.c").write_text("int zlibVersion(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "libodd.so", tmp_path / "z.c"], check=True)
    subprocess.run(["cc", "-o", tmp_path / "a", tmp_path / "a.c", "-L", tmp_path, "-lodd"], check=True)
    with pytest.raises(SystemExit, match="needs libodd.so"):
        packer.tag([tmp_path / "a"])


def test_the_same_files_make_the_same_wheel(environment):
    """No times, and an archive that pip can check by its list."""
    made, _ = environment
    with zipfile.ZipFile(made) as archive:
        assert {info.date_time for info in archive.infolist()} == {packer.MOMENT}
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        listed = {line.rsplit(",", 2)[0] for line in archive.read(record).decode().splitlines()}
        assert listed == set(archive.namelist())
