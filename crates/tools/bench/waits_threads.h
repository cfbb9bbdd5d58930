/* Programs of waits.c with two threads a rank, which hand a flag to each other. Who waits for it polls MPI, as a one-sided run-time does
 * that has to make progress while a program waits in shared memory. */
#ifndef TUTTI_BENCH_WAITS_THREADS_H
#define TUTTI_BENCH_WAITS_THREADS_H

#include "waits.h"
#include <pthread.h>

struct waiter {
    pthread_t id;
    const struct cell *cell;
    int turn;      /* it goes on when the flag has this value, and hands over 1 - turn */
    int by_window; /* the flag is read by an operation on the own window */
};

static MPI_Win flag_win;
static int *flag;

static int read_flag(const struct waiter *w)
{
    int value;
    if (!w->by_window)
        return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
    MPI_Fetch_and_op(NULL, &value, MPI_INT, w->cell->rank, 0, MPI_NO_OP, flag_win);
    MPI_Win_flush_local(w->cell->rank, flag_win);
    return value;
}

static void *hand_over(void *argument)
{
    struct waiter *w = argument;
    int there;
    for (long i = 0; i < w->cell->iterations; i++) {
        while (read_flag(w) != w->turn)
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
        __atomic_store_n(flag, 1 - w->turn, __ATOMIC_RELEASE);
    }
    return NULL;
}

static int open_flag(struct cell *c)
{
    (void)c;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &flag, &flag_win);
    *flag = 0;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, flag_win);
    MPI_Barrier(MPI_COMM_WORLD);
    return 1;
}

static void close_flag(struct cell *c)
{
    (void)c;
    MPI_Win_unlock_all(flag_win);
    MPI_Win_free(&flag_win);
}

static double threads(const struct cell *c, int by_window)
{
    struct waiter waiters[2];
    double start = MPI_Wtime();
    for (int i = 0; i < 2; i++) {
        waiters[i].cell = c, waiters[i].turn = i, waiters[i].by_window = by_window;
        pthread_create(&waiters[i].id, NULL, hand_over, &waiters[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(waiters[i].id, NULL);
    return MPI_Wtime() - start;
}

static double threads_iprobe(struct cell *c) { return threads(c, 0); }
static double threads_fetch(struct cell *c) { return threads(c, 1); }

#endif
