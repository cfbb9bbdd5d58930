/* Persistent collectives started in another order on each rank. Blocking ones and a non-blocking
 * duplicate come between them. */
#include "check.h"

enum { MANY = 8, ROUNDS = 200 };

/* Runs further collectives of the communicator while those of the caller are outstanding. */
static void between(int round)
{
    int one = 1, sum = 0;
    MPI_Comm copy;
    MPI_Request request;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, check_size);
    if (round % 20)
        return;
    MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    CHECK_EQUAL(sum, check_size);
    MPI_Comm_free(&copy);
}

/* Tests that operations that complete when they are started have requests like any other. */
static void over_at_once(void)
{
    MPI_Request requests[2];
    MPI_Status status;
    int flag, in = 3, out = 0;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 2; i++) {
            MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, &requests[i]);
            CHECK(requests[i] != MPI_REQUEST_NULL);
            CHECK(MPI_Request_fromint(MPI_Request_toint(requests[i])) == requests[i]);
        }
        CHECK_EQUAL(out, in);
        MPI_Request_get_status(requests[0], &flag, &status);
        CHECK(flag && status.MPI_TAG == MPI_ANY_TAG && status.MPI_SOURCE == MPI_ANY_SOURCE);
        if (round == 0)
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (round == 1) {
            MPI_Request_free(&requests[0]);
            MPI_Test(&requests[1], &flag, &status);
            CHECK(flag);
        }
        for (int i = 0; i < 2; i++)
            MPI_Wait(&requests[i], &status);
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    }
}

int main(int argc, char **argv)
{
    MPI_Request requests[MANY];
    int in[MANY], out[MANY];
    check_begin(&argc, &argv);
    for (int i = 0; i < MANY; i++)
        MPI_Allreduce_init(&out[i], &in[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MANY; i++)
            out[i] = check_rank + i * round;
        for (int i = 0; i < MANY; i++) {
            MPI_Start(&requests[(i * (check_rank % 2 ? 3 : 5) + check_rank + round) % MANY]);
            if (i == MANY / 2)
                between(round);
        }
        MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++)
            CHECK_EQUAL(in[i], check_size * (check_size - 1) / 2 + check_size * i * round);
    }
    for (int i = 0; i < MANY; i++)
        MPI_Request_free(&requests[i]);
    over_at_once();
    return check_end();
}
