/* Leaves objects unfreed if the arguments request it. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, number = 1, got;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1 && rank == 1) {
        MPI_Comm copies[2];
        MPI_Datatype type;
        MPI_Request requests[2];
        MPI_Comm_dup(MPI_COMM_SELF, &copies[0]);
        MPI_Comm_dup(MPI_COMM_SELF, &copies[1]);
        MPI_Type_contiguous(3, MPI_INT, &type);
        MPI_Irecv(&got, 1, MPI_INT, 0, 7, copies[0], &requests[0]);
        MPI_Isend(&number, 1, MPI_INT, 0, 7, copies[0], &requests[1]);
    } else {
        MPI_Comm copy;
        MPI_Request request;
        MPI_Comm_dup(MPI_COMM_SELF, &copy);
        MPI_Irecv(&got, 1, MPI_INT, 0, 7, copy, &request);
        MPI_Send(&number, 1, MPI_INT, 0, 7, copy);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_free(&copy);
    }
    return MPI_Finalize();
}
