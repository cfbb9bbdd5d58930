/* With an argument, mistakes too, which each library calls by another class. Process topologies: grids,
 * graphs, distributed graphs; and neighbourhood collectives in all forms against sends and receives. */
#include "check.h"

enum { MOST = 64 };

static MPI_Comm all = MPI_COMM_NULL;
/* The compiler must not look where the constant points. */
static int *volatile unweighted;

/* Returns the number of a place in row-major order, as the standard defines it. */
static int place_of(int ndims, const int *dims, const int *coords)
{
    int rank = 0;
    for (int i = 0; i < ndims; i++)
        rank = rank * dims[i] + coords[i];
    return rank;
}

static void grid(int ndims, int reorder)
{
    int dims[4] = {0}, periods[4] = {1, 0, 1, 0}, got_dims[4], got_periods[4], coords[4], there[4], status, rank, n;
    MPI_Comm cart, twin, sub;
    MPI_Dims_create(check_size, ndims, dims);
    MPI_Cart_create(all, ndims, dims, periods, reorder, &cart);
    MPI_Topo_test(cart, &status);
    CHECK_EQUAL(status, MPI_CART);
    MPI_Comm_dup(cart, &twin);
    MPI_Topo_test(twin, &status);
    CHECK_EQUAL(status, MPI_CART);
    MPI_Cartdim_get(twin, &n);
    CHECK_EQUAL(n, ndims);
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_get(twin, ndims, got_dims, got_periods, coords);
    for (int i = 0; i < ndims; i++) {
        CHECK_EQUAL(got_dims[i], dims[i]);
        CHECK_EQUAL(got_periods[i], periods[i]);
    }
    CHECK_EQUAL(place_of(ndims, dims, coords), rank);
    for (int i = 0; i < check_size; i++) {
        MPI_Cart_coords(cart, i, ndims, there);
        MPI_Cart_rank(cart, there, &n);
        CHECK_EQUAL(n, i);
    }
    for (int i = 0; i < ndims; i++) {
        int source, dest, keep[4] = {0};
        MPI_Cart_shift(cart, i, 1, &source, &dest);
        memcpy(there, coords, sizeof there);
        there[i] = (coords[i] + 1) % dims[i];
        CHECK_EQUAL(dest, periods[i] || coords[i] + 1 < dims[i] ? place_of(ndims, dims, there) : MPI_PROC_NULL);
        keep[i] = 1;
        MPI_Cart_sub(cart, keep, &sub);
        MPI_Comm_size(sub, &n);
        CHECK_EQUAL(n, dims[i]);
        MPI_Comm_rank(sub, &n);
        CHECK_EQUAL(n, coords[i]);
        MPI_Cart_get(sub, 1, got_dims, got_periods, there);
        CHECK_EQUAL(got_periods[0], periods[i]);
        CHECK_EQUAL(there[0], coords[i]);
        MPI_Comm_free(&sub);
    }
    MPI_Cart_map(all, ndims, dims, periods, &n);
    CHECK(n >= 0 && n < check_size && (!reorder || n == rank));
    MPI_Comm_free(&twin);
    MPI_Comm_free(&cart);
}

static void small_grids(void)
{
    int one = 1, period = 0, none[1] = {0}, newrank, n;
    MPI_Comm cart, sub;
    MPI_Cart_create(all, 1, &one, &period, 0, &cart);
    CHECK((cart != MPI_COMM_NULL) == (check_rank == 0));
    MPI_Cart_map(all, 1, &one, &period, &newrank);
    CHECK_EQUAL(newrank, check_rank == 0 ? 0 : MPI_UNDEFINED);
    if (cart != MPI_COMM_NULL) {
        MPI_Cart_sub(cart, none, &sub);
        MPI_Cartdim_get(sub, &n);
        CHECK_EQUAL(n, 0);
        MPI_Comm_free(&sub);
        MPI_Comm_free(&cart);
    }
    MPI_Cart_create(all, 0, NULL, NULL, 0, &cart);
    CHECK((cart != MPI_COMM_NULL) == (check_rank == 0));
    if (cart != MPI_COMM_NULL)
        MPI_Comm_free(&cart);
}

