/* Goes on until the file of the argument is there. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, go = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("ready\n");
        fflush(stdout);
    }
    while (go) {
        if (rank == 0)
            go = access(argv[1], F_OK) != 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        usleep(10000);
    }
    if (rank == 0)
        printf("ok\n");
    MPI_Finalize();
    return 0;
}
