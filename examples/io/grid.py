"""One rank's part of a grid that is written to io-servers by all together and read back in other parts.

usage: mpirun ... python grid.py FILE SIDE

The field is that of a few warm points after some steps of the heat equation, a block of rows a rank. FILE may
be any file of MPI-IO: on a disk, or, as tutti:NAME, on io-servers. What is read back as tiles of columns is
compared with what was written; where h5py knows MPI, the same goes through a file of HDF5, FILE.h5.
"""

import sys

import numpy as np
from mpi4py import MPI

STEPS = 60


def heat(comm, side):
    """Computes the steps of a field of heat and returns this rank's rows. Neighbours exchange their edges in
    each step."""
    rows = side // comm.size
    field = np.zeros((rows + 2, side))
    warm = np.random.default_rng(7).integers(0, side, (12, 2))
    for row, column in warm:
        if rows * comm.rank <= row < rows * (comm.rank + 1):
            field[1 + row - rows * comm.rank, max(0, column - 3):column + 3] = 1000.0
    above = comm.rank - 1 if comm.rank else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
    for _ in range(STEPS):
        comm.Sendrecv(field[1], above, recvbuf=field[-1], source=below)
        comm.Sendrecv(field[-2], below, recvbuf=field[0], source=above)
        inner = field[1:-1]
        sides = np.pad(inner, ((0, 0), (1, 1)))
        field[1:-1] = inner + 0.2 * (field[:-2] + field[2:] + sides[:, :-2] + sides[:, 2:] - 4 * inner)
    return np.ascontiguousarray(field[1:-1])


def view(side, parts, starts):
    """Returns the file type of a part of the grid."""
    return MPI.DOUBLE.Create_subarray((side, side), parts, starts).Commit()


def by_h5py(comm, name, rows, width):
    """The tile of this rank, through a file of HDF5; nothing where h5py does not know MPI."""
    try:
        import h5py
    except ImportError:
        return None
    if not h5py.get_config().mpi:
        return None
    side, first = rows.shape[1], len(rows) * comm.rank
    with h5py.File(name, "w", driver="mpio", comm=comm) as file:
        field = file.create_dataset("field", (side, side), dtype="f8")
        with field.collective:
            field[first:first + len(rows)] = rows
    with h5py.File(name, "r", driver="mpio", comm=comm) as file:
        field = file["field"]
        with field.collective:
            return field[:, width * comm.rank:width * (comm.rank + 1)]


def main():
    name, side = sys.argv[1], int(sys.argv[2])
    comm = MPI.COMM_WORLD
    rows = heat(comm, side)
    file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    start = MPI.Wtime()
    file.Set_view(0, MPI.DOUBLE, view(side, rows.shape, (len(rows) * comm.rank, 0)))
    file.Write_all(rows)
    file.Sync()
    written = MPI.Wtime() - start
    # The same for tiles of columns. Every rank has a part of each tile.
    width = side // comm.size
    tile = np.empty((side, width))
    start = MPI.Wtime()
    file.Set_view(0, MPI.DOUBLE, view(side, tile.shape, (0, width * comm.rank)))
    file.Read_all(tile)
    read = MPI.Wtime() - start
    info = dict(file.Get_info())
    file.Close()
    # Builds the expected tiles by messages and compares.
    parts = comm.alltoall([np.ascontiguousarray(rows[:, width * rank:width * (rank + 1)]) for rank in range(comm.size)])
    same = comm.allreduce(bool((np.vstack(parts) == tile).all()), MPI.LAND)
    if comm.rank == 0:
        stripes = f"{info.get('striping_factor', 1)} servers, stripes of {info.get('striping_unit', '-')} bytes"
        print(f"{comm.size} ranks, {side}x{side} doubles on {stripes}: written and synced in {written * 1e3:.0f} ms, read as tiles in {read * 1e3:.0f} ms")
    other = by_h5py(comm, f"{name}.h5", rows, width)
    if other is not None:
        same = comm.allreduce(bool((other == tile).all()), MPI.LAND) and same
        if comm.rank == 0:
            print("read by h5py as tiles, from a file of HDF5 on the same servers")
    if not same:
        print(f"rank {comm.rank}: the tiles are not what was written", flush=True)
        comm.Abort(1)


if __name__ == "__main__":
    main()
