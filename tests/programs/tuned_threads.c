/* MPI_THREAD_MULTIPLE while algorithms are tried (TUTTI_TUNE=on). Each thread has a communicator of its own
 * and uses one of the forms of collective calls. */
#include "check.h"
#include <pthread.h>

enum { FORMS = 3, COUNT = 700, ROUNDS = 250 };

static MPI_Comm comms[FORMS];
static long wrong[FORMS];

static int total(int round, int i)
{
    return round * check_size + i * check_size * (check_size - 1) / 2;
}

static void *nonblocking(void *argument)
{
    static int in[COUNT], out[COUNT], whole[COUNT];
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2];
        int flag = 0;
        for (int i = 0; i < COUNT; i++) {
            in[i] = round + i * check_rank;
            whole[i] = check_rank == round % 2 % check_size ? round * i : -1;
        }
        MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_SUM, comms[0], &requests[0]);
        MPI_Ibcast(whole, COUNT, MPI_INT, round % 2 % check_size, comms[0], &requests[1]);
        MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < COUNT; i += 3)
            wrong[0] += out[i] != total(round, i) || whole[i] != round * i;
    }
    return NULL;
}

static void *blocking(void *argument)
{
    static int in[COUNT], out[COUNT];
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = round + i * check_rank;
        MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, comms[1]);
        for (int i = 0; i < COUNT; i += 3)
            wrong[1] += out[i] != total(round, i);
    }
    return NULL;
}

static void *persistent(void *argument)
{
    static int in[COUNT], out[COUNT];
    MPI_Request request;
    (void)argument;
    MPI_Allreduce_init(in, out, COUNT, MPI_INT, MPI_SUM, comms[2], MPI_INFO_NULL, &request);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = round + i * check_rank;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i += 3)
            wrong[2] += out[i] != total(round, i);
    }
    MPI_Request_free(&request);
    return NULL;
}

int main(int argc, char **argv)
{
    void *(*forms[FORMS])(void *) = {nonblocking, blocking, persistent};
    pthread_t threads[FORMS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < FORMS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < FORMS; i++)
        pthread_create(&threads[i], NULL, forms[i], NULL);
    for (int i = 0; i < FORMS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQUAL(wrong[i], 0);
        MPI_Comm_free(&comms[i]);
    }
    return check_end();
}
