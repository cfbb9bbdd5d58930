/* A job whose first rank has a port and a published name until the file of the argument is there. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME], name[64];
    int rank, go = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "strangers-%d", (int)getpid());
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(name, MPI_INFO_NULL, port);
        MPI_Lookup_name(name, MPI_INFO_NULL, found);
        printf("ready\n");
        fflush(stdout);
    }
    while (go) {
        long one = rank + 1, sum = 0;
        if (rank == 0)
            go = access(argv[1], F_OK) != 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Allreduce(&one, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (sum != 3)
            MPI_Abort(MPI_COMM_WORLD, 1);
        usleep(20000);
    }
    if (rank == 0) {
        MPI_Unpublish_name(name, MPI_INFO_NULL, port);
        MPI_Close_port(port);
        printf("ok\n");
    }
    MPI_Finalize();
    return 0;
}
