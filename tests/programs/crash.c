/* Ends as its argument says, in a function that a backtrace has to name. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile int *volatile nowhere;

APART int overflow_stack(int depth)
{
    volatile char room[4096];
    room[0] = (char)depth;
    return depth < 1 << 30 ? overflow_stack(depth + 1) + room[0] : 0;
}

APART void crash_deliberately(const char *how)
{
    if (!strcmp(how, "segv"))
        *nowhere = 1;
    else if (!strcmp(how, "stack"))
        overflow_stack(0);
    else if (!strcmp(how, "sent"))
        kill(getpid(), SIGSEGV), pause();
    else
        abort();
}

static void own_handler(int number)
{
    (void)number;
    static const char said[] = "the program's own handler\n";
    _exit(write(1, said, sizeof said - 1) > 0 ? 5 : 6);
}

int main(int argc, char **argv)
{
    int rank;
    if (argc > 2)
        signal(SIGSEGV, own_handler);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        crash_deliberately(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
