/* MPI_Alloc_mem: memory that collectives share, large and small, across MPI_Free_mem and fork. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static int value(int rank, size_t place, int round)
{
    return (int)(place * 31 + (size_t)rank * 1000 + (size_t)round);
}

/* Gathers the numbers of all ranks on all ranks, with memory from MPI_Alloc_mem on both sides. */
static void gathered(size_t count, int round)
{
    int *mine, *all;
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint)(count * sizeof *mine), MPI_INFO_NULL, &mine), MPI_SUCCESS);
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint)(count * sizeof *all) * check_size, MPI_INFO_NULL, &all), MPI_SUCCESS);
    for (int turn = 0; turn < 3; turn++) {
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++)
            mine[i] = value(check_rank, i, round + turn);
        MPI_Allgather(mine, (int)count, MPI_INT, all, (int)count, MPI_INT, MPI_COMM_WORLD);
        for (int rank = 0; rank < check_size; rank++)
            for (size_t i = 0; i < count; i++)
                wrong += all[(size_t)rank * count + i] != value(rank, i, round + turn);
        CHECK_EQUAL((int)wrong, 0);
        if (turn == 1) {
            int status = -1;
            pid_t child = fork();
            if (child == 0) {
                memset(all, 0, count * sizeof *all);
                _exit(mine[0] != value(check_rank, 0, round + turn));
            }
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            CHECK_EQUAL(all[0], value(0, 0, round + turn));
        }
    }
    CHECK_CLASS(MPI_Free_mem(mine), MPI_SUCCESS);
    CHECK_CLASS(MPI_Free_mem(all), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int round = 0; round < 4; round++) {
        gathered(1, round);
        gathered(9000, round);
        gathered(100000, round);
        gathered((size_t)70000 + (size_t)round * 5000, round);
    }
    return check_end();
}
