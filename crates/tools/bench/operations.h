/* Operations of tutti-bench.c: the data that each moves, its calls in all forms, and the correct results. */
#ifndef TUTTI_BENCH_OPERATIONS_H
#define TUTTI_BENCH_OPERATIONS_H

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    LATENCY, PINGPONG, BANDWIDTH, BIBANDWIDTH,
    /* To the next rank from the previous one, all at once. */
    RING,
    /* In threads, see threads.h. */
    RATE,
    /* References without MPI, see reference.h. */
    LINE, COPY_BCAST, COPY_ALLGATHER,
    /* One-sided, see one_sided.h. */
    PUT, PUT_RING, GET, ACCUMULATE, FETCH_AND_OP,
    /* Collectives. */
    BARRIER, BCAST, REDUCE, ALLREDUCE, SCAN, EXSCAN, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV,
    ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, BCAST_ROTATING, KINDS
};
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static const char *const NAMES[KINDS] = {
    "latency", "pingpong", "bandwidth", "bibandwidth", "ring", "rate", "line", "copy_bcast", "copy_allgather", "put", "put_ring", "get", "accumulate",
    "fetch_and_op", "barrier", "bcast", "reduce", "allreduce", "scan", "exscan", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv",
    "alltoall", "alltoallv", "alltoallw", "reduce_scatter_block", "reduce_scatter", "bcast_rotating"};

/* The blocks of floats that a rank gives or gets. */
struct layout {
    int blocks;
    int *counts, *places; /* of each block, in floats */
    int *bytes;           /* the places in bytes */
    MPI_Datatype *types;
    size_t floats; /* from the beginning to the end of the last */
};

struct cell {
    const char *name;
    struct cell *next; /* an operation that follows in each iteration */
    enum kind kind;
    enum form form;
    int rank, ranks, partner; /* partner is MPI_PROC_NULL for the odd one out */
    int root, source;         /* of the next broadcast; the rank whose data a broadcast delivers */
    int window;
    size_t bytes;
    int count; /* floats in one message, vector or (mean) block */
    float *out, *in;
    struct layout given, gotten;
    MPI_Request persistent;
    MPI_Win win;
    float *exposed; /* its memory here */
    double touching_s;
    unsigned seed;
    long wrong;
    double sink;
};

/* Small whole numbers: their sums are exact in single precision. */
static float value(unsigned seed, int rank, size_t block, size_t i)
{
    return (float)((seed * 7 + (unsigned)rank * 3 + (unsigned)block * 5 + (unsigned)i) & 1023);
}

/* Returns true if the blocks of an operation differ in length. */
static int irregular(enum kind kind)
{
    return kind == GATHERV || kind == SCATTERV || kind == ALLGATHERV || kind == ALLTOALLV || kind == ALLTOALLW ||
           kind == REDUCE_SCATTER;
}

/* Floats that go from one rank to another: a quarter more or less than `count` where blocks are irregular. */
static int part(const struct cell *c, int from, int to)
{
    int quarter = irregular(c->kind) ? c->count / 4 : 0;
    return (from + to) % 2 ? c->count - quarter : c->count + quarter;
}

static int given_blocks(const struct cell *c)
{
    int root = c->rank == 0, paired = c->partner != MPI_PROC_NULL;
    switch (c->kind) {
    case LATENCY: case PINGPONG: case BIBANDWIDTH: return paired;
    case BANDWIDTH: case PUT: case ACCUMULATE: case FETCH_AND_OP: return paired && c->rank % 2 == 0;
    case GET: return paired && c->rank % 2 == 1;
    case BARRIER: case LINE: case RATE: return 0;
    case BCAST: case COPY_BCAST: return root;
    case SCATTER: case SCATTERV: return root * c->ranks;
    case ALLTOALL: case ALLTOALLV: case ALLTOALLW: case REDUCE_SCATTER_BLOCK: case REDUCE_SCATTER: return c->ranks;
    default: return 1;
    }
}

