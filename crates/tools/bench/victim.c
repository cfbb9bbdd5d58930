/* Rank 1 kills itself while the others wait for it: how soon does the job end?
 *
 * usage: victim FILE    rank 1 writes the time (CLOCK_REALTIME, nanoseconds) into FILE, then dies
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    int rank, word = 0;
    struct timespec now, pause = {0, 200000000};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && argc > 1) {
        nanosleep(&pause, NULL);
        FILE *file = fopen(argv[1], "w");
        clock_gettime(CLOCK_REALTIME, &now);
        if (file) {
            fprintf(file, "%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
            fclose(file);
        }
        raise(SIGKILL);
    }
    MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
