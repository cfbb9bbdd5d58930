/* Persistent collectives started in another order on each rank, with blocking ones and a non-blocking duplicate between. */
#include "check.h"

enum { MANY = 8, ROUNDS = 200 };

/* Other collectives of the communicator while those of the caller are under way. */
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
    return check_end();
}
