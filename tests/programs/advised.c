/* A job with memory that a fork leaves out, empties or shares. The program must not notice that its
 * checkpoints are written by copies of the process. It sees no child, no end of a child, and none to wait
 * for. All the time it changes memory of each kind and checks it. Argument: a file; the program runs until
 * that exists. */
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KINDS = 4, WORDS = 1 << 17 };

static volatile sig_atomic_t children;

static void child_ended(int signal)
{
    (void)signal;
    children++;
}

static uint64_t word(int rank, int kind, int at)
{
    uint64_t x = (uint64_t)(rank * KINDS + kind) * 0x9e3779b97f4a7c15u + (uint64_t)at * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 31;
}

int main(int argc, char **argv)
{
    int rank;
    uint64_t *areas[KINDS], sum = 0, all = 0;
    const int advice[KINDS] = {MADV_NORMAL, MADV_DONTFORK, MADV_WIPEONFORK, MADV_NORMAL};
    CHECK(argc > 1);
    signal(SIGCHLD, child_ended);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int kind = 0; kind < KINDS; kind++) {
        int flags = MAP_ANONYMOUS | (kind == 3 ? MAP_SHARED : MAP_PRIVATE);
        areas[kind] = mmap(NULL, WORDS * sizeof(uint64_t), PROT_READ | PROT_WRITE, flags, -1, 0);
        CHECK(areas[kind] != MAP_FAILED);
        CHECK(madvise(areas[kind], WORDS * sizeof(uint64_t), advice[kind]) == 0);
        for (int at = 0; at < WORDS; at++)
            areas[kind][at] = word(rank, kind, at);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    int is_over = 0;
    for (uint64_t turn = 0; !is_over; turn++) {
        for (int kind = 0; kind < KINDS; kind++)
            for (int at = 0; at < WORDS; at += 256)
                areas[kind][at] = turn;
        is_over = rank == 0 && access(argv[1], F_OK) == 0;
        MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD);
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
        CHECK(waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | __WALL) == -1 && errno == ECHILD);
        for (int kind = 0; kind < KINDS; kind++)
            for (int at = 0; at < WORDS; at++)
                CHECK(areas[kind][at] == (at % 256 ? word(rank, kind, at) : turn));
    }
    CHECK(children == 0);
    for (int kind = 0; kind < KINDS; kind++)
        for (int at = 1; at < WORDS; at += 256)
            sum = sum * 31 + areas[kind][at];
    MPI_Reduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("checksum %llx\n", (unsigned long long)all);
    return MPI_Finalize();
}
