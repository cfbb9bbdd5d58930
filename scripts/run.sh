#!/bin/sh
# The main job: all pairs shortest paths between the world's 2000 largest cities, in C and in Python.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
stage=$root/build/stage
ranks=${RANKS:-4}
graph=build/cities.graph

[ -f $graph ] || build/python/bin/python examples/asp/graph.py $graph
"$stage/bin/mpicc" -O3 -march=native -Wall -Wextra -o build/asp examples/asp/asp.c
echo "== C, $ranks ranks"
"$stage/bin/mpirun" -n "$ranks" build/asp $graph
echo "== Python (mpi4py), $ranks ranks"
MPI4PY_MPIABI=mpiabi MPI4PY_LIBMPI=$stage/lib/libmpi_abi.so.1 OMP_NUM_THREADS=1 \
    "$stage/bin/mpirun" -n "$ranks" build/python/bin/python examples/asp/asp.py $graph
