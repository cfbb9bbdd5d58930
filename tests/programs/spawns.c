/* Starts further processes when a file exists, perhaps after a restart, and receives messages from them. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    int rank, sent = 0, got = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Bcast(&got, 1, MPI_INT, 0, parent);
        got *= 2;
        MPI_Reduce(&got, NULL, 1, MPI_INT, MPI_SUM, 0, parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("waits");
        fflush(stdout);
    }
    while (argc > 1 && access(argv[1], F_OK))
        usleep(1000);
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
    sent = 21;
    MPI_Bcast(&sent, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, child);
    MPI_Reduce(NULL, &got, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, child);
    MPI_Comm_disconnect(&child);
    if (rank == 0)
        printf("checksum %d\n", got);
    MPI_Finalize();
    return check_failures != 0;
}
