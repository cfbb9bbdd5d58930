/* A program for tools that watch programs: two threads that exchange messages of all sizes and reduce, a
 * window, a type. With an argument the program has that fault: race, leak, overflow, uninitialised. */
#include "check.h"
#include <limits.h>
#include <pthread.h>
#include <string.h>

static int shared;

static void *talk(void *where)
{
    MPI_Comm comm = *(MPI_Comm *)where;
    int rank, size, sum = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int count = 1; count <= 1 << 18; count *= 16) {
        int *out = calloc(count, sizeof(int)), *in = calloc(count, sizeof(int));
        MPI_Request requests[2];
        MPI_Irecv(in, count, MPI_INT, (rank + size - 1) % size, 0, comm, &requests[0]);
        MPI_Isend(out, count, MPI_INT, (rank + 1) % size, 0, comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm);
        MPI_Bcast(in, count, MPI_INT, 0, comm);
        free(out);
        free(in);
    }
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size * (size - 1) / 2);
    return 0;
}

static void *race(void *unused)
{
    for (int i = 0; i < 1000; i++)
        shared++;
    return unused;
}

static void fail(const char *kind)
{
    if (!strcmp(kind, "race")) {
        pthread_t thread;
        pthread_create(&thread, 0, race, 0);
        race(0);
        pthread_join(thread, 0);
    } else if (!strcmp(kind, "leak")) {
        /* Several: the last may still be in a register when the tool looks. */
        for (int i = 0; i < 10; i++) {
            char *volatile lost = malloc(77);
            memset(lost, 1, 77);
            lost = 0;
        }
    } else if (!strcmp(kind, "overflow")) {
        volatile int most = INT_MAX;
        most = most + 1;
    } else if (!strcmp(kind, "uninitialised")) {
        volatile int *word = malloc(sizeof(int));
        if (*word == 7)
            puts("seven");
        free((void *)word);
    }
}

int main(int argc, char **argv)
{
    int provided, rank, *base;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm comms[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        pthread_create(&threads[i], 0, talk, &comms[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], 0);
        MPI_Comm_free(&comms[i]);
    }
    MPI_Win win;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, 64);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, 0, rank, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(rank || base[1] == 1);
    MPI_Win_free(&win);
    MPI_Datatype type;
    MPI_Type_vector(3, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&type);
    if (argc > 1)
        fail(argv[1]);
    MPI_Finalize();
    if (!rank)
        puts("done");
    return 0;
}
