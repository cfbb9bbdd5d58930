/* A chain of ranks whose inner ones compute and do not call MPI until the last one has received the data. A
 * thread has to pass the data on (TUTTI_PROGRESS_THREAD=1, TUTTI_ALGORITHM=bcast:tree:radix=1). */
#include "check.h"

enum { COUNT = 1000, ROUNDS = 20 };

int main(int argc, char **argv)
{
    static double data[COUNT], sum[COUNT];
    volatile int *arrived;
    MPI_Aint bytes;
    MPI_Win window;
    int unit, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    MPI_Win_allocate_shared(check_rank ? 0 : sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD,
                            (void *)&arrived, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, (void *)&arrived);
    if (check_rank == 0)
        *arrived = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 1; round <= ROUNDS; round++) {
        MPI_Request requests[2];
        int inner = check_rank > 0 && check_rank < check_size - 1;
        for (int i = 0; i < COUNT; i++)
            data[i] = check_rank == 0 ? round * i : -1;
        MPI_Ibcast(data, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD, &requests[0]);
        while (inner && *arrived < round)
            ;
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        for (int i = 0; i < COUNT; i++)
            CHECK(data[i] == round * i);
        if (check_rank == check_size - 1)
            *arrived = round;
        MPI_Iallreduce(data, sum, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        CHECK(sum[COUNT - 1] == (double)check_size * round * (COUNT - 1));
    }
    MPI_Win_free(&window);
    return check_end();
}
