/* Small collectives of waits.c, and those of ranks that compute in between. */
#ifndef TUTTI_BENCH_WAITS_COLLECTIVES_H
#define TUTTI_BENCH_WAITS_COLLECTIVES_H

#include "waits.h"

#define PAIR_BYTES 4096
#define BCAST_BYTES 65536
#define COMPUTE_S 1e-4
#define RING_TAG 31

static char *given, *gotten;

static int open_buffers(struct cell *c)
{
    size_t bytes = (size_t)c->ranks * PAIR_BYTES;
    bytes = bytes < BCAST_BYTES ? BCAST_BYTES : bytes;
    given = calloc(bytes, 1), gotten = calloc(bytes, 1);
    return 1;
}

static void close_buffers(struct cell *c)
{
    (void)c;
    free(given), free(gotten);
}

/* `iterations` of what stands in the last argument; i counts them. */
#define TIMED(c, operation)                                                                                            \
    do {                                                                                                               \
        double start = MPI_Wtime();                                                                                    \
        for (long i = 0; i < (c)->iterations; i++)                                                                     \
            operation;                                                                                                 \
        return MPI_Wtime() - start;                                                                                    \
    } while (0)

static double barrier(struct cell *c) { TIMED(c, MPI_Barrier(MPI_COMM_WORLD)); }

static double allgather(struct cell *c)
{
    TIMED(c, MPI_Allgather(given, 1, MPI_DOUBLE, gotten, 1, MPI_DOUBLE, MPI_COMM_WORLD));
}

static double allreduce(struct cell *c)
{
    TIMED(c, MPI_Allreduce(given, gotten, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
}

static double alltoall(struct cell *c)
{
    TIMED(c, MPI_Alltoall(given, PAIR_BYTES, MPI_CHAR, gotten, PAIR_BYTES, MPI_CHAR, MPI_COMM_WORLD));
}

static double alltoall_empty(struct cell *c)
{
    TIMED(c, MPI_Alltoall(given, 0, MPI_CHAR, gotten, 0, MPI_CHAR, MPI_COMM_WORLD));
}

static double bcast_roots(struct cell *c)
{
    TIMED(c, MPI_Bcast(given, BCAST_BYTES, MPI_CHAR, (int)(i % c->ranks), MPI_COMM_WORLD));
}

/* With the time of the computing in between. */
static double compute_allreduce(struct cell *c)
{
    TIMED(c, (compute(COMPUTE_S), MPI_Allreduce(given, gotten, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)));
}

static double compute_ring(struct cell *c)
{
    int to = (c->rank + 1) % c->ranks, from = (c->rank + c->ranks - 1) % c->ranks;
    TIMED(c, (compute(COMPUTE_S), MPI_Sendrecv(given, 1, MPI_DOUBLE, to, RING_TAG, gotten, 1, MPI_DOUBLE, from, RING_TAG,
                                               MPI_COMM_WORLD, MPI_STATUS_IGNORE)));
}

#endif
