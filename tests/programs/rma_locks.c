/* Locks, counters and queues by one-sided communication, with all ranks at once. */
#include "check.h"

enum { ROUNDS = 200 };

/* Tests a counter that is read and written under an exclusive lock. No increment may be lost. */
static void exclusive(MPI_Win win)
{
    long now;
    for (int round = 0; round < ROUNDS; round++) {
        int target = round % check_size;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Get(&now, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
        MPI_Win_flush(target, win);
        now++;
        MPI_Put(&now, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int target = 0; target < check_size; target++) {
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        MPI_Get(&now, 1, MPI_LONG, target, 0, 1, MPI_LONG, win);
        MPI_Win_unlock(target, win);
        CHECK_EQUAL(now, (long)check_size * (ROUNDS / check_size + (target < ROUNDS % check_size)));
    }
}

/* Checks that each number is fetched by one rank, once. */
static void tickets(MPI_Win win)
{
    const long all = (long)ROUNDS * check_size;
    char *mine = calloc((size_t)all, 1), *seen = calloc((size_t)all, 1);
    long one = 1, got, last = -1;
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 1, MPI_SUM, win);
        MPI_Win_flush(0, win);
        CHECK(got > last && got < all);
        last = got;
        if (got >= 0 && got < all)
            mine[got] = 1;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(mine, seen, (int)all, MPI_SIGNED_CHAR, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 0; i < all; i++)
        CHECK_EQUAL(seen[i], 1);
    free(mine);
    free(seen);
}

/* Tests the queue lock of Mellor-Crummey and Scott. Word 2 of rank 0 is the tail, word 3 the next rank, word
 * 4 the flag to wait. */
static void queue_lock(MPI_Win win, long *memory)
{
    long me = check_rank + 1, nobody = 0, before, after, waits, now;
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS / 4; round++) {
        memory[3] = 0, memory[4] = 1;
        MPI_Win_sync(win);
        MPI_Fetch_and_op(&me, &before, MPI_LONG, 0, 2, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        if (before) {
            MPI_Accumulate(&me, 1, MPI_LONG, (int)before - 1, 3, 1, MPI_LONG, MPI_REPLACE, win);
            MPI_Win_flush((int)before - 1, win);
            do {
                MPI_Fetch_and_op(NULL, &waits, MPI_LONG, check_rank, 4, MPI_NO_OP, win);
                MPI_Win_flush(check_rank, win);
            } while (waits);
        }
        MPI_Get(&now, 1, MPI_LONG, 0, 5, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        now++;
        MPI_Put(&now, 1, MPI_LONG, 0, 5, 1, MPI_LONG, win);
        MPI_Win_flush(0, win);
        MPI_Compare_and_swap(&nobody, &me, &before, MPI_LONG, 0, 2, win);
        MPI_Win_flush(0, win);
        if (before != me) {
            do {
                MPI_Fetch_and_op(NULL, &after, MPI_LONG, check_rank, 3, MPI_NO_OP, win);
                MPI_Win_flush(check_rank, win);
            } while (!after);
            MPI_Accumulate(&nobody, 1, MPI_LONG, (int)after - 1, 4, 1, MPI_LONG, MPI_REPLACE, win);
            MPI_Win_flush((int)after - 1, win);
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&now, 1, MPI_LONG, 0, 5, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    CHECK_EQUAL(now, (long)check_size * (ROUNDS / 4));
}

/* Checks that shared locks are held together: each rank waits until the others have locked. */
static void shared(MPI_Win win)
{
    long one = 1, inside = 0;
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 6, 1, MPI_LONG, MPI_SUM, win);
    while (inside < check_size) {
        MPI_Fetch_and_op(NULL, &inside, MPI_LONG, 0, 6, MPI_NO_OP, win);
        MPI_Win_flush(0, win);
    }
    MPI_Win_unlock(0, win);
}

/* Passes a value round by post, start, complete and wait. The groups differ from epoch to epoch. */
static void ring(MPI_Win win, long *memory)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Group all, to, from;
    long value = 1;
    if (check_size < 2)
        return;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &right, &to);
    MPI_Group_incl(all, 1, &left, &from);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS / 4; round++) {
        if (check_rank || round) {
            MPI_Win_post(from, 0, win);
            MPI_Win_wait(win);
            value = memory[7] + 1;
        }
        MPI_Win_start(to, 0, win);
        MPI_Put(&value, 1, MPI_LONG, right, 7, 1, MPI_LONG, win);
        MPI_Win_complete(win);
    }
    if (!check_rank) {
        MPI_Win_post(from, 0, win);
        MPI_Win_wait(win);
        CHECK_EQUAL(memory[7], (long)check_size * (ROUNDS / 4));
    }
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
}

/* Accesses a target that computes outside of MPI. Accesses on one node do not need the target's calls. */
static void every_kind(MPI_Win win, long *memory)
{
    memset(memory, 0, 8 * sizeof(long));
    MPI_Win_fence(0, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    exclusive(win);
    tickets(win);
    queue_lock(win, memory);
    shared(win);
    ring(win, memory);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    long *memory, own[8];
    check_begin(&argc, &argv);
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    every_kind(win, memory);
    MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    every_kind(win, own);
    return check_end();
}
