/* Virtual topologies (MPI-5, chapter 8). */
#include "rows.h"

static MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;

static void dimensions(void)
{
    static const struct {
        int nodes, wanted[3], got[3];
    } rows[] = {
        {6, {3, 2, 1}, {0, 0, 0}}, {12, {3, 2, 2}, {0, 0, 0}}, {7, {7, 1, 1}, {0, 0, 0}}, {12, {2, 3, 2}, {0, 3, 0}},
        {1, {1, 1, 1}, {0, 0, 0}}, {8, {2, 2, 2}, {0, 0, 0}}, {6, {6, 1, 1}, {0, 1, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int dims[3];
        memcpy(dims, rows[i].got, sizeof dims);
        MPI_Dims_create(rows[i].nodes, 3, dims);
        HOLDS("8.5.2", "dims_create", !memcmp(dims, rows[i].wanted, sizeof dims));
    }
    REFUSED("8.5.2", "dims that cannot hold the nodes", MPI_Dims_create(7, 2, (int[]){2, 0}), MPI_ERR_DIMS);
    REFUSED("8.5.2", "a negative dimension", MPI_Dims_create(6, 2, (int[]){-1, 0}), MPI_ERR_DIMS);
    REFUSED("8.5.2", "full dims of another product", MPI_Dims_create(6, 2, (int[]){2, 2}), MPI_ERR_DIMS);
}

static void cartesian(void)
{
    MPI_Comm grid, sub, point;
    int n, status, source, dest, dims[1] = {check_size}, periods[1] = {1}, coords[2], zero = 0;
    REFUSED("8.5.1", "a grid larger than the group", MPI_Cart_create(self, 1, (int[]){2}, &zero, 0, &grid), MPI_ERR_DIMS);
    REFUSED("8.5.1", "a grid with a negative dimension", MPI_Cart_create(self, 1, (int[]){-1}, &zero, 0, &grid), MPI_ERR_DIMS);
    REFUSED("8.5.1", "a negative number of dimensions", MPI_Cart_create(self, -1, dims, periods, 0, &grid), MPI_ERR_DIMS);
    REFUSED("8.5.1", "a grid of MPI_COMM_NULL", MPI_Cart_create(MPI_COMM_NULL, 1, dims, periods, 0, &grid), MPI_ERR_COMM);
    MPI_Cart_create(world, 1, dims, periods, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    MPI_Topo_test(grid, &status);
    ROW("8.5.5", "a grid is cartesian", status, MPI_CART);
    MPI_Topo_test(world, &status);
    ROW("8.5.5", "the world has no topology", status, MPI_UNDEFINED);
    MPI_Cartdim_get(grid, &n);
    ROW("8.5.5", "number of dimensions", n, 1);
    MPI_Cart_coords(grid, check_rank, 1, coords);
    ROW("8.5.5", "coordinates", coords[0], check_rank);
    MPI_Cart_rank(grid, (int[]){check_size + 0}, &n);
    ROW("8.5.5", "coordinates of a periodic dimension wrap", n, 0);
    MPI_Cart_rank(grid, (int[]){-1}, &n);
    ROW("8.5.5", "below zero too", n, check_size - 1);
    MPI_Cart_shift(grid, 0, 1, &source, &dest);
    HOLDS("8.5.6", "shift in a periodic dimension", dest == (check_rank + 1) % check_size && source == (check_rank + check_size - 1) % check_size);
    REFUSED("8.5.6", "shift in a dimension that is not there", MPI_Cart_shift(grid, 1, 1, &source, &dest), MPI_ERR_DIMS);
    REFUSED("8.5.5", "coordinates of a rank beyond the group", MPI_Cart_coords(grid, check_size, 1, coords), MPI_ERR_RANK);
    REFUSED("8.5.5", "coordinates in the world", MPI_Cart_coords(world, 0, 1, coords), MPI_ERR_TOPOLOGY);
    REFUSED("8.5.5", "dimensions of the world", MPI_Cartdim_get(world, &n), MPI_ERR_TOPOLOGY);
    REFUSED("8.5.5", "neighbours of a grid as of a graph", MPI_Graph_neighbors_count(grid, 0, &n), MPI_ERR_TOPOLOGY);
    REFUSED("8.5.5", "neighbours of a grid as of a distributed graph", MPI_Dist_graph_neighbors_count(grid, &n, &source, &dest), MPI_ERR_TOPOLOGY);
    MPI_Comm_dup(grid, &sub);
    MPI_Topo_test(sub, &status);
    ROW("7.4.2", "a duplicate has the topology", status, MPI_CART);
    MPI_Comm_free(&sub);
    MPI_Cart_sub(grid, (int[]){0}, &sub);
    MPI_Cartdim_get(sub, &n);
    ROW("8.5.7", "a grid without dimensions", n, 0);
    MPI_Comm_size(sub, &n);
    ROW("8.5.7", "has one member", n, 1);
    MPI_Comm_free(&sub);
    MPI_Comm_free(&grid);
    periods[0] = 0;
    MPI_Cart_create(world, 1, dims, periods, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    MPI_Cart_shift(grid, 0, 1, &source, &dest);
    HOLDS("8.5.6", "shift over an edge is MPI_PROC_NULL", dest == (check_rank + 1 < check_size ? check_rank + 1 : MPI_PROC_NULL) && source == (check_rank ? check_rank - 1 : MPI_PROC_NULL));
    REFUSED("8.5.5", "coordinates beyond an edge", MPI_Cart_rank(grid, (int[]){-1}, &n), MPI_ERR_ARG);
    MPI_Comm_free(&grid);
    MPI_Cart_create(world, 0, NULL, NULL, 0, &point);
    HOLDS("8.5.1", "a grid of no dimensions has rank 0 alone", (point != MPI_COMM_NULL) == (check_rank == 0));
    if (point != MPI_COMM_NULL)
        MPI_Comm_free(&point);
    MPI_Cart_map(world, 1, dims, periods, &n);
    HOLDS("8.5.8", "cart_map", n == MPI_UNDEFINED || (n >= 0 && n < check_size));
}

static void graphs(void)
{
    MPI_Comm graph;
    int index[8], edges[16], n, m, status, zero = 0, in, out, weighted, size = check_size > 8 ? 8 : check_size;
    for (int i = 0; i < size; i++)
        index[i] = i + 1, edges[i] = (i + 1) % size;
    MPI_Graph_create(world, size, index, edges, 0, &graph);
    if (graph != MPI_COMM_NULL) {
        MPI_Topo_test(graph, &status);
        ROW("8.5.5", "a graph", status, MPI_GRAPH);
        MPI_Graphdims_get(graph, &n, &m);
        HOLDS("8.5.5", "its nodes and edges", n == size && m == size);
        MPI_Graph_neighbors_count(graph, 0, &n);
        ROW("8.5.5", "its neighbours", n, 1);
        MPI_Comm_free(&graph);
    }
    REFUSED("8.5.3", "a graph larger than the group", MPI_Graph_create(self, 2, (int[]){1, 2}, (int[]){1, 0}, 0, &graph), MPI_ERR_ARG);
    REFUSED("8.5.3", "an edge to a node that is not there", MPI_Graph_create(self, 1, (int[]){1}, (int[]){5}, 0, &graph), MPI_ERR_ARG);
    MPI_Dist_graph_create_adjacent(self, 1, &zero, MPI_UNWEIGHTED, 1, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Topo_test(graph, &status);
    ROW("8.5.5", "a distributed graph", status, MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    HOLDS("8.5.5", "its degrees, without weights", in == 1 && out == 1 && !weighted);
    MPI_Comm_free(&graph);
    MPI_Dist_graph_create_adjacent(self, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    HOLDS("8.5.4", "MPI_WEIGHTS_EMPTY are weights", in == 0 && out == 0 && weighted);
    MPI_Comm_free(&graph);
    MPI_Dist_graph_create(self, 1, &zero, (int[]){2}, (int[]){0, 0}, (int[]){3, 4}, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    HOLDS("8.5.4", "an edge may be there twice", in == 2 && out == 2 && weighted);
    MPI_Dist_graph_neighbors(graph, 2, edges, edges + 2, 2, edges + 4, edges + 6);
    ROW("8.5.5", "sum of its weights", edges[2] + edges[3], 7);
    MPI_Comm_free(&graph);
    REFUSED("8.5.4", "an edge from a rank beyond the group", MPI_Dist_graph_create_adjacent(self, 1, (int[]){5}, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_RANK);
    REFUSED("8.5.4", "a negative degree", MPI_Dist_graph_create_adjacent(self, -1, &zero, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    REFUSED("8.5.4", "a negative weight", MPI_Dist_graph_create_adjacent(self, 1, &zero, (int[]){-1}, 1, &zero, (int[]){1}, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
}

static void neighbours(void)
{
    MPI_Comm grid;
    int me = check_rank, in[2] = {-1, -1}, n = check_size, left = (me + n - 1) % n, right = (me + 1) % n;
    int out[2] = {100 + me, 200 + me};
    MPI_Request request;
    REFUSED("8.6", "neighbour collective without a topology", MPI_Neighbor_allgather(&me, 1, MPI_INT, in, 1, MPI_INT, world), MPI_ERR_TOPOLOGY);
    MPI_Cart_create(world, 1, (int[]){n}, (int[]){1}, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    MPI_Neighbor_allgather(&me, 1, MPI_INT, in, 1, MPI_INT, grid);
    HOLDS("8.6.1", "neighbor_allgather", in[0] == left && in[1] == right);
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, grid);
    HOLDS("8.6.2", "neighbor_alltoall", in[0] == 200 + left && in[1] == 100 + right);
    in[0] = in[1] = -1;
    MPI_Ineighbor_allgather(&me, 1, MPI_INT, in, 1, MPI_INT, grid, &request);
    REFUSED("8.7", "cancel of a neighbour collective", MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS("8.7.1", "ineighbor_allgather", in[0] == left && in[1] == right);
    MPI_Neighbor_alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, grid, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS("8.8.2", "neighbor_alltoall_init", in[0] == 200 + left && in[1] == 100 + right);
    MPI_Request_free(&request);
    MPI_Comm_free(&grid);
    MPI_Cart_create(world, 1, (int[]){n}, (int[]){0}, 0, &grid);
    in[0] = in[1] = -1;
    MPI_Neighbor_allgather(&me, 1, MPI_INT, in, 1, MPI_INT, grid);
    HOLDS("8.6", "nothing comes over an edge", in[0] == (me ? left : -1) && in[1] == (me + 1 < n ? right : -1));
    MPI_Comm_free(&grid);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    dimensions();
    cartesian();
    graphs();
    neighbours();
    return rows_end();
}
