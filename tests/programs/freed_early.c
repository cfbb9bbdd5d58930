/* A communicator is freed while something of it is under way or yet to be started. Rank 0 is ahead of the
 * others, so that its messages have arrived when they free the communicator. */
#include "check.h"
#include <unistd.h>

/* Frees a duplicate of MPI_COMM_WORLD: at rank 0 before the others. */
static void free_late(MPI_Comm *comm)
{
    if (check_rank)
        usleep(50000);
    MPI_Comm_free(comm);
}

static void check_persistent(void)
{
    MPI_Comm comm;
    MPI_Request barrier, bcast, gather;
    int number = check_rank ? -1 : 7, all[64];
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &barrier);
    MPI_Bcast_init(&number, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &bcast);
    MPI_Allgather_init(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm, MPI_INFO_NULL, &gather);
    free_late(&comm);
    for (int round = 0; round < 3; round++) {
        MPI_Request three[3] = {barrier, bcast, gather};
        MPI_Startall(3, three);
        MPI_Waitall(3, three, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(number, 7);
        CHECK_EQUAL(all[check_size - 1], check_size - 1);
    }
    MPI_Request_free(&gather);
    MPI_Request_free(&barrier);
    MPI_Request_free(&bcast);
}

static void check_under_way(void)
{
    MPI_Comm comm;
    MPI_Request three[3];
    int number = check_rank ? -1 : 8, got = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Irecv(&got, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 0, comm, &three[0]);
    MPI_Send(&check_rank, 1, MPI_INT, (check_rank + 1) % check_size, 0, comm);
    MPI_Ibcast(&number, 1, MPI_INT, 0, comm, &three[1]);
    MPI_Ibarrier(comm, &three[2]);
    free_late(&comm);
    MPI_Waitall(3, three, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(number, 8);
    CHECK_EQUAL(got, (check_rank + check_size - 1) % check_size);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int i = 0; i < 5; i++) {
        check_persistent();
        check_under_way();
    }
    return check_end();
}
