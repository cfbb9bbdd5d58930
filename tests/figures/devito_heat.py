"""The kernel tests/programs/overlap/heat-2d.c in Devito: SIZE STEPS. Prints the seconds of its loop."""

import sys
import time

import numpy
from devito import Eq, Grid, Operator, TimeFunction, configuration
from mpi4py import MPI

size, steps = int(sys.argv[1]), int(sys.argv[2])
configuration["log-level"] = "ERROR"
grid = Grid(shape=(size, size), extent=(size - 1, size - 1), dtype=numpy.float64)
heat = TimeFunction(name="heat", grid=grid, space_order=2, time_order=1)
x, y = grid.dimensions
near = [heat.subs(axis, axis + sign * axis.spacing) for axis in (x, y) for sign in (-1, 1)]
operator = Operator([Eq(heat.forward, 0.2 * (heat + sum(near)), subdomain=grid.interior)])
heat.data[:] = 1.0
operator.apply(time_M=3)
MPI.COMM_WORLD.Barrier()
begun = time.perf_counter()
operator.apply(time_M=2 * steps - 1)
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    print(f"{time.perf_counter() - begun:.6f}")
