/* Time of a receive that completes with a continuation, while other receives with continuations are
 * outstanding. Two ranks. */
#include "check.h"
#include <mpi-ext.h>

enum { MOST = 8000, MEASURED = 100 };

static int ran, values[MOST + 1];

static int count(int rc, void *data)
{
    (void)data;
    ran++;
    return rc;
}

/* Receives MEASURED messages of this rank with a continuation each. Returns microseconds for one. */
static double measure(MPI_Request cont)
{
    double begun = MPI_Wtime();
    ran = 0;
    for (int number = 0; number < MEASURED; number++) {
        MPI_Request send, receive;
        MPI_Isend(&check_rank, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &send);
        MPI_Irecv(&values[MOST], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &receive);
        MPIX_Continue(&receive, count, NULL, 0, MPI_STATUS_IGNORE, cont);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    for (int flag; ran < MEASURED;)
        MPI_Iprobe(0, 5, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
    return (MPI_Wtime() - begun) / MEASURED * 1e6;
}

int main(int argc, char **argv)
{
    static const int outstanding[] = {0, 500, 1000, 2000, 4000, MOST};
    check_begin(&argc, &argv);
    MPI_Request cont, request;
    MPIX_Continue_init(0, 0, MPI_INFO_NULL, &cont);
    for (int number = 0; number < 6; number++) {
        double least = 1e9;
        for (int round = 0; round < 40; round++) {
            MPI_Start(&cont);
            for (int other = 0; check_rank == 0 && other < outstanding[number]; other++) {
                MPI_Irecv(&values[other], 1, MPI_INT, 1, 1000 + other, MPI_COMM_WORLD, &request);
                MPIX_Continue(&request, count, NULL, 0, MPI_STATUS_IGNORE, cont);
            }
            MPI_Barrier(MPI_COMM_WORLD);
            double spent = check_rank == 0 ? measure(cont) : 0;
            least = spent < least ? spent : least;
            MPI_Barrier(MPI_COMM_WORLD);
            for (int other = 0; check_rank == 1 && other < outstanding[number]; other++)
                MPI_Send(&check_rank, 1, MPI_INT, 0, 1000 + other, MPI_COMM_WORLD);
            MPI_Wait(&cont, MPI_STATUS_IGNORE);
        }
        if (check_rank == 0)
            printf("%d outstanding: %.2f us\n", outstanding[number], least);
    }
    MPI_Request_free(&cont);
    return check_end();
}
