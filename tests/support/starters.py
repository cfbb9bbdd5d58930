"""Starters other than our mpirun, and their command lines."""

from dataclasses import dataclass, field

from peers import PEERS


@dataclass
class Starter:
    """Command line of a starter: `command`, then the program."""

    name: str
    peer: str
    words: list
    speaks: str
    env: dict = field(default_factory=dict)

    @property
    def prefix(self):
        return PEERS / self.peer


AS_ROOT = {f"{who}_ALLOW_RUN_AS_ROOT{sure}": "1" for who in ("OMPI", "PRTE") for sure in ("", "_CONFIRM")}
STARTERS = [
    Starter("openmpi", "openmpi", ["mpirun", "--oversubscribe"], "PMIx", AS_ROOT),
    Starter("mpich", "mpich", ["mpiexec"], "PMI"),
    Starter("mpich-port", "mpich", ["mpiexec", "-pmi-port"], "PMI"),
    Starter("impi", "impi", ["mpiexec"], "PMI", {"I_MPI_ROOT": str(PEERS / "impi")}),
]
