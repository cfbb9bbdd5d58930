/* One-sided operations of tutti-bench.c: even ranks access the memory of the odd ones, which wait in a
 * collective meanwhile; in a ring every rank accesses the memory of the next one. */
#ifndef TUTTI_BENCH_ONE_SIDED_H
#define TUTTI_BENCH_ONE_SIDED_H

#include "operations.h"

static int is_one_sided(enum kind kind)
{
    return kind >= PUT && kind <= FETCH_AND_OP;
}

/* Room for the data of a cell, or for the number of fetch_and_op. */
static void expose(struct cell *c, size_t bytes)
{
    MPI_Win_allocate((MPI_Aint)(bytes < sizeof(long) ? sizeof(long) : bytes), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &c->exposed, &c->win);
    memset(c->exposed, 0, bytes);
    if (c->kind == PUT_RING || (c->rank % 2 && c->kind == PUT))
        c->in = c->exposed;
    if (c->rank % 2 && c->kind == GET)
        c->out = c->exposed;
    MPI_Win_lock_all(0, c->win);
}

/* The data in the window are there for others to see. */
static void exposed(struct cell *c)
{
    MPI_Win_sync(c->win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void withdraw(struct cell *c)
{
    MPI_Win_unlock_all(c->win);
    MPI_Win_free(&c->win);
}

/* One operation and its flush. */
static void one_sided(struct cell *c)
{
    const MPI_Datatype t = MPI_FLOAT;
    long one = 1, old;
    int n = c->count, to = c->kind == PUT_RING ? neighbour(c, 1) : c->partner;
    if (to == MPI_PROC_NULL || (c->rank % 2 && c->kind != PUT_RING))
        return;
    switch (c->kind) {
    case PUT: case PUT_RING: MPI_Put(c->out, n, t, to, 0, n, t, c->win); break;
    case GET: MPI_Get(c->in, n, t, to, 0, n, t, c->win); break;
    case ACCUMULATE: MPI_Accumulate(c->out, n, t, to, 0, n, t, MPI_SUM, c->win); break;
    default: MPI_Fetch_and_op(&one, &old, MPI_LONG, to, 0, MPI_SUM, c->win); break;
    }
    MPI_Win_flush(to, c->win);
}

#endif