static void ring_graph(int reorder)
{
    int index[MOST], edges[2 * MOST], got[2 * MOST], status, nodes, count, rank;
    MPI_Comm graph;
    for (int i = 0; i < check_size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + check_size - 1) % check_size;
        edges[2 * i + 1] = (i + 1) % check_size;
    }
    MPI_Graph_create(all, check_size, index, edges, reorder, &graph);
    MPI_Topo_test(graph, &status);
    CHECK_EQUAL(status, MPI_GRAPH);
    MPI_Graphdims_get(graph, &nodes, &count);
    CHECK_EQUAL(nodes, check_size);
    CHECK_EQUAL(count, 2 * check_size);
    MPI_Graph_get(graph, MOST, 2 * MOST, got, got);
    MPI_Graph_neighbors_count(graph, 0, &count);
    CHECK_EQUAL(count, 2);
    MPI_Comm_rank(graph, &rank);
    MPI_Graph_neighbors(graph, rank, 2, got);
    CHECK_EQUAL(got[0], edges[2 * rank]);
    CHECK_EQUAL(got[1], edges[2 * rank + 1]);
    MPI_Graph_map(all, check_size, index, edges, &status);
    CHECK(status >= 0 && status < check_size);
    MPI_Comm_free(&graph);
}

static void mistakes(void)
{
    int dims[2] = {check_size + 1, 1}, periods[2] = {0, 0}, zero = 0, out, bad[2] = {check_size, 0};
    MPI_Comm cart;
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Cart_create(all, 2, dims, periods, 0, &cart), MPI_ERR_DIMS);
    dims[0] = -1;
    CHECK_CLASS(MPI_Cart_create(all, 2, dims, periods, 0, &cart), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cartdim_get(all, &out), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Graphdims_get(all, &out, &out), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Neighbor_allgather(&zero, 1, MPI_INT, &out, 1, MPI_INT, all), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(all, 1, bad, unweighted, 0, NULL, unweighted, MPI_INFO_NULL, 0, &cart),
                MPI_ERR_RANK);
    dims[0] = check_size;
    MPI_Cart_create(all, 2, dims, periods, 0, &cart);
    CHECK_CLASS(MPI_Cart_shift(cart, 2, 1, &out, &out), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_coords(cart, check_size, 2, dims), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Cart_rank(cart, bad, &out), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, &out, 1, MPI_INT, cart), MPI_ERR_BUFFER);
    MPI_Comm_free(&cart);
}

/* Returns the int that is sent along an edge. It encodes the sender, the number of the edge among the
 * sender's, and the position in the block. */
static int token(int rank, int edge, int at)
{
    return (rank * 1000 + edge) * 16 + at;
}

/* Compares neighbour collectives with plain messages. The sender itself reports which of its blocks arrives
 * as block l here, in the order of its edges. */
