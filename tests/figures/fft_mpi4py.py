"""mpi4py-fft's 3D transform of N^3 complex numbers, forward and backward (tests/figures/fft_hosts.py).

usage: fft_mpi4py.py N TRANSFORMS; prints the seconds of one: the mean of all, of the first tenth, of the
last.
"""

import sys

import numpy
from mpi4py import MPI
from mpi4py_fft import PFFT, newDistArray

size, transforms = int(sys.argv[1]), int(sys.argv[2])
world = MPI.COMM_WORLD
fft = PFFT(world, (size, size, size), dtype=complex, slab=True)
values = newDistArray(fft, False)
values[:] = numpy.random.default_rng(world.rank).random(values.shape)
kept, tenth, marks = values.copy(), transforms // 10, {}
world.Barrier()
begin = MPI.Wtime()
for number in range(transforms):
    marks[number] = MPI.Wtime()
    values = fft.backward(fft.forward(values), values)
end = MPI.Wtime()
own = numpy.array([(end - begin) / transforms, (marks[tenth] - begin) / tenth, (end - marks[transforms - tenth]) / tenth])
most = numpy.empty(3)
world.Reduce(own, most, MPI.MAX)
worst = world.reduce(float(numpy.abs(values - kept).max()), MPI.MAX)
if world.rank == 0:
    print(f"mean {most[0]:.6f} first {most[1]:.6f} last {most[2]:.6f} {'right' if worst < 1e-9 else 'wrong'}")
