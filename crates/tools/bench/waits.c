/* The programs of `tutti bench waits`: how long a rank waits for what another, or another thread, does at once. Plain MPI, any library.
 *
 * usage: waits --serve PREFIX              cells from pipes, see serve.h; MODE means nothing, LIMIT_MS neither
 *        waits NAME [N [MS [ROUNDS]]]      one program by hand
 *
 * One line a cell: `cell op=.. mode=.. ranks=.. bytes=N us=.. least=.. iterations=.. wrong=0`. us is the mean of all iterations but the
 * first few: a hand-over that comes late once in a while is what is looked for, so no median hides it.
 *
 *   ring_*       a token goes round; microseconds a hop
 *   nothing_*    a call that finds nothing, while the other ranks wait in a barrier
 *   long_wait    processor time of all ranks in a second, in microseconds, while one waits for another (n seconds long)
 *   threads_*    two threads of each rank hand a flag to each other, polling MPI (waits-threads.c); microseconds a hand-over
 *   put_*        put and flush of rank 0, while the others wait in a barrier, or compute
 *   pscw_*       post, start, complete, wait, one way between pairs
 *   idle_*       ping-pong, there and back, beside n idle objects; probe_*: a fruitless MPI_Iprobe beside them
 *   many_*       n objects made, all alive, and freed, the time of one; one_*: one after the other
 *   the rest     small collectives; compute_*: with 100 us of computing before each
 */
#define _GNU_SOURCE
#include "serve.h"
#include "waits.h"
#include "waits_collectives.h"
#include "waits_messages.h"
#include "waits_objects.h"
#include "waits_one_sided.h"
#ifdef WITH_THREADS
#include "waits_threads.h"
#endif

static const struct program PROGRAMS[] = {
    {"ring_iprobe", NULL, ring_iprobe, NULL, PER_RANK, 0},
    {"ring_improbe", NULL, ring_improbe, NULL, PER_RANK, 0},
    {"ring_test", NULL, ring_test, NULL, PER_RANK, 0},
    {"ring_testany", NULL, ring_testany, NULL, PER_RANK, 0},
    {"ring_recv", NULL, ring_recv, NULL, PER_RANK, 0},
    {"nothing_iprobe", NULL, nothing_iprobe, NULL, 1, 1},
    {"nothing_test", NULL, nothing_test, NULL, 1, 1},
    {"nothing_flush", open_locked, nothing_flush, close_locked, 1, 1},
    {"long_wait", NULL, long_wait, NULL, 1, 1},
#ifdef WITH_THREADS
    {"threads_iprobe", open_flag, threads_iprobe, close_flag, 2, 0},
    {"threads_fetch", open_flag, threads_fetch, close_flag, 2, 0},
#endif
    {"put_barrier", open_locked, put_barrier, close_locked, 1, 1},
    {"put_compute", open_locked, put_compute, close_locked, 1, 1},
    {"pscw_create", open_created, pscw_put, close_epochs, 1, 0},
    {"pscw_allocate", open_allocated, pscw_put, close_epochs, 1, 0},
    {"pscw_empty", open_created, pscw_empty, close_epochs, 1, 0},
    {"idle_nothing", hold_nothing, ping_pong, NULL, 1, 0},
    {"idle_windows", hold_windows, ping_pong, NULL, 1, 0},
    {"idle_communicators", hold_communicators, ping_pong, NULL, 1, 0},
    {"idle_requests", hold_requests, ping_pong, NULL, 1, 0},
    {"idle_ports", hold_ports, ping_pong, NULL, 1, 0},
    {"probe_windows", hold_windows, nothing_iprobe, NULL, 1, 1},
    {"probe_communicators", hold_communicators, nothing_iprobe, NULL, 1, 1},
    {"probe_requests", hold_requests, nothing_iprobe, NULL, 1, 1},
    {"probe_ports", hold_ports, nothing_iprobe, NULL, 1, 1},
    {"many_windows", NULL, many_windows, NULL, 1, 1},
    {"many_communicators", NULL, many_communicators, NULL, 1, 1},
    {"one_window", NULL, one_window, NULL, 1, 0},
    {"one_communicator", NULL, one_communicator, NULL, 1, 0},
    {"barrier", NULL, barrier, NULL, 1, 0},
    {"allgather", open_buffers, allgather, close_buffers, 1, 0},
    {"allreduce", open_buffers, allreduce, close_buffers, 1, 0},
    {"alltoall", open_buffers, alltoall, close_buffers, 1, 0},
    {"alltoall_empty", open_buffers, alltoall_empty, close_buffers, 1, 0},
    {"bcast_roots", open_buffers, bcast_roots, close_buffers, 1, 0},
    {"compute_allreduce", open_buffers, compute_allreduce, close_buffers, 1, 0},
    {"compute_ring", open_buffers, compute_ring, close_buffers, 1, 0},
};