static void neighbours(MPI_Comm comm, int indegree, const int *sources, int outdegree, const int *destinations, int cart)
{
    enum { WIDTH = 3 };
    int rank, in = indegree ? indegree : 1, out = outdegree ? outdegree : 1;
    int *send = check_memory(sizeof(int) * WIDTH * out), *recv = check_memory(sizeof(int) * WIDTH * in);
    int *wanted = check_memory(sizeof(int) * in), *numbers = check_memory(sizeof(int) * out);
    int *ones = check_memory(sizeof(int) * (in + out)), *places = check_memory(sizeof(int) * (in + out));
    MPI_Aint *bytes = check_memory(sizeof(MPI_Aint) * (in + out));
    MPI_Datatype *types = check_memory(sizeof(MPI_Datatype) * (in + out));
    MPI_Request requests[2 * MOST * 4], request;
    MPI_Comm_rank(comm, &rank);
    /* The reference: every edge by a message of its own, a dimension and direction of a grid under its own
     * tag. */
    int count = 0;
    for (int l = 0; l < indegree; l++) {
        wanted[l] = -1;
        MPI_Irecv(&wanted[l], 1, MPI_INT, sources[l], cart ? l ^ 1 : 0, comm, &requests[count++]);
    }
    for (int k = 0; k < outdegree; k++) {
        numbers[k] = k;
        MPI_Isend(&numbers[k], 1, MPI_INT, destinations[k], cart ? k : 0, comm, &requests[count++]);
    }
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < in + out; i++) {
        ones[i] = WIDTH;
        places[i] = WIDTH * i;
        bytes[i] = (MPI_Aint)sizeof(int) * WIDTH * i;
        types[i] = MPI_INT;
    }
    for (int way = 0; way < 12; way++) {
        int gathers = way < 6;
        for (int i = 0; i < WIDTH * in; i++)
            recv[i] = -7;
        for (int k = 0; k < out; k++)
            for (int i = 0; i < WIDTH; i++)
                send[WIDTH * k + i] = gathers ? token(rank, 0, i) : token(rank, k, i);
        switch (way) {
        case 0: MPI_Neighbor_allgather(send, WIDTH, MPI_INT, recv, WIDTH, MPI_INT, comm); break;
        case 1: MPI_Neighbor_allgatherv(send, WIDTH, MPI_INT, recv, ones, places, MPI_INT, comm); break;
        case 2: MPI_Ineighbor_allgather(send, WIDTH, MPI_INT, recv, WIDTH, MPI_INT, comm, &request); break;
        case 3: MPI_Ineighbor_allgatherv(send, WIDTH, MPI_INT, recv, ones, places, MPI_INT, comm, &request); break;
        case 4: MPI_Neighbor_allgather_init(send, WIDTH, MPI_INT, recv, WIDTH, MPI_INT, comm, MPI_INFO_NULL, &request); break;
        case 5: MPI_Neighbor_allgatherv_init(send, WIDTH, MPI_INT, recv, ones, places, MPI_INT, comm, MPI_INFO_NULL, &request); break;
        case 6: MPI_Neighbor_alltoall(send, WIDTH, MPI_INT, recv, WIDTH, MPI_INT, comm); break;
        case 7: MPI_Neighbor_alltoallv(send, ones, places, MPI_INT, recv, ones, places, MPI_INT, comm); break;
        case 8: MPI_Neighbor_alltoallw(send, ones, bytes, types, recv, ones, bytes, types, comm); break;
        case 9: MPI_Ineighbor_alltoallw(send, ones, bytes, types, recv, ones, bytes, types, comm, &request); break;
        case 10: MPI_Neighbor_alltoall_init(send, WIDTH, MPI_INT, recv, WIDTH, MPI_INT, comm, MPI_INFO_NULL, &request); break;
        default: MPI_Neighbor_alltoallv_init(send, ones, places, MPI_INT, recv, ones, places, MPI_INT, comm, MPI_INFO_NULL, &request);
        }
        int persistent = way == 4 || way == 5 || way >= 10;
        if (persistent) {
            for (int again = 0; again < 3; again++) {
                MPI_Start(&request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            MPI_Request_free(&request);
        } else if (way == 2 || way == 3 || way == 9)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int l = 0; l < indegree; l++)
            for (int i = 0; i < WIDTH; i++) {
                int right = sources[l] == MPI_PROC_NULL ? -7 : token(sources[l], gathers ? 0 : wanted[l], i);
                if (recv[WIDTH * l + i] != right)
                    check_say(__FILE__, __LINE__, "way %d: block %d from %d has %d, not %d", way, l, sources[l], recv[WIDTH * l + i], right);
            }
    }
    free(send), free(recv), free(wanted), free(numbers), free(ones), free(places), free(bytes), free(types);
}

