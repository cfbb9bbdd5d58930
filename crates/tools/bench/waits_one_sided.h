/* One-sided programs of waits.c: puts with a flush each, and post, start, complete, wait. */
#ifndef TUTTI_BENCH_WAITS_ONE_SIDED_H
#define TUTTI_BENCH_WAITS_ONE_SIDED_H

#include "waits.h"

#define NUMBERS 4096 /* of each rank's window */

static MPI_Win numbers_win;
static MPI_Group partner_group;

static int open_locked(struct cell *c)
{
    double *numbers;
    (void)c;
    MPI_Win_allocate(NUMBERS * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &numbers, &numbers_win);
    MPI_Win_lock_all(0, numbers_win);
    MPI_Barrier(MPI_COMM_WORLD);
    return 1;
}

static void close_locked(struct cell *c)
{
    (void)c;
    MPI_Win_unlock_all(numbers_win);
    MPI_Win_free(&numbers_win);
}

/* Rank 0 puts and flushes, to one rank after the other, for the time of the cell. */
static double put_and_flush(struct cell *c)
{
    double start = MPI_Wtime(), spent, x = 1;
    for (c->iterations = 0; (spent = MPI_Wtime() - start) < c->seconds; c->iterations++) {
        int to = 1 + (int)(c->iterations % (c->ranks - 1));
        MPI_Put(&x, 1, MPI_DOUBLE, to, c->iterations % NUMBERS, 1, MPI_DOUBLE, numbers_win);
        MPI_Win_flush(to, numbers_win);
    }
    return spent;
}

/* The others wait in a barrier meanwhile. */
static double put_barrier(struct cell *c)
{
    double spent = c->rank == 0 ? put_and_flush(c) : 0;
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

/* The others compute meanwhile. */
static double put_compute(struct cell *c)
{
    double spent = 0;
    if (c->rank == 0)
        spent = put_and_flush(c);
    else
        compute(c->seconds);
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

/* Flushes that have nothing to wait for; the others wait in a barrier. */
static double nothing_flush(struct cell *c)
{
    double start = MPI_Wtime(), spent = 0;
    for (c->iterations = 0; c->rank == 0 && (spent = MPI_Wtime() - start) < c->seconds; c->iterations++)
        MPI_Win_flush((int)(c->iterations % c->ranks), numbers_win);
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

static void find_partner_group(const struct cell *c)
{
    MPI_Group all;
    int other = partner(c);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, other != MPI_PROC_NULL, &other, &partner_group);
    MPI_Group_free(&all);
}

static int open_created(struct cell *c)
{
    static double numbers[NUMBERS];
    find_partner_group(c);
    MPI_Win_create(numbers, sizeof numbers, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &numbers_win);
    return 1;
}

static int open_allocated(struct cell *c)
{
    double *numbers;
    find_partner_group(c);
    MPI_Win_allocate(NUMBERS * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &numbers, &numbers_win);
    return 1;
}

static void close_epochs(struct cell *c)
{
    (void)c;
    MPI_Group_free(&partner_group);
    MPI_Win_free(&numbers_win);
}

/* Even ranks access, odd ones expose; one way hand-overs. */
static double epochs(const struct cell *c, int with_data)
{
    int other = partner(c);
    double start = MPI_Wtime(), x = 1;
    for (long i = 0; other != MPI_PROC_NULL && i < c->iterations; i++) {
        if (c->rank % 2) {
            MPI_Win_post(partner_group, MPI_MODE_NOSTORE, numbers_win);
            MPI_Win_wait(numbers_win);
            continue;
        }
        MPI_Win_start(partner_group, 0, numbers_win);
        if (with_data)
            MPI_Put(&x, 1, MPI_DOUBLE, other, i % NUMBERS, 1, MPI_DOUBLE, numbers_win);
        MPI_Win_complete(numbers_win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - start;
}

static double pscw_put(struct cell *c) { return epochs(c, 1); }
static double pscw_empty(struct cell *c) { return epochs(c, 0); }

#endif
