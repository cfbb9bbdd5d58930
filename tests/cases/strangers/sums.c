/* Sums, a broadcast and a barrier with known results, small enough for the kernel. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, bad = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 20; round++) {
        long own = rank + 1, sum = 0, seven = rank == 0 ? 7 + round : 0;
        MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        bad += sum != (long)size * (size + 1) / 2;
        MPI_Bcast(&seven, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        bad += seven != 7 + round;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    printf("rank %d: %s\n", rank, bad ? "wrong" : "ok");
    MPI_Finalize();
    return bad != 0;
}