static int gotten_blocks(const struct cell *c)
{
    int root = c->rank == 0, paired = c->partner != MPI_PROC_NULL;
    switch (c->kind) {
    case LATENCY: case PINGPONG: case BIBANDWIDTH: return paired;
    case BANDWIDTH: case PUT: return paired && c->rank % 2 == 1;
    case GET: return paired && c->rank % 2 == 0;
    case BARRIER: case LINE: case RATE: case ACCUMULATE: case FETCH_AND_OP: return 0;
    case BCAST: case COPY_BCAST: case EXSCAN: return !root;
    case REDUCE: return root;
    case GATHER: case GATHERV: return root * c->ranks;
    case ALLGATHER: case ALLGATHERV: case COPY_ALLGATHER: case ALLTOALL: case ALLTOALLV: case ALLTOALLW:
        return c->ranks;
    default: return 1;
    }
}

static int block_count(const struct cell *c, int gotten, int block)
{
    switch (c->kind) {
    case GATHERV: case ALLGATHERV: return part(c, gotten ? block : c->rank, 0);
    case SCATTERV: case REDUCE_SCATTER: return part(c, 0, gotten ? c->rank : block);
    case ALLTOALLV: case ALLTOALLW: return gotten ? part(c, block, c->rank) : part(c, c->rank, block);
    default: return c->count;
    }
}

static void lay_out(const struct cell *c, int gotten, struct layout *l)
{
    int gap = irregular(c->kind) && c->kind != REDUCE_SCATTER, at = 0;
    l->blocks = gotten ? gotten_blocks(c) : given_blocks(c);
    size_t entries = (size_t)l->blocks + 1;
    l->counts = malloc(3 * entries * sizeof(int));
    l->types = malloc(entries * sizeof *l->types);
    if (!l->counts || !l->types)
        MPI_Abort(MPI_COMM_WORLD, 2);
    l->places = l->counts + entries, l->bytes = l->places + entries;
    for (int block = 0; block < l->blocks; block++) {
        l->counts[block] = block_count(c, gotten, block);
        l->places[block] = gap ? block * (c->count + c->count / 4) : at;
        l->bytes[block] = l->places[block] * (int)sizeof(float);
        l->types[block] = MPI_FLOAT;
        at = l->places[block] + l->counts[block];
    }
    l->floats = (size_t)at;
}

static void release(struct layout *l)
{
    free(l->counts);
    free(l->types);
}

/* Returns true if an operation has one buffer, at the root and at all other ranks. */
static int is_bcast(const struct cell *c)
{
    return c->kind == BCAST || c->kind == BCAST_ROTATING;
}

/* The neighbour `distance` ranks further around the ring. */
static int neighbour(const struct cell *c, int distance)
{
    return (c->rank + distance + c->ranks) % c->ranks;
}

static void write_data(struct cell *c)
{
    for (int block = 0; block < c->given.blocks; block++) {
        float *to = c->out + c->given.places[block];
        unsigned start = c->seed * 7 + (unsigned)c->rank * 3 + (unsigned)block * 5;
        for (size_t i = 0; i < (size_t)c->given.counts[block]; i++)
            to[i] = (float)(int)((start + (unsigned)i) & 1023);
    }
}

static void read_data(struct cell *c)
{
    const float *from = is_bcast(c) ? c->out : c->in;
    float sums[8] = {0};
    for (size_t i = 0; i + 8 <= c->gotten.floats; i += 8)
        for (size_t lane = 0; lane < 8; lane++)
            sums[lane] += from[i + lane];
    for (size_t lane = 0; lane < 8; lane++)
        c->sink += sums[lane];
}

/* Returns the correct value of float i of block `block` at this rank after the operation. */
static float expected(const struct cell *c, size_t block, size_t i)
{
    float sum = 0;
    int last = c->kind == SCAN ? c->rank + 1 : c->kind == EXSCAN ? c->rank : c->ranks;
    switch (c->kind) {
    case LATENCY: case PINGPONG: case BANDWIDTH: case BIBANDWIDTH: case PUT: case GET:
        return value(c->seed, c->partner, 0, i);
    case RING: case PUT_RING: return value(c->seed, neighbour(c, -1), 0, i);
    case BCAST: case BCAST_ROTATING: case COPY_BCAST: return value(c->seed, c->source, 0, i);
    case ALLGATHER: case ALLGATHERV: case COPY_ALLGATHER: case GATHER: case GATHERV:
        return value(c->seed, (int)block, 0, i);
    case ALLTOALL: case ALLTOALLV: case ALLTOALLW: return value(c->seed, (int)block, (size_t)c->rank, i);
    case SCATTER: case SCATTERV: return value(c->seed, 0, (size_t)c->rank, i);
    default: break;
    }
    for (int rank = 0; rank < last; rank++)
        sum += value(c->seed, rank, c->kind == REDUCE_SCATTER || c->kind == REDUCE_SCATTER_BLOCK ? (size_t)c->rank : 0, i);
    return sum;
}

