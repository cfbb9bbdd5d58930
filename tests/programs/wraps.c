/* Numbers that come again: contexts, operations, persistent operations, their starts. The key wrap_after has
 * that happen early.
 * argument: how often each is taken, some times as many as until then */
#include "check.h"

static int right(int rank) { return (rank + 1) % check_size; }
static int left(int rank) { return (rank + check_size - 1) % check_size; }

/* Checks that a communicator's messages arrive in it, and in no other. */
static void check_ring(MPI_Comm comm, int number)
{
    int got[2] = {-1, -1}, sum = 0, one = 1;
    MPI_Sendrecv(&number, 1, MPI_INT, right(check_rank), 5, got, 1, MPI_INT, left(check_rank), 5, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got[0], number);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(sum, check_size);
}

/* Some communicators live on, and have messages under way, while others use up all contexts. */
static void check_contexts(int times)
{
    enum { KEPT = 7 };
    MPI_Comm kept[KEPT], other, late;
    MPI_Request requests[KEPT], waiting;
    int got[KEPT], waits = -1, number;
    for (int i = 0; i < KEPT; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &kept[i]);
        MPI_Irecv(&got[i], 1, MPI_INT, left(check_rank), 9, kept[i], &requests[i]);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &late);
    MPI_Irecv(&waits, 1, MPI_INT, left(check_rank), 9, late, &waiting);
    for (int i = 0; i < times; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
        if (i % 16 == 0)
            check_ring(other, i);
        MPI_Comm_free(&other);
    }
    for (int i = 0; i < KEPT; i++) {
        check_ring(kept[i], i);
        number = 100 + i;
        MPI_Send(&number, 1, MPI_INT, right(check_rank), 9, kept[i]);
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        CHECK_EQUAL(got[i], 100 + i);
        MPI_Comm_free(&kept[i]);
    }
    number = 77;
    MPI_Send(&number, 1, MPI_INT, right(check_rank), 9, late);
    MPI_Comm_free(&late);
    MPI_Wait(&waiting, MPI_STATUS_IGNORE);
    CHECK_EQUAL(waits, 77);
}

/* Operations that live on, started between others that use up all numbers, and freed in another order on each
   rank. */
static void check_persistent(MPI_Comm comm, int times, int count)
{
    enum { KEPT = 9, MOST = 50000 };
    static int mine[MOST], sums[KEPT][MOST];
    MPI_Request kept[KEPT], other;
    int sum = 0, one = 1;
    for (int i = 0; i < KEPT; i++)
        MPI_Allreduce_init(mine, sums[i], count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &kept[i]);
    for (int i = 0; i < times; i++) {
        MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &other);
        if (i % 3) {
            MPI_Start(&other);
            MPI_Wait(&other, MPI_STATUS_IGNORE);
            CHECK_EQUAL(sum, check_size);
        }
        MPI_Request_free(&other);
        if (i % 50 == 0) {
            int k = i / 50 % KEPT;
            for (int n = 0; n < count; n++)
                mine[n] = i + n;
            MPI_Start(&kept[k]);
            MPI_Wait(&kept[k], MPI_STATUS_IGNORE);
            CHECK_EQUAL(sums[k][count - 1], check_size * (i + count - 1));
            /* Another takes its place. */
            MPI_Request_free(&kept[k]);
            MPI_Allreduce_init(mine, sums[k], count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &kept[k]);
        }
    }
    for (int i = 0; i < KEPT; i++)
        MPI_Request_free(&kept[(i * (1 + check_rank % 2) * 4 + check_rank) % KEPT]);
}

/* One rank makes and frees them long before the others. */
static void check_ahead(int times)
{
    MPI_Request request;
    int number = 3;
    if (check_rank)
        for (volatile int i = 0; i < 30000000; i++) {}
    for (int i = 0; i < times; i++) {
        MPI_Bcast_init(&number, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        if (i % 2) {
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
    }
    CHECK_EQUAL(number, 3);
}

/* Many at a time, of several kinds, completed from the last to the first. */
static void check_outstanding(int times)
{
    MPI_Request *requests = malloc(times * sizeof *requests);
    int *got = malloc(times * sizeof *got), one = 1;
    for (int i = 0; i < times; i++) {
        got[i] = check_rank ? -1 : i;
        switch (i % 4) {
        case 0: MPI_Ibarrier(MPI_COMM_WORLD, &requests[i]); break;
        case 1: MPI_Ibcast(&got[i], 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[i]); break;
        case 2: MPI_Iallreduce(&one, &got[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]); break;
        case 3: MPI_Ireduce(&one, &got[i], 1, MPI_INT, MPI_SUM, i % check_size, MPI_COMM_WORLD, &requests[i]); break;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = times - 1; i >= 0; i--) {
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (i % 4 == 1)
            CHECK_EQUAL(got[i], i);
        if (i % 4 == 2 || (i % 4 == 3 && i % check_size == check_rank))
            CHECK_EQUAL(got[i], check_size);
    }
    check_ring(MPI_COMM_WORLD, 5);
    free(requests);
    free(got);
}

static int nothing(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

/* Keys and error codes of one process. */
static void check_local(int times)
{
    for (int i = 0; i < times; i++) {
        int key, class;
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, nothing, &key, NULL);
        MPI_Comm_free_keyval(&key);
        MPI_Add_error_class(&class);
        MPI_Remove_error_class(class);
    }
}

int main(int argc, char **argv)
{
    int times = argc > 1 ? atoi(argv[1]) : 300;
    MPI_Comm half, between;
    check_begin(&argc, &argv);
    check_contexts(times);
    check_persistent(MPI_COMM_WORLD, times, 1);
    check_persistent(MPI_COMM_WORLD, times, 50000);
    if (check_size > 1) {
        MPI_Request request;
        MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (check_rank + 1) % 2, 1, &between);
        for (int i = 0; i < times; i++) {
            MPI_Barrier_init(between, MPI_INFO_NULL, &request);
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Request_free(&request);
        }
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
    }
    check_ahead(times);
    check_outstanding(times);
    check_local(times);
    return check_end();
}
