/* The operation `rate` of tutti-bench.c. THREADS threads of each rank send windows of messages to those of the
 * partner at the same time, each on a communicator of its own (MPI_THREAD_MULTIPLE). */
#ifndef TUTTI_BENCH_THREADS_H
#define TUTTI_BENCH_THREADS_H

#include "operations.h"
#include <pthread.h>

#define THREADS 8

struct thread {
    pthread_t id;
    struct cell *cell;
    MPI_Comm comm;
    long iterations;
    int number;
};

static struct thread crew[THREADS];

/* Measures windows of messages like `windows` of tutti-bench.c, with buffers for each thread. */
static void *thread_windows(void *argument)
{
    struct thread *t = argument;
    struct cell *c = t->cell;
    MPI_Request requests[64];
    float acknowledged = 0, *in = malloc(c->bytes), *out = malloc(c->bytes);
    if (!in || !out)
        MPI_Abort(MPI_COMM_WORLD, 2);
    memset(out, 0, c->bytes);
    out[0] = value(c->seed, c->rank, (size_t)t->number, 0);
    for (long i = 0; i < t->iterations; i++) {
        for (int w = 0; w < c->window; w++)
            if (c->rank % 2)
                MPI_Irecv(in, c->count, MPI_FLOAT, c->partner, 2, t->comm, &requests[w]);
            else
                MPI_Isend(out, c->count, MPI_FLOAT, c->partner, 2, t->comm, &requests[w]);
        MPI_Waitall(c->window, requests, MPI_STATUSES_IGNORE);
        if (c->rank % 2)
            MPI_Send(&acknowledged, 1, MPI_FLOAT, c->partner, 3, t->comm);
        else
            MPI_Recv(&acknowledged, 1, MPI_FLOAT, c->partner, 3, t->comm, MPI_STATUS_IGNORE);
    }
    if (c->rank % 2 && in[0] != value(c->seed, c->partner, (size_t)t->number, 0))
        __atomic_add_fetch(&c->wrong, 1, __ATOMIC_RELAXED);
    free(in);
    free(out);
    return NULL;
}

static void thread_turn(struct cell *c, long iterations)
{
    if (c->partner == MPI_PROC_NULL)
        return;
    for (int i = 0; i < THREADS; i++) {
        crew[i].cell = c, crew[i].iterations = iterations, crew[i].number = i;
        pthread_create(&crew[i].id, NULL, thread_windows, &crew[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(crew[i].id, NULL);
}

#ifdef WITH_THREADS
static void open_threads(void)
{
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &crew[i].comm);
}

static void close_threads(void)
{
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&crew[i].comm);
}
#endif

#endif
