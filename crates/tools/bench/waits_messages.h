/* Programs of waits.c that wait for messages: a token in a ring, calls without a message, and a long wait. */
#ifndef TUTTI_BENCH_WAITS_MESSAGES_H
#define TUTTI_BENCH_WAITS_MESSAGES_H

#include "waits.h"
#include <sys/resource.h>
#include <time.h>

#define TOKEN_TAG 11
#define LONG_WAIT_TAG 12
#define NEVER_SENT_TAG 13
#define CALLS_A_LOOK 16 /* calls between two looks at the clock */

static void await_by_iprobe(int *token, int from)
{
    int there = 0;
    while (!there)
        MPI_Iprobe(from, TOKEN_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Recv(token, 1, MPI_INT, from, TOKEN_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void await_by_improbe(int *token, int from)
{
    MPI_Message message;
    int there = 0;
    while (!there)
        MPI_Improbe(from, TOKEN_TAG, MPI_COMM_WORLD, &there, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(token, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
}

static void await_by_test(int *token, int from)
{
    MPI_Request request;
    int done = 0;
    MPI_Irecv(token, 1, MPI_INT, from, TOKEN_TAG, MPI_COMM_WORLD, &request);
    while (!done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

static void await_by_testany(int *token, int from)
{
    MPI_Request request;
    int done = 0, which;
    MPI_Irecv(token, 1, MPI_INT, from, TOKEN_TAG, MPI_COMM_WORLD, &request);
    while (!done)
        MPI_Testany(1, &request, &which, &done, MPI_STATUS_IGNORE);
}

static void await_by_recv(int *token, int from)
{
    MPI_Recv(token, 1, MPI_INT, from, TOKEN_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Sends a token around the ring of all ranks. Rank 0 begins each round and returns the time of all rounds. */
static double ring(const struct cell *c, void (*await)(int *, int))
{
    int token = 0, from = (c->rank + c->ranks - 1) % c->ranks, to = (c->rank + 1) % c->ranks;
    double start = MPI_Wtime();
    for (long i = 0; i < c->iterations; i++) {
        if (c->rank == 0)
            MPI_Send(&token, 1, MPI_INT, to, TOKEN_TAG, MPI_COMM_WORLD);
        await(&token, from);
        if (c->rank != 0)
            MPI_Send(&token, 1, MPI_INT, to, TOKEN_TAG, MPI_COMM_WORLD);
    }
    return c->rank == 0 ? MPI_Wtime() - start : 0;
}

static double ring_iprobe(struct cell *c) { return ring(c, await_by_iprobe); }
static double ring_improbe(struct cell *c) { return ring(c, await_by_improbe); }
static double ring_test(struct cell *c) { return ring(c, await_by_test); }
static double ring_testany(struct cell *c) { return ring(c, await_by_testany); }
static double ring_recv(struct cell *c) { return ring(c, await_by_recv); }

/* Rank 0 looks for what nobody sends, while the others wait for it in a barrier. */
static double nothing_iprobe(struct cell *c)
{
    double start = MPI_Wtime(), spent = 0;
    int there;
    c->iterations = 0;
    while (c->rank == 0 && (spent = MPI_Wtime() - start) < c->seconds)
        for (int i = 0; i < CALLS_A_LOOK; i++, c->iterations++)
            MPI_Iprobe(MPI_ANY_SOURCE, NEVER_SENT_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

/* The same with the test of a receive. */
static double nothing_test(struct cell *c)
{
    MPI_Request request;
    int token, done;
    double start = MPI_Wtime(), spent = 0;
    c->iterations = 0;
    MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, NEVER_SENT_TAG, MPI_COMM_WORLD, &request);
    while (c->rank == 0 && (spent = MPI_Wtime() - start) < c->seconds)
        for (int i = 0; i < CALLS_A_LOOK; i++, c->iterations++)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    return spent;
}

static double processor_s(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Even ranks wait for odd ones, which sleep for n seconds outside MPI. The result is the processor time of all
 * ranks per second. */
static double long_wait(struct cell *c)
{
    struct timespec pause = {c->n, 0};
    int token = 0, other = partner(c);
    double all, own = processor_s();
    if (c->rank % 2) {
        nanosleep(&pause, NULL);
        MPI_Send(&token, 1, MPI_INT, other, LONG_WAIT_TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&token, 1, MPI_INT, other, LONG_WAIT_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    own = processor_s() - own;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    c->iterations = c->n;
    return all;
}

#endif
