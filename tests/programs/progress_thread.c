/* A target that does not call MPI. The data that others put and accumulate must arrive, with
 * TUTTI_PROGRESS_THREAD=1. */
#include "check.h"
#include <sched.h>

enum { LONGS = 1 << 16 };

/* Accesses the memory of the last rank from the first one. Meanwhile the last rank only reads its own
 * memory. */
static void targets(volatile long *memory, MPI_Win win, int last)
{
    long seen = 0, one = 1, items[100];
    for (int i = 0; i < 100; i++)
        items[i] = i;
    if (check_rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, last, 0, win);
        MPI_Put(items, 100, MPI_LONG, last, 10, 100, MPI_LONG, win);
        MPI_Accumulate(items, 100, MPI_LONG, last, 10, 100, MPI_LONG, MPI_SUM, win);
        MPI_Win_flush(last, win);
        MPI_Get(&seen, 1, MPI_LONG, last, 10 + 99, 1, MPI_LONG, win);
        MPI_Win_flush(last, win);
        CHECK_EQUAL(seen, 2L * 99);
        MPI_Fetch_and_op(&one, &seen, MPI_LONG, last, 0, MPI_SUM, win);
        MPI_Win_unlock(last, win);
        CHECK_EQUAL(seen, 0L);
    } else if (check_rank == last) {
        while (memory[0] == 0)
            sched_yield();
        CHECK_EQUAL(memory[10 + 99], 2L * 99);
    }
}

/* Tests that a long message arrives at a rank that has posted its receive and computes. */
static void receives(volatile long *memory, int last)
{
    MPI_Request request;
    if (check_rank == 0) {
        long *from = malloc(LONGS * sizeof *from);
        for (int i = 0; i < LONGS; i++)
            from[i] = i + 1;
        MPI_Recv(NULL, 0, MPI_LONG, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(from, LONGS, MPI_LONG, last, 2, MPI_COMM_WORLD);
        free(from);
    } else if (check_rank == last) {
        memory[LONGS - 1] = 0;
        MPI_Irecv((void *)memory, LONGS, MPI_LONG, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_LONG, 0, 1, MPI_COMM_WORLD);
        while (memory[LONGS - 1] == 0)
            sched_yield();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQUAL(memory[7], 8L);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int last = check_size - 1, level;
    long *memory = calloc(LONGS, sizeof *memory);
    MPI_Win win;
    MPI_Query_thread(&level);
    CHECK_EQUAL(level, MPI_THREAD_SINGLE);
    MPI_Win_create(memory, LONGS * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int round = 0; round < 20 && last > 0; round++) {
        memset(memory, 0, LONGS * sizeof *memory);
        MPI_Barrier(MPI_COMM_WORLD);
        targets(memory, win, last);
        MPI_Barrier(MPI_COMM_WORLD);
        receives(memory, last);
    }
    MPI_Win_free(&win);
    free(memory);
    return check_end();
}
