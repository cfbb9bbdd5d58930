"""The wheel of the staged build, made once for all tests, and a program that says whether an installed wheel
works."""

import os
import shutil
import subprocess
import sys

from harness import BUILT, ROOT, locked

sys.path.insert(0, str(ROOT / "scripts"))
import wheel as packer  # noqa: E402

PROGRAM = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
sent = bytearray(b"x" * 100000) if comm.rank == 0 else bytearray(100000)
comm.Bcast(sent, root=0)
total = comm.allreduce(comm.rank + 1)
print(f"rank {comm.rank} of {comm.size}: {MPI.Get_library_version().split()[0]} {total} {sent == b'x' * 100000}", flush=True)
"""


def packed(tutti):
    """Returns the wheel of the staged build, and makes it where the build is newer."""
    folder = BUILT / "wheel"
    with locked(BUILT / ".wheel.lock"):
        made = max(folder.glob("*.whl"), default=None)
        if made and made.stat().st_mtime > (tutti.prefix / "bin" / "mpirun").stat().st_mtime:
            return made
        profile = staged_profile(tutti)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        stripped = {**os.environ, "STRIP": "1", "PROFILE": profile, "DESTDIR": ""}
        subprocess.run([ROOT / "scripts" / "install.sh", folder / "stage"], check=True, env=stripped, stdout=subprocess.DEVNULL, timeout=300)
        made = packer.write(folder / "stage", folder, level=1)
        shutil.rmtree(folder / "stage")
        return made


def staged_profile(tutti):
    """Returns the folder of cargo's profile by which the staged programs were built."""
    staged = (tutti.prefix / "bin" / "mpirun").read_bytes()
    built = {name: ROOT / "target" / name / "mpirun" for name in ("debug", "fast", "release")}
    return next(name for name, path in built.items() if path.exists() and path.read_bytes() == staged)
