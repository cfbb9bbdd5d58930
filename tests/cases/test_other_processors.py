"""64-bit Arm, by an emulator of user programs: ranks of that processor, started by this machine's mpirun.

Runs where `ARCH=aarch64 make wheel` has made a wheel, and a compiler and qemu-user are there. An emulator on
x86 keeps this machine's order of memory, which is stricter: a fence that is missing is not seen here.
"""

import shutil
import subprocess
import zipfile

import pytest

from harness import ROOT, SOURCES

COMPILER, EMULATOR, ROOTS = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
PROGRAMS = ["p2p_modes", "p2p_match", "coll_reduce", "coll_move", "types", "comms", "threads", "rma_ops"]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    wheels = sorted((ROOT / "dist").glob("*_aarch64.whl"))
    missing = [tool for tool in (COMPILER, EMULATOR) if not shutil.which(tool)]
    if not wheels or missing:
        pytest.skip(f"ARCH=aarch64 make wheel has made none, or there is no {COMPILER} or {EMULATOR}")
    folder = tmp_path_factory.mktemp("arm")
    with zipfile.ZipFile(wheels[-1]) as archive:
        archive.extractall(folder)
    return next(folder.glob("*.data/data"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(tutti, unpacked, tmp_path, program):
    library = unpacked / "lib" / "libmpi_abi.so.1"
    command = [COMPILER, "-O1", "-pthread", f"-I{unpacked / 'include'}", "-o", tmp_path / program, SOURCES / f"{program}.c", library, "-lm"]
    subprocess.run([str(word) for word in command], check=True, timeout=120)
    outcome = tutti.run(2, EMULATOR, "-L", ROOTS, "-E", f"LD_LIBRARY_PATH={library.parent}", tmp_path / program)
    assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)
