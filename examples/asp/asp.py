"""All pairs shortest paths by the parallel algorithm of Floyd and Warshall: asp.c with mpi4py and numpy.

usage: mpirun -n 4 python asp.py GRAPH [FROM TO]...     (GRAPH from graph.py; cities as "Lisbon, PT")
"""

import sys

import numpy as np
from mpi4py import MPI

FAR = 1_000_000_000  # no way known yet; twice this fits in 32 bits
BLOCK = 64  # rows worked on together: they stay in the cache
ROUTES = ["Lisbon, PT", "Tokyo, JP", "Cape Town, ZA", "Oslo, NO", "Chicago, US", "Buenos Aires, AR"]


def read_graph(path):
    """Returns the names of the cities and an array of edges (from, to, metres)."""
    with open(path, encoding="utf-8") as file:
        word, nodes, edges = file.readline().split()
        if word != "tutti-graph":
            raise SystemExit(f"asp: {path} is not a graph of graph.py")
        names = [file.readline().split("\t")[0] for _ in range(int(nodes))]
        return names, np.loadtxt(file, dtype=np.int32, max_rows=int(edges))


def first_distances(nodes, edges, first, count):
    """Returns rows [first, first + count) of the matrix before the first step."""
    distance = np.full((nodes, nodes), FAR, np.int32)
    np.fill_diagonal(distance, 0)
    start, end, metres = edges.T
    distance[start, end] = metres
    distance[end, start] = metres
    return distance[first:first + count].copy()


def relax(distance, by, k, space):
    """Is the way by city k, whose distances are `by`, shorter?"""
    for start in range(0, len(distance), BLOCK):
        rows = distance[start:start + BLOCK]
        way = space[:len(rows)]
        np.add(rows[:, k, None], by, out=way)
        np.minimum(rows, way, out=rows)


def solve(comm, distance, nodes, firsts):
    """Runs all steps; returns the seconds spent in Bcast."""
    in_mpi = 0.0
    first = firsts[comm.rank]
    by = np.empty(nodes, np.int32)
    space = np.empty((BLOCK, nodes), np.int32)
    owners = np.searchsorted(firsts, np.arange(nodes), side="right") - 1
    for k in range(nodes):
        if owners[k] == comm.rank:
            by[:] = distance[k - first]
        before = MPI.Wtime()
        comm.Bcast(by, root=owners[k])
        in_mpi += MPI.Wtime() - before
        relax(distance, by, k, space)
    return in_mpi


def route(names, edges, whole, start, end):
    """Returns the cities on a shortest path, both ends included."""
    at, end = names.index(start), names.index(end)
    way = [at]
    both = np.concatenate([edges, edges[:, [1, 0, 2]]])
    while at != end:
        near = both[both[:, 0] == at]
        at = int(near[near[:, 2] + whole[near[:, 1], end] == whole[at, end]][0, 1])
        way.append(at)
    return [names[city] for city in way]


def report(comm, names, edges, whole, seconds, share, routes):
    """Prints the answers on rank 0 and checks them. Returns the number of wrong distances."""
    nodes = len(names)
    print("shortest routes over roads between neighbours:")
    for start, end in zip(routes[::2], routes[1::2]):
        cities = route(names, edges, whole, start, end)
        length = whole[names.index(start), names.index(end)] / 1000
        among = " - ".join(cities[4:-1:8][:6])
        print(f"  {start} - {end}: {length:.1f} km, {len(cities) - 2} cities on the way, among them {among}")
    one, other = np.unravel_index(np.argmax(whole), whole.shape)
    print(f"diameter: {whole[one, other] / 1000:.1f} km, {names[one]} - {names[other]}")
    alone = first_distances(nodes, edges, 0, nodes)
    space = np.empty((BLOCK, nodes), np.int32)
    start = MPI.Wtime()
    for k in range(nodes):
        relax(alone, alone[k].copy(), k, space)
    sequential = MPI.Wtime() - start
    wrong = int(np.count_nonzero(alone != whole))
    print(f"time: {seconds:.3f} s on {comm.size} ranks ({100 * share:.1f} % of it in MPI), "
          f"sequential {sequential:.3f} s")
    print(f"check: {wrong} of {nodes * nodes} distances differ from the sequential computation", flush=True)
    return wrong


def main():
    comm = MPI.COMM_WORLD
    if len(sys.argv) < 2:
        raise SystemExit("usage: asp.py GRAPH [FROM TO]...")
    names, edges = comm.bcast(read_graph(sys.argv[1]) if comm.rank == 0 else None)
    nodes = len(names)
    if comm.rank == 0:
        library = MPI.Get_library_version().split("\n")[0].strip("\0 ")
        print(f"asp.py: {nodes} cities, {len(edges)} roads, {comm.size} ranks, {library}", flush=True)
    firsts = [nodes * rank // comm.size for rank in range(comm.size + 1)]
    counts = np.diff(firsts)
    mine = first_distances(nodes, edges, firsts[comm.rank], counts[comm.rank])

    comm.Barrier()
    start = MPI.Wtime()
    in_mpi = solve(comm, mine, nodes, firsts[:-1])
    spent = comm.reduce(np.array([MPI.Wtime() - start, in_mpi]))
    whole = np.empty((nodes, nodes), np.int32) if comm.rank == 0 else None
    comm.Gatherv(mine, [whole, counts * nodes, np.array(firsts[:-1]) * nodes, MPI.INT32_T] if comm.rank == 0
                 else None)
    wrong = 0
    if comm.rank == 0:
        routes = sys.argv[2:] or ROUTES
        wrong = report(comm, names, edges, whole, spent[0] / comm.size, spent[1] / spent[0], routes)
    sys.exit(1 if comm.bcast(wrong) else 0)


if __name__ == "__main__":
    main()
