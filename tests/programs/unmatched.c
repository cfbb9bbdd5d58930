/* Rank 0 sends a message that no rank receives, continues and finalizes. No message with a receive is lost.
 *
 * usage: unmatched OPERATION
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "bcast";
    int rank, size, values[64] = { 0 }, all[64] = { 0 };
    MPI_Comm comm;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (argc > 2) /* not the first operation */
        for (int i = 0; i < 20; i++)
            MPI_Allreduce(values, all, 1, MPI_INT, MPI_SUM, !strcmp(argv[2], "dup") ? comm : MPI_COMM_WORLD);
    const MPI_Comm where = argc > 2 && !strcmp(argv[2], "dup") ? comm : MPI_COMM_WORLD;
    if (!strcmp(name, "bcast") && rank == 0)
        MPI_Bcast(values, 2, MPI_INT, 0, where);
    else if (!strcmp(name, "scatter") && rank == 0)
        MPI_Scatter(values, 1, MPI_INT, all, 1, MPI_INT, 0, where);
    else if (!strcmp(name, "send") && rank == 0)
        MPI_Send(values, 2, MPI_INT, size - 1, 3, where);
    else if (!strcmp(name, "isend") && rank == 0) {
        MPI_Isend(values, 2, MPI_INT, size - 1, 3, where, &request);
        MPI_Request_free(&request);
    }
    MPI_Finalize();
    printf("rank %d: ends\n", rank);
    return 0;
}
