/* Every rank receives a message that no rank sends. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int number, rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    puts("waits now");
    fflush(stdout);
    MPI_Recv(&number, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return MPI_Finalize();
}