static void around_a_grid(int ndims, int periodic)
{
    int dims[4] = {0}, periods[4], around[8];
    MPI_Comm cart;
    for (int i = 0; i < ndims; i++)
        periods[i] = periodic >> i & 1;
    MPI_Dims_create(check_size, ndims, dims);
    MPI_Cart_create(all, ndims, dims, periods, 1, &cart);
    for (int i = 0; i < ndims; i++)
        MPI_Cart_shift(cart, i, 1, &around[2 * i], &around[2 * i + 1]);
    neighbours(cart, 2 * ndims, around, 2 * ndims, around, 1);
    MPI_Comm_free(&cart);
}

/* Tests a random graph that all ranks know. Each rank contributes some of the edges, whichever ranks they
 * connect. */
static void random_graph(unsigned seed, int reorder)
{
    int edges = (int)(seed % 5) * check_size, from[MOST * 5], to[MOST * 5], weight[MOST * 5], ones[MOST * 5] = {0}, told[3][MOST * 5] = {{0}};
    int n = 0, in, out, weighted, rank, sources[MOST * 5], destinations[MOST * 5], in_weights[MOST * 5], out_weights[MOST * 5];
    uint64_t state = seed * 77 + 1;
    MPI_Comm graph, same;
    for (int i = 0; i < edges; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        from[i] = (int)((state >> 33) % (unsigned)check_size);
        state = state * 6364136223846793005u + 1442695040888963407u;
        to[i] = (int)((state >> 33) % (unsigned)check_size);
        weight[i] = i + 1;
        if (i % check_size == check_rank) {
            ones[n] = 1;
            told[0][n] = from[i], told[1][n] = to[i], told[2][n++] = weight[i];
        }
    }
    MPI_Dist_graph_create(all, n, told[0], ones, told[1], told[2], MPI_INFO_NULL, reorder, &graph);
    MPI_Comm_rank(graph, &rank);
    MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
    CHECK(weighted);
    MPI_Dist_graph_neighbors(graph, in, sources, in_weights, out, destinations, out_weights);
    int seen_in = 0, seen_out = 0, sum = 0;
    for (int i = 0; i < edges; i++) {
        seen_in += to[i] == rank;
        seen_out += from[i] == rank;
        sum += (to[i] == rank ? weight[i] : 0) - (from[i] == rank ? weight[i] : 0);
    }
    CHECK_EQUAL(in, seen_in);
    CHECK_EQUAL(out, seen_out);
    for (int i = 0; i < in; i++)
        sum -= in_weights[i];
    for (int i = 0; i < out; i++)
        sum += out_weights[i];
    CHECK_EQUAL(sum, 0);
    neighbours(graph, in, sources, out, destinations, 0);
    MPI_Dist_graph_create_adjacent(graph, in, sources, unweighted, out, destinations, unweighted, MPI_INFO_NULL, 0, &same);
    MPI_Dist_graph_neighbors_count(same, &in, &out, &weighted);
    CHECK(!weighted);
    neighbours(same, in, sources, out, destinations, 0);
    MPI_Comm_free(&same);
    MPI_Comm_free(&graph);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    unweighted = MPI_UNWEIGHTED;
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    for (int ndims = 1; ndims <= 4; ndims++) {
        grid(ndims, 0);
        grid(ndims, 1);
    }
    small_grids();
    ring_graph(0);
    ring_graph(1);
    for (int ndims = 1; ndims <= 4; ndims++)
        for (int periodic = 0; periodic < 1 << ndims; periodic++)
            around_a_grid(ndims, periodic);
    for (unsigned seed = 0; seed < 10; seed++)
        random_graph(seed, (int)seed & 1);
    if (argc > 1)
        mistakes();
    MPI_Comm_free(&all);
    return check_end();
}
