/* Rank 0 prints LINES lines of different lengths, in bursts that are cut anywhere by the buffer of the C
 * library; the other ranks wait for it in barriers. Arguments: lines, seed. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, lines = argc > 1 ? atoi(argv[1]) : 1000;
    unsigned chance = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int line = 0; line < lines; line++) {
        chance = chance * 1103515245u + 12345u;
        if (rank == 0)
            printf("%d %.*s\n", line, (int)(chance >> 16) % 150,
                   "....................................................................................................."
                   ".................................................");
        if ((chance >> 16) % 97 == 0) {
            if ((chance >> 24) % 2)
                fflush(stdout);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    return MPI_Finalize();
}
