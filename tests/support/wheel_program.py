"""The program that says whether an installed wheel works."""

PROGRAM = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
sent = bytearray(b"x" * 100000) if comm.rank == 0 else bytearray(100000)
comm.Bcast(sent, root=0)
total = comm.allreduce(comm.rank + 1)
print(f"rank {comm.rank} of {comm.size}: {MPI.Get_library_version().split()[0]} {total} {sent == b'x' * 100000}", flush=True)
"""
