/* Times of a ping-pong, of a stream, of MPI_Bcast and MPI_Allreduce between two hosts, in microseconds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20 };

static char *memory[2];
static int rank;

static void pingpong(int bytes) {
    if (rank == 0) {
        MPI_Send(memory[0], bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(memory[1], bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(memory[1], bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(memory[0], bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

static void stream(int bytes) {
    MPI_Request requests[8];
    for (int i = 0; i < 8; i++) {
        if (rank == 0) MPI_Isend(memory[0], bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
        else MPI_Irecv(memory[1], bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(int bytes) { MPI_Bcast(memory[0], bytes, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void allreduce(int bytes) {
    MPI_Allreduce(memory[0], memory[1], bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void measure(const char *name, void (*call)(int), int bytes, double seconds) {
    int rounds = 0, more = 1;
    for (int i = 0; i < 20; i++) call(bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    while (more) {
        for (int i = 0; i < 10; i++) call(bytes);
        rounds += 10;
        more = MPI_Wtime() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%s %d %.2f\n", name, bytes, (MPI_Wtime() - begin) / rounds * 1e6);
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.3;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++) memory[i] = calloc(4, MIB);
    for (int i = 0; i < 200; i++) pingpong(8);
    measure("pingpong", pingpong, 8, seconds);
    measure("pingpong", pingpong, 64 << 10, seconds);
    measure("pingpong", pingpong, MIB, seconds);
    measure("stream", stream, MIB, seconds);
    measure("bcast", bcast, 64 << 10, seconds);
    measure("bcast", bcast, MIB, seconds);
    measure("allreduce", allreduce, 8, seconds);
    measure("allreduce", allreduce, 64 << 10, seconds);
    measure("allreduce", allreduce, MIB, seconds);
    MPI_Finalize();
    return 0;
}
