"""A job that hangs: hangs.py KIND A B, as tests/programs/hangs.c."""

import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
kind, a, b = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rank = comm.Get_rank()
comm.allreduce(rank)
if kind == "head_to_head" and rank in (a, b):
    comm.recv(source=a + b - rank, tag=5)
    comm.send(rank, dest=a + b - rank, tag=5)
if kind == "tags" and rank == a:
    comm.recv(source=b, tag=7)
if kind == "tags" and rank == b:
    comm.send(rank, dest=a, tag=8)
if kind == "missing_collective":
    if rank == a:
        comm.recv(source=b, tag=3)
    else:
        comm.Allreduce(bytearray(8), bytearray(8), op=MPI.BOR)
comm.Barrier()