static const struct program *find(const char *name)
{
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        if (!strcmp(PROGRAMS[i].name, name))
            return &PROGRAMS[i];
    give_up("no such program, or not at this level of threads:", name);
    return NULL;
}

/* One turn of all ranks; the seconds of the slowest. */
static double one_turn(const struct program *p, struct cell *c)
{
    double own, slowest;
    MPI_Barrier(MPI_COMM_WORLD);
    own = p->turn(c);
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Runs turns with more and more iterations until the time of the cell is over; the first one warms up. Returns the
 * seconds of an iteration. */
static double mean(const struct program *p, struct cell *c)
{
    double total = 0;
    long done = 0;
    if (p->by_clock) {
        total = one_turn(p, c);
        MPI_Bcast(&c->iterations, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        return total / (double)c->iterations;
    }
    c->iterations = 1;
    one_turn(p, c);
    while (total < c->seconds) {
        total += one_turn(p, c);
        done += c->iterations;
        double left = (c->seconds - total) / total * (double)done;
        c->iterations = left < 2 * (double)c->iterations ? (long)left + 1 : 2 * c->iterations;
    }
    c->iterations = done;
    return total / (double)done;
}

static void run_cell(const char *name, const char *mode, int n, double ms)
{
    const struct program *p = find(name);
    struct cell c = {.n = n, .seconds = ms / 1000};
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c.ranks);
    if (p->open && !p->open(&c))
        return;
    double seconds = mean(p, &c) / (p->parts == PER_RANK ? c.ranks : p->parts);
    if (p->close)
        p->close(&c);
    if (c.rank == 0)
        printf("cell op=%s mode=%s ranks=%d bytes=%d us=%.4f least=%.4f iterations=%ld wrong=0\n", name, mode, c.ranks, n,
               seconds * 1e6, seconds * 1e6, c.iterations);
    fflush(stdout);
}

/* The objects of a cell, where a program counts some. */
static int number(const char *text)
{
    int n = atoi(text);
    if (n < 0 || n > MOST_OBJECTS)
        give_up("not a number of objects:", text);
    return n;
}

static void run_asked(const struct ask *ask)
{
    run_cell(ask->name, ask->mode, number(ask->size), ask->ms);
}

int main(int argc, char **argv)
{
#ifdef WITH_THREADS
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE)
        give_up("threads are", "not supported");
#else
    MPI_Init(&argc, &argv);
#endif
    struct cell none = {0};
    if (argc < 2)
        give_up("a program is to be named:", "see the head of waits.c");
    else if (argc > 2 && !strcmp(argv[1], "--serve"))
        serve(argv[2], run_asked);
    else
        for (int round = 0; round < (argc > 4 ? atoi(argv[4]) : 1); round++)
            run_cell(argv[1], "plain", argc > 2 ? number(argv[2]) : 0, argc > 3 ? atof(argv[3]) : 100);
    drop_objects(&none);
    MPI_Finalize();
    return 0;
}
