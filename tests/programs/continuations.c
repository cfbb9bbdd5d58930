/* Functions of the program that run when operations are complete (MPIX_Continue). */
#include "check.h"
#include <mpi-ext.h>

static int ran, last_code = -1;

static int count(int rc, void *data)
{
    ran++;
    last_code = rc;
    if (data)
        ++*(int *)data;
    return MPI_SUCCESS;
}

struct relay {
    int value, left;
    MPI_Request request, cont;
};

static int pass_on(int rc, void *data);

static void receive(struct relay *relay)
{
    int left = (check_rank + check_size - 1) % check_size;
    MPI_Irecv(&relay->value, 1, MPI_INT, left, 7, MPI_COMM_WORLD, &relay->request);
    MPIX_Continue(&relay->request, pass_on, relay, 0, MPI_STATUS_IGNORE, relay->cont);
}

/* A continuation starts operations, with a continuation of their own. */
static int pass_on(int rc, void *data)
{
    struct relay *relay = data;
    CHECK_EQUAL(rc, MPI_SUCCESS);
    int next = relay->value + 1;
    if (check_rank > 0 || relay->left > 1)
        MPI_Send(&next, 1, MPI_INT, (check_rank + 1) % check_size, 7, MPI_COMM_WORLD);
    if (--relay->left > 0)
        receive(relay);
    return MPI_SUCCESS;
}

/* A token goes around the ring by continuations only, while the ranks wait for something else. */
static void ring(MPI_Request cont)
{
    struct relay relay = {0, 20, MPI_REQUEST_NULL, cont};
    MPI_Start(&cont);
    receive(&relay);
    if (check_rank == 0) {
        int first = 0;
        MPI_Send(&first, 1, MPI_INT, 1 % check_size, 7, MPI_COMM_WORLD);
    }
    MPI_Wait(&cont, MPI_STATUS_IGNORE);
    CHECK_EQUAL(relay.left, 0);
    if (check_rank == 0)
        CHECK_EQUAL(relay.value, 20 * check_size - 1);
}

static void blocked(MPI_Request cont)
{
    int value = -1, answer = -1, peer = check_rank ^ 1;
    MPI_Request request;
    if (peer >= check_size)
        return;
    ran = 0;
    MPI_Start(&cont);
    MPI_Irecv(&value, 1, MPI_INT, peer, 8, MPI_COMM_WORLD, &request);
    MPIX_Continue(&request, count, NULL, 0, MPI_STATUS_IGNORE, cont);
    MPI_Send(&check_rank, 1, MPI_INT, peer, 8, MPI_COMM_WORLD);
    MPI_Status status;
    MPI_Sendrecv(&check_rank, 1, MPI_INT, peer, 9, &answer, 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &status);
    MPI_Wait(&cont, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ran, 1);
    CHECK_EQUAL(value, peer);
    CHECK_EQUAL(answer, peer);
}

static void many(MPI_Request cont)
{
    enum { MANY = 4000 };
    static int values[MANY];
    static MPI_Request requests[MANY];
    static MPI_Status statuses[2];
    int left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size, done = 0;
    ran = 0;
    MPI_Start(&cont);
    for (int number = 0; number < MANY; number++) {
        MPI_Irecv(&values[number], 1, MPI_INT, left, number, MPI_COMM_WORLD, &requests[number]);
        MPIX_Continue(&requests[number], count, &done, 0, MPI_STATUS_IGNORE, cont);
        CHECK(requests[number] == MPI_REQUEST_NULL);
    }
    for (int number = MANY; number-- > 0;)
        MPI_Send(&number, 1, MPI_INT, right, number, MPI_COMM_WORLD);
    MPI_Wait(&cont, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ran, MANY);
    CHECK_EQUAL(done, MANY);
    for (int number = 0; number < MANY; number++)
        CHECK_EQUAL(values[number], number);
    /* Several operations, one continuation, their statuses. */
    ran = 0;
    MPI_Start(&cont);
    MPI_Irecv(&values[0], 1, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&check_rank, 1, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[1]);
    requests[2] = MPI_REQUEST_NULL;
    MPIX_Continueall(2, requests, count, NULL, 0, statuses, cont);
    int flag = 0;
    while (!flag)
        MPI_Test(&cont, &flag, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ran, 1);
    CHECK_EQUAL(statuses[0].MPI_SOURCE, left);
    CHECK_EQUAL(values[0], left);
}

static void others(MPI_Request cont)
{
    int value = check_rank, sum = 0, flag;
    MPI_Request request, none = MPI_REQUEST_NULL;
    ran = 0;
    /* Nothing to wait for. */
    MPI_Start(&cont);
    MPI_Wait(&cont, MPI_STATUS_IGNORE);
    /* A collective, a null request, and a truncated message. */
    MPI_Start(&cont);
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPIX_Continue(&request, count, NULL, 0, MPI_STATUS_IGNORE, cont);
    MPIX_Continue(&none, count, NULL, 0, MPI_STATUS_IGNORE, cont);
    MPI_Wait(&cont, MPI_STATUS_IGNORE);
    CHECK_EQUAL(ran, 2);
    CHECK_EQUAL(sum, check_size * (check_size - 1) / 2);
    MPI_Start(&cont);
    int two[2] = {1, 2};
    MPI_Irecv(&value, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, &request);
    MPIX_Continue(&request, count, NULL, 0, MPI_STATUS_IGNORE, cont);
    MPI_Send(two, 2, MPI_INT, check_rank, 3, MPI_COMM_WORLD);
    MPI_Wait(&cont, MPI_STATUS_IGNORE);
    int class;
    MPI_Error_class(last_code, &class);
    CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
    /* Refusals. */
    MPI_Irecv(&value, 1, MPI_INT, check_rank, 4, MPI_COMM_WORLD, &request);
    CHECK_CLASS(MPIX_Continue(&request, count, NULL, 0, MPI_STATUS_IGNORE, cont), MPI_ERR_REQUEST);
    CHECK_CLASS(MPIX_Continue(&request, NULL, NULL, 0, MPI_STATUS_IGNORE, cont), MPI_ERR_ARG);
    MPI_Send(two, 1, MPI_INT, check_rank, 4, MPI_COMM_WORLD);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    if (!flag)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Request cont;
    MPIX_Continue_init(0, 0, MPI_INFO_NULL, &cont);
    ring(cont);
    blocked(cont);
    many(cont);
    others(cont);
    MPI_Request_free(&cont);
    CHECK(cont == MPI_REQUEST_NULL);
    return check_end();
}