/* Compares floats of each block: first, last, and those between in `steps` steps. */
static void check_data(struct cell *c, size_t steps)
{
    const float *from = is_bcast(c) ? c->out : c->in;
    for (int block = 0; block < c->gotten.blocks; block++) {
        size_t last = (size_t)c->gotten.counts[block] - 1, n = last < steps ? last : steps;
        for (size_t at = 0; at <= n; at++) {
            size_t i = n ? last * at / n : 0;
            c->wrong += from[(size_t)c->gotten.places[block] + i] != expected(c, (size_t)block, i);
        }
    }
}

/* One call in the form of the cell: it blocks, gives a request, or gives a persistent request. */
#define CALL(Blocking, Immediate, ...)                                                                                 \
    (c->form == BLOCKING      ? MPI_##Blocking(__VA_ARGS__)                                                            \
     : c->form == NONBLOCKING ? MPI_##Immediate(__VA_ARGS__, r)                                                        \
                              : MPI_##Blocking##_init(__VA_ARGS__, MPI_INFO_NULL, r))

static inline void collective(struct cell *c, MPI_Request *r)
{
    const MPI_Comm w = MPI_COMM_WORLD;
    const MPI_Datatype t = MPI_FLOAT;
    const struct layout *o = &c->given, *i = &c->gotten;
    int n = c->count;
    switch (c->kind) {
    case BARRIER: CALL(Barrier, Ibarrier, w); break;
    case BCAST: case BCAST_ROTATING: CALL(Bcast, Ibcast, c->out, n, t, c->root, w); break;
    case REDUCE: CALL(Reduce, Ireduce, c->out, c->in, n, t, MPI_SUM, 0, w); break;
    case ALLREDUCE: CALL(Allreduce, Iallreduce, c->out, c->in, n, t, MPI_SUM, w); break;
    case SCAN: CALL(Scan, Iscan, c->out, c->in, n, t, MPI_SUM, w); break;
    case EXSCAN: CALL(Exscan, Iexscan, c->out, c->in, n, t, MPI_SUM, w); break;
    case GATHER: CALL(Gather, Igather, c->out, n, t, c->in, n, t, 0, w); break;
    case GATHERV: CALL(Gatherv, Igatherv, c->out, o->counts[0], t, c->in, i->counts, i->places, t, 0, w); break;
    case SCATTER: CALL(Scatter, Iscatter, c->out, n, t, c->in, n, t, 0, w); break;
    case SCATTERV: CALL(Scatterv, Iscatterv, c->out, o->counts, o->places, t, c->in, i->counts[0], t, 0, w); break;
    case ALLGATHER: CALL(Allgather, Iallgather, c->out, n, t, c->in, n, t, w); break;
    case ALLGATHERV: CALL(Allgatherv, Iallgatherv, c->out, o->counts[0], t, c->in, i->counts, i->places, t, w); break;
    case ALLTOALL: CALL(Alltoall, Ialltoall, c->out, n, t, c->in, n, t, w); break;
    case ALLTOALLV:
        CALL(Alltoallv, Ialltoallv, c->out, o->counts, o->places, t, c->in, i->counts, i->places, t, w);
        break;
    case ALLTOALLW:
        CALL(Alltoallw, Ialltoallw, c->out, o->counts, o->bytes, o->types, c->in, i->counts, i->bytes, i->types, w);
        break;
    case REDUCE_SCATTER_BLOCK:
        CALL(Reduce_scatter_block, Ireduce_scatter_block, c->out, c->in, n, t, MPI_SUM, w);
        break;
    case REDUCE_SCATTER: CALL(Reduce_scatter, Ireduce_scatter, c->out, c->in, o->counts, t, MPI_SUM, w); break;
    default: break;
    }
}

#endif
