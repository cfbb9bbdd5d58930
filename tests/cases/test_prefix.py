"""An installation in a folder with a blank in its name."""

import os
import shutil
import subprocess

import pytest


@pytest.fixture(scope="module")
def prefix(tutti, tmp_path_factory):
    """Creates a copy of the stage."""
    place = tmp_path_factory.mktemp("my programs") / "tutti 1"
    shutil.copytree(tutti.prefix, place, symlinks=True)
    return place


def words(prefix, *command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


SOURCE = "#include <mpi.h>\n#include <stdio.h>\nint main(int c, char **v) { MPI_Init(&c, &v); puts(\"ok\"); return MPI_Finalize(); }\n"


def test_programs_are_compiled_and_run(tutti, prefix, tmp_path):
    (tmp_path / "a b.c").write_text(SOURCE)
    for compiler, source in (("mpicc", "a b.c"), ("mpicxx", "a b.cc")):
        (tmp_path / source).write_text(SOURCE)
        words(prefix, prefix / "bin" / compiler, "-Wall", "-Werror", '-DWORD="x y"', tmp_path / source, "-o", tmp_path / "the program")
        out = words(prefix, prefix / "bin" / "mpirun", "-n", 2, tmp_path / "the program", env=tutti.env)
        assert out.split() == ["ok", "ok"]


def test_what_is_shown_is_words_of_a_shell(prefix, tmp_path):
    (tmp_path / "a.c").write_text(SOURCE)
    shown = words(prefix, prefix / "bin" / "mpicc", "-show", tmp_path / "a.c", "-o", tmp_path / "shown")
    assert f'-I"{prefix}/include"' in shown
    words(prefix, "sh", "-c", shown)
    flags = [words(prefix, prefix / "bin" / "mpicc", f"--showme:{part}").strip() for part in ("compile", "link")]
    words(prefix, "sh", "-c", f"cc {flags[0]} {tmp_path}/a.c -o {tmp_path}/flags {flags[1]}")
    assert os.access(tmp_path / "flags", os.X_OK)


def test_overlap_in_a_folder_with_a_blank(prefix, tmp_path):
    if not shutil.which("clang") and not list(__import__("pathlib").Path("/usr/lib").glob("*/libclang*")):
        pytest.skip("no libclang")
    folder = tmp_path / "my headers"
    folder.mkdir()
    (folder / "size.h").write_text("#define SIZE 64\n")
    source = tmp_path / "step.c"
    source.write_text('#include "size.h"\n#include <stdio.h>\ndouble a[SIZE], b[SIZE];\nint main(void) {\n#pragma tutti overlap\n'
                      "    for (int t = 0; t < 4; t++) {\n        for (int i = 1; i < SIZE - 1; i++) b[i] = a[i - 1] + a[i + 1];\n"
                      "        for (int i = 1; i < SIZE - 1; i++) a[i] = b[i];\n    }\n    printf(\"%g\\n\", a[1]);\n    return 0;\n}\n")
    done = subprocess.run([str(word) for word in (prefix / "bin" / "mpicc", "--overlap", f"-I{folder}", source, "-o", tmp_path / "step", "-lm")],
                          capture_output=True, text=True, timeout=120)
    assert "No such file" not in done.stderr and "not found" not in done.stderr, done.stderr
