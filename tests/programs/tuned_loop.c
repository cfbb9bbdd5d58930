/* tuned_loop OPERATION BYTES WORK LOOKS ROUNDS [samples]: a loop that starts a non-blocking operation,
 * computes WORK multiplications in LOOKS + 1 parts with an MPI_Test after each but the last, and
 * waits. Prints the seconds of a round: the mean of all, and of the last half; with `samples` the
 * microseconds inside MPI of each round of that half on rank 0. OPERATION: bcast, alltoall, allreduce,
 * allgather. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile double sink;

static void work(long multiplications)
{
    double x = 1.0000001, y = 1;
    for (long i = 0; i < multiplications; i++)
        y = y * x + 1e-9;
    sink = y;
}

static void start(const char *name, char *out, char *in, int bytes, MPI_Request *request)
{
    if (!strcmp(name, "bcast"))
        MPI_Ibcast(out, bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
    else if (!strcmp(name, "alltoall"))
        MPI_Ialltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, request);
    else if (!strcmp(name, "allgather"))
        MPI_Iallgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD, request);
    else
        MPI_Iallreduce(out, in, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

int main(int argc, char **argv)
{
    int size, rank, flag;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 6) {
        fprintf(stderr, "usage: tuned_loop OPERATION BYTES WORK LOOKS ROUNDS [samples]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int bytes = atoi(argv[2]), looks = atoi(argv[4]), rounds = atoi(argv[5]), half = rounds / 2;
    long part = atol(argv[3]) / (looks + 1);
    char *out = calloc(size, bytes), *in = calloc(size, bytes);
    double *inside = calloc(rounds, sizeof(double)), middle = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        if (round == rounds - half)
            middle = MPI_Wtime();
        double now = MPI_Wtime();
        start(argv[1], out, in, bytes, &request);
        inside[round] = MPI_Wtime() - now;
        for (int look = 0; look < looks; look++) {
            work(part);
            now = MPI_Wtime();
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            inside[round] += MPI_Wtime() - now;
        }
        work(part);
        now = MPI_Wtime();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        inside[round] += MPI_Wtime() - now;
    }
    double end = MPI_Wtime(), own[2] = {(end - begin) / rounds, half ? (end - middle) / half : 0}, most[2];
    MPI_Reduce(own, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0 && argc > 6)
        for (int round = rounds - half; round < rounds; round++)
            printf("%.3f\n", inside[round] * 1e6);
    else if (rank == 0)
        printf("%.9f %.9f\n", most[0], most[1]);
    free(out);
    free(in);
    free(inside);
    return MPI_Finalize();
}
