/* Common declarations of the programs of waits.c: a cell, and the entry of a program in the table. */
#ifndef TUTTI_BENCH_WAITS_H
#define TUTTI_BENCH_WAITS_H

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

struct cell {
    int rank, ranks;
    int n;           /* what the program counts: objects, seconds */
    double seconds;  /* the time it is to take */
    long iterations; /* to be done in one turn; a program that goes by the clock says here how many it has done */
};

/* A program measures itself: `turn` returns the seconds of `iterations` as this rank has seen them, 0 where they mean nothing;
 * the slowest rank counts. */
struct program {
    const char *name;
    int (*open)(struct cell *); /* before the first turn; 0: this library cannot */
    double (*turn)(struct cell *);
    void (*close)(struct cell *);
    int parts;    /* hand-overs in an iteration, or PER_RANK */
    int by_clock; /* one turn, of cell.seconds */
};
#define PER_RANK (-1)

/* The other rank of a pair: 2i and 2i + 1. MPI_PROC_NULL for the odd one out. */
static int partner(const struct cell *c)
{
    return (c->rank ^ 1) < c->ranks ? c->rank ^ 1 : MPI_PROC_NULL;
}

/* Computes, without a call of MPI that could make progress. */
static void compute(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

#endif
