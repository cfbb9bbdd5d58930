/* Calls one collective a number of times, and sends messages around the ring, for tests that count the
 * traffic. */
#include "check.h"

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    const char *name = argc > 1 ? argv[1] : "bcast";
    int bytes = argc > 2 ? atoi(argv[2]) : 1024, times = argc > 3 ? atoi(argv[3]) : 1;
    int count = bytes / (int)sizeof(double);
    double *send = check_memory((size_t)bytes), *recv = check_memory((size_t)bytes * (size_t)check_size);
    for (int i = 0; i < count; i++)
        send[i] = check_rank + i;
    for (int turn = 0; turn < times; turn++) {
        if (!strcmp(name, "bcast")) {
            MPI_Bcast(send, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            CHECK(count == 0 || send[count - 1] == count - 1);
        } else if (!strcmp(name, "allreduce")) {
            MPI_Allreduce(send, recv, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            CHECK(count == 0 || recv[count - 1] == check_size - 1 + count - 1);
        } else if (!strcmp(name, "reduce")) {
            MPI_Reduce(send, recv, count, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            CHECK(count == 0 || check_rank > 0 || recv[0] == check_size - 1);
        } else if (!strcmp(name, "allgather")) {
            MPI_Allgather(send, count, MPI_DOUBLE, recv, count, MPI_DOUBLE, MPI_COMM_WORLD);
            CHECK(count == 0 || recv[(size_t)count * (size_t)check_size - 1] == check_size - 1 + count - 1);
        } else if (!strcmp(name, "ring")) {
            int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
            MPI_Sendrecv(send, count, MPI_DOUBLE, to, turn, recv, count, MPI_DOUBLE, from, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(count == 0 || recv[0] == from);
        }
    }
    free(send);
    free(recv);
    return check_end();
}
