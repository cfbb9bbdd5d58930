/* A profiling tool (MPI-5 section 15.2): wraps some functions, counts their calls and says so at the end.
 * Loaded with LD_PRELOAD. */
#include <mpi.h>
#include <stdio.h>

static long sends, reductions;
static double seconds;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    double start = PMPI_Wtime();
    int code = PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    seconds += PMPI_Wtime() - start;
    reductions++;
    return code;
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "profile: reductions %ld rank+1 %d sends %ld seconds %.6f\n", reductions, rank + 1, sends, seconds);
    return PMPI_Finalize();
}
