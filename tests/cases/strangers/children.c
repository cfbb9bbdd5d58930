/* Counts the objects of jobs among the descriptors that a child of this rank has, between MPI_Init and
 * MPI_Finalize: none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Descriptors of a child that stand for memory of this job. */
static int inherited(void)
{
    const char *command = "for fd in /proc/self/fd/*; do readlink $fd; done | grep -c 'tutti' || true";
    char line[64] = "";
    FILE *child = popen(command, "r");
    if (!child || !fgets(line, sizeof line, child))
        return -1;
    pclose(child);
    return atoi(line);
}

int main(int argc, char **argv)
{
    int rank, before = inherited(), within, bad, any;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    within = inherited();
    bad = before < 1 || within != 0;
    if (bad)
        fprintf(stderr, "rank %d: a child has %d objects before MPI_Init, %d after it\n", rank, before, within);
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && !any)
        printf("ok\n");
    MPI_Finalize();
    return any;
}
