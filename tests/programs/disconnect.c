/* Communicators that are disconnected (MPI-5 section 11.10.4), again and again, with messages between all
 * ranks before and after. */
#include "check.h"

static void talk(MPI_Comm comm)
{
    int rank, size, sum = 0, word = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Sendrecv(&rank, 1, MPI_INT, right, 4, &word, 1, MPI_INT, left, 4, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(word, left);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(sum, size * (size - 1) / 2);
}

int main(int argc, char **argv)
{
    MPI_Comm half, inter, all;
    check_begin(&argc, &argv);
    int upper = check_rank >= check_size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, upper, check_rank, &half);
    for (int round = 0; round < 5; round++) {
        talk(MPI_COMM_WORLD);
        if (check_size > 1) {
            MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : check_size / 2, 5, &inter);
            MPI_Intercomm_merge(inter, upper, &all);
            talk(all);
            MPI_Comm_disconnect(&all);
            MPI_Comm_disconnect(&inter);
        }
        talk(half);
        MPI_Comm_dup(half, &all);
        talk(all);
        MPI_Comm_disconnect(&all);
    }
    MPI_Comm_free(&half);
    return check_end();
}
