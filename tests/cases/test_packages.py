"""Packages, and build systems that look for MPI: CMake, pkg-config, Meson, autoconf."""

import ast
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import ROOT
from wheels import packed, staged_profile

PACKAGING = ROOT / "packaging"
# Complaints of lintian that stay.
LINTIAN = set()
HELLO = """#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("sum %d\\n", sum);
    return MPI_Finalize();
}
"""


def run(*words, cwd=None, env=None, prefix=None):
    """Returns the output of a command that finds the programs of `prefix` first."""
    env = dict(os.environ, **(env or {}))
    if prefix:
        env["PATH"] = f"{prefix / 'bin'}:{env['PATH']}"
    done = subprocess.run([str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout


def needs(command, part="packages"):
    """Installs the tools by scripts/need.sh, where that is allowed, and skips the test if a tool is
    missing."""
    if not shutil.which(command):
        subprocess.run([ROOT / "scripts" / "need.sh", part], timeout=600)
    if not shutil.which(command):
        pytest.skip(f"{command} is not here (scripts/need.sh {part})")


def check(prefix, program):
    assert run(prefix / "bin" / "mpirun", "-n", 2, program) == "sum 3\nsum 3\n"


@pytest.fixture
def source(tmp_path):
    (tmp_path / "hello.c").write_text(HELLO)
    return tmp_path


def test_cmake(tutti, source):
    needs("cmake")
    (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.10)\nproject(hello C CXX)\nfind_package(MPI REQUIRED)\n"
                                           "add_executable(hello hello.c)\ntarget_link_libraries(hello MPI::MPI_C)\n")
    said = run("cmake", "-S", source, "-B", source / "made", prefix=tutti.prefix)
    assert "Found MPI" in said and str(tutti.prefix) in said, said
    run("cmake", "--build", source / "made")
    check(tutti.prefix, source / "made" / "hello")


def test_pkg_config(tutti, source):
    needs("pkg-config")
    env = {"PKG_CONFIG_PATH": str(tutti.prefix / "lib" / "pkgconfig")}
    for name in ("tutti", "mpi"):
        flags = run("pkg-config", "--cflags", "--libs", name, env=env).split()
        run("cc", source / "hello.c", "-o", source / name, *flags)
        check(tutti.prefix, source / name)


def test_meson(tutti, source):
    needs("meson")
    (source / "meson.build").write_text("project('hello', 'c')\nexecutable('hello', 'hello.c', dependency: dependency('mpi', language: 'c'))\n"
                                        .replace("dependency: ", "dependencies: "))
    run("meson", "setup", source / "made", source, prefix=tutti.prefix, env={"PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": str(source)})
    run("ninja", "-C", source / "made")
    check(tutti.prefix, source / "made" / "hello")


def test_autoconf(tutti, source):
    needs("autoconf")
    (source / "configure.ac").write_text("AC_INIT([hello], [1])\nAC_PROG_CC([mpicc])\nAC_CHECK_FUNC([MPI_Init], [], [AC_MSG_ERROR([no MPI])])\n"
                                         "AC_CHECK_HEADER([mpi.h], [], [AC_MSG_ERROR([no header])])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n")
    (source / "Makefile.in").write_text("hello: hello.c\n\t@CC@ -o hello hello.c\n")
    run("autoconf", cwd=source)
    run("./configure", cwd=source, prefix=tutti.prefix)
    run("make", "hello", cwd=source, prefix=tutti.prefix)
    check(tutti.prefix, source / "hello")


def test_autoconf_archive(tutti, source):
    """AX_MPI, the macro of most packages."""
    needs("autoconf")
    macro = Path("/usr/share/aclocal/ax_mpi.m4")
    if not macro.exists():
        subprocess.run([ROOT / "scripts" / "need.sh", "packages"], timeout=600)
    if not macro.exists():
        pytest.skip("ax_mpi.m4 is not here (scripts/need.sh packages)")
    (source / "configure.ac").write_text(f"AC_INIT([hello], [1])\nAC_PROG_CC\nm4_include([{macro}])\n"
                                         "AX_MPI([], [AC_MSG_ERROR([no MPI])])\nAC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n")
    (source / "Makefile.in").write_text("hello: hello.c\n\t@MPICC@ -o hello hello.c @MPILIBS@\n")
    run("autoconf", cwd=source)
    assert "mpicc" in run("./configure", cwd=source, prefix=tutti.prefix)
    run("make", "hello", cwd=source, prefix=tutti.prefix)
    check(tutti.prefix, source / "hello")


@pytest.mark.parametrize("words", [["--showme:compile", "--showme:link"], ["-compile-info", "-link-info"], ["-show"]])
def test_waf(tutti, source, words):
    """Takes flags from the wrapper's answers, as waf's check_cfg does, and then calls the compiler."""
    flags = []
    for word in words:
        said = shlex.split(run(tutti.prefix / "bin" / "mpicc", word))
        flags += [flag for flag in said if flag.startswith(("-I", "-L", "-l", "-D", "-Wl,"))]
    run("cc", source / "hello.c", "-o", source / "hello", *flags)
    check(tutti.prefix, source / "hello")


def test_inquiries_of_scripts(tutti):
    """Patterns by which Spack, test scripts and container recipes determine the library."""
    fronts = tutti.prefix / "lib" / "tutti"
    openmpi, mpich = fronts / "openmpi" / "bin" / "ompi_info", fronts / "mpich" / "bin" / "mpichversion"
    parsable = dict(line.rsplit(":", 1) for line in run(openmpi, "--parsable", "--all").splitlines())
    assert re.fullmatch(r"\d+\.\d+\.\d+", parsable["ompi:version:full"]) and parsable["bindings:cxx"] == "no", parsable
    assert parsable["mca:mpi:base:param:mpi_built_with_cuda_support:value"] == "false"
    assert parsable["path:prefix"] == str(tutti.prefix.resolve()), parsable
    assert re.search(r"Open MPI: (\S+)", run(openmpi))[1] == parsable["ompi:version:full"]
    assert re.match(r"Open MPI v(\S+)", run(openmpi, "--version"))[1] == parsable["ompi:version:full"]
    assert re.search(r"MPICH Version:\s+(\S+)", run(mpich))[1] == re.search(r"Version:\s+(\S+)", run(mpich, "--version"))[1]
    assert "--version" not in run(mpich, "--cc") and len(run(mpich, "--cc").splitlines()) == 1
    table = run(fronts / "mpich" / "bin" / "impi_info", "-v", "I_MPI_PERHOST").splitlines()
    assert [cell.strip() for cell in table[-1].split("|")[1:-1]] == ["I_MPI_PERHOST", "not defined", "MPI_CHAR"], table
    # In bin they would make finders take Tutti's compilers for those of another library.
    assert not {"ompi_info", "mpichversion", "impi_info"} & {path.name for path in (tutti.prefix / "bin").iterdir()}


def test_debian(tutti, source):
    """Built, read by dpkg, unpacked, run from where it is: nothing is installed on this machine."""
    needs("dpkg-deb")
    package = run(PACKAGING / "debian" / "build.sh", source, env={"PROFILE": staged_profile(tutti), "DPKG_DEB_COMPRESSOR_TYPE": "gzip"}).strip()
    about = run("dpkg-deb", "--info", package)
    assert re.search(r"Depends: libc6 \(>= 2\.\d+\)", about) and "Package: tutti-mpi" in about, about
    run("dpkg-deb", "--extract", package, source / "root")
    prefix = source / "root" / "usr" / "lib" / "tutti"
    run(source / "root" / "usr" / "bin" / "mpicc.tutti", source / "hello.c", "-o", source / "hello")
    check(prefix, source / "hello")
    names = run("dpkg-deb", "--contents", package)
    assert "./usr/bin/mpirun.tutti" in names and not re.search(r"\./usr/bin/mpirun$", names, re.M) and " root/root " in names, names
    placed = ["bin/mpiexec.tutti", "bin/mpif90.tutti", "share/man/man1/mpirun.tutti.1.gz", "share/man/man1/tutti-info.1.gz",
              "share/bash-completion/completions/tutti", "share/doc/tutti-mpi/THIRD-PARTY-LICENSES.gz", "lib/systemd/system/tutti-netd.service"]
    assert all(f" ./usr/{name}" in names for name in placed), names
    copyright = (source / "root" / "usr" / "share" / "doc" / "tutti-mpi" / "copyright").read_text()
    assert copyright.startswith("Format: ") and "License: Expat or Apache-2.0" in copyright, copyright
    if shutil.which("lintian"):
        said = subprocess.run(["lintian", "--allow-root", "--fail-on", "none", package], capture_output=True, text=True, timeout=300).stdout
        assert not [line for line in said.splitlines() if line.startswith("E:") and line.split()[-1] not in LINTIAN], said


def test_recipes_are_well_formed():
    """Recipes that cannot be run here are at least read, and must name existing files."""
    recipe = (PACKAGING / "spack" / "tutti" / "package.py").read_text()
    ast.parse(recipe)
    assert {"scripts/install.sh", "scripts/fortran.sh"} <= set(re.findall(r'"(scripts/\S+?)"', recipe))
    assert "scripts/install.sh" in (PACKAGING / "conda" / "recipe.yaml").read_text()
    easybuild = {}
    exec((PACKAGING / "easybuild" / "tutti.eb").read_text(), easybuild)  # noqa: S102
    assert easybuild["name"] == "Tutti" and any("scripts/install.sh" in command for command in easybuild["postinstallcmds"])
    action = (PACKAGING / "github" / "setup-tutti" / "action.yml").read_text()
    script = action.split("run: |\n", 1)[1]
    run("bash", "-n", "-c", script)
    for wrapper in ("mpicc", "mpicxx", "mpifort"):
        assert f'"{wrapper}"' in recipe


def test_the_composite_action(tutti, tmp_path):
    """Runs the action's script as a runner does, with a wheel."""
    action = (PACKAGING / "github" / "setup-tutti" / "action.yml").read_text()
    script = "\n".join(line[8:] for line in action.split("run: |\n", 1)[1].splitlines())
    wheel = packed(tutti)
    env = {"RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(tmp_path / "path"), "GITHUB_OUTPUT": str(tmp_path / "output"),
           "VERSION": str(wheel), "MPI4PY": "false"}
    run("bash", "-e", "-c", script, env=env)
    prefix = (tmp_path / "output").read_text().strip().removeprefix("prefix=")
    assert (tmp_path / "path").read_text().strip() == f"{prefix}/bin"
    assert run(f"{prefix}/bin/mpirun", "-n", 2, "echo", "here") == "here\nhere\n"


def module_of(tutti):
    """Returns the folder of the environment module of an installation, and its version."""
    folder = tutti.prefix / "share" / "modulefiles"
    return folder, next((folder / "tutti").iterdir()).name


def test_the_environment_module(tutti):
    """The module finds the installation by its own place, with environment-modules and with Lmod."""
    script = Path("/etc/profile.d/modules.sh")
    if not script.exists():
        subprocess.run([ROOT / "scripts" / "need.sh", "packages"], timeout=600)
    if not script.exists():
        pytest.skip("neither environment-modules nor Lmod is here (scripts/need.sh packages)")
    folder, version = module_of(tutti)
    load = f"source {script}; module use {folder}; module load tutti/{version}; command -v mpirun; echo $MPI_HOME"
    assert run("bash", "-c", load, env={"MANPATH": ""}).splitlines() == [str(tutti.prefix / "bin" / "mpirun"), str(tutti.prefix)]


def test_an_installation_installs_no_package(tmp_path):
    """`make install` names what is missing and stops."""
    for name in ("sh", "dirname", "sed", "grep", "id", "make"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(["make", "-C", ROOT, "install", f"PREFIX={tmp_path}/installed"], capture_output=True, text=True, timeout=60,
                          env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert done.returncode != 0 and "missing: Rust" in done.stderr and "gcc" in done.stderr, done.stderr
    assert "apt-get" not in done.stdout + done.stderr and not (tmp_path / "installed").exists()
