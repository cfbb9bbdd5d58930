"""The program's floating-point environment: no call of MPI changes it, nor does the library compute in it."""

import functools
import os
import platform
import re
import shutil
import subprocess

import pytest

from harness import BUILT, ROOT, SOURCES, check
from hosts import Cluster

# Settings under which the library computes more than in the usual selection.
SETTINGS = {
    "usual": {},
    "explained": {"TUTTI_EXPLAIN": "1", "TUTTI_COUNTERS": "1"},
    "tuned": {"TUTTI_TUNE": "on", "TUTTI_EXPLAIN": "1"},
    "with a thread": {"TUTTI_PROGRESS_THREAD": "1"},
    "no single copy": {"TUTTI_SINGLE_COPY": "never"},
    "no banks": {"TUTTI_DEBUG": "bank_bytes=0"},
}


@pytest.fixture(scope="module")
def program(mpi):
    return mpi.compile("floating_point.c", "-lm")


@pytest.mark.parametrize("how", ["traps", "flags", "rounding"])
@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_no_call_changes_the_environment(tutti, program, tmp_path, how, ranks):
    check(tutti.run(ranks, program, how, tmp_path / "file"))


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting != "usual"])
@pytest.mark.parametrize("how", ["traps", "rounding"])
def test_no_setting_lets_a_call_change_it(tutti, program, tmp_path, how, setting):
    check(tutti.run(4, program, how, tmp_path / "file", env={**SETTINGS[setting], "TUTTI_MODEL_FILE": str(tmp_path / "model")}))


def test_a_trace_is_written_with_traps(tutti, program, tmp_path):
    check(tutti.run(2, program, "traps", env={"TUTTI_TRACE": str(tmp_path / "trace")}))


@pytest.mark.parametrize("setting", [{}, {"TUTTI_MULTICAST": "on"}, {"TUTTI_TUNE": "on"}], ids=["usual", "multicast", "tuned"])
def test_hosts_agree_though_their_ranks_round_differently(mpi, hosts, setting):
    cluster = Cluster(mpi.name, hosts(4), 2)
    for how in ["traps", "rounding"]:
        check(cluster.run(8, cluster.compile("floating_point.c", "-lm"), how, env=setting, seconds=240))


CRASHES = {
    "overflow": ("floating-point overflow", "in the program's data or operator of MPI_Allreduce"),
    "outside": ("floating-point division by zero", "the program has enabled traps"),
    "integer": ("integer division by zero", None),
}


@pytest.mark.parametrize("how", CRASHES)
def test_the_report_of_a_real_exception_names_its_cause(tutti, program, how):
    outcome = tutti.run(2, program, how)
    name, why = CRASHES[how]
    assert outcome.status == 128 + 8, str(outcome)
    assert f"SIGFPE (arithmetic exception): {name};" in outcome.err, str(outcome)
    assert "cannot use" not in outcome.err and "at address" not in outcome.err, str(outcome)
    assert (why in outcome.err) if why else ("traps" not in outcome.err), str(outcome)


@pytest.mark.skipif(not shutil.which(os.environ.get("FC", "gfortran")), reason="there is no Fortran compiler")
@pytest.mark.parametrize("flags", [(), ("-ffpe-trap=invalid,zero,overflow,underflow,denormal,inexact",)], ids=["flags", "traps"])
def test_fortran_reports_no_exception(tutti, flags):
    program = BUILT / "fortran" / f"exceptions{len(flags)}"
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [tutti.prefix / "bin" / "mpifort", "-O1", *flags, "-o", program, SOURCES / "fortran" / "exceptions.f90"]
    subprocess.run([str(word) for word in command], check=True, timeout=120)
    outcome = tutti.run(2, program)
    check(outcome)
    assert "FAILED" not in outcome.out and "floating-point exceptions" not in outcome.err, str(outcome)


# Arithmetic of the machine, and files in which the library may compute: with the program's data, in
# algorithms and their cost (which core isolates), in what is isolated. `addr2line` names a file for each
# function that an instruction was inlined from.
ARITHMETIC = re.compile(r"\tv?(?:(?:add|sub|mul|div|sqrt|min|max)[sp][sd]|cvt\w+|u?comis[sd]|round[sp][sd]|fn?m(?:add|sub)\w+)\s")
OWN_FILE = re.compile(r"crates/\w+/src/[\w/]+\.rs")
COMPUTES = re.compile(r"crates/(?:data|coll)/src/|sys/src/(?:floating_point|cpu)\.rs|base/src/trace\.rs")


@functools.cache
def may_compute(file):
    path = ROOT / file
    return bool(COMPUTES.search(file)) or path.exists() and "isolated(" in path.read_text()


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("addr2line"), reason="reads the machine code of x86")
def test_no_other_code_computes(tutti):
    library = tutti.prefix / "lib" / "libmpi_abi.so.1"
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True, timeout=300).stdout
    places = [line.split(":")[0].strip() for line in code.splitlines() if ARITHMETIC.search(line)]
    command = ["addr2line", "-a", "-i", "-e", library]
    named = subprocess.run(command, input="\n".join(places), capture_output=True, text=True, check=True, timeout=300).stdout
    chains = [chain.split("\n", 1)[1] for chain in re.split(r"^0x", named, flags=re.M)[1:]]
    if all(chain.startswith("??") for chain in chains):
        pytest.skip("the library was built without the names of its files")
    assert len(chains) == len(places) > 1000
    # Places that lie in Rust's own library alone are called by others.
    own = {chain: OWN_FILE.findall(chain) for chain in chains}
    others = {chain for chain, files in own.items() if files and not any(map(may_compute, files))}
    assert not others, "\n\n".join(sorted(others))
