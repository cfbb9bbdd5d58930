/* Cells on request, for tutti-bench.c and waits.c. Each rank creates a pipe PREFIX.RANK and reads requests from it:
 * lines of NAME MODE SIZE MS LIMIT_MS. Between two cells ranks sleep in read(2), so that the jobs of several
 * libraries can take turns cell by cell. Rank 0 prints `ready` once and `done` after each cell. */
#ifndef TUTTI_BENCH_SERVE_H
#define TUTTI_BENCH_SERVE_H

#include <mpi.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct ask {
    char name[64], mode[16], size[32];
    double ms, limit_ms; /* time for the cell, and above which an iteration is too slow */
};

static void announce(int rank, const char *word)
{
    if (rank == 0) {
        puts(word);
        fflush(stdout);
    }
}

static void give_up(const char *what, const char *value)
{
    fprintf(stderr, "benchmark: %s %s\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Measures all cells that the pipe requests, until it is closed. */
static void serve(const char *prefix, void (*run)(const struct ask *))
{
    char path[4096], line[512];
    struct ask ask;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    if (mkfifo(path, 0600))
        give_up("cannot make the pipe", path);
    /* A rank that sleeps makes no progress, and Intel MPI connects to a peer at the first message. So the last
     * operation before each sleep is a barrier, over connections that the first one has made. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    announce(rank, "ready");
    FILE *pipe = fopen(path, "r");
    while (pipe && fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "%63s %15s %31s %lf %lf", ask.name, ask.mode, ask.size, &ask.ms, &ask.limit_ms) != 5)
            give_up("not a cell:", line);
        run(&ask);
        MPI_Barrier(MPI_COMM_WORLD);
        announce(rank, "done");
    }
    unlink(path);
}

#endif
