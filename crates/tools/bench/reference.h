/* References without MPI, between the same processes and in the same turns as the operations of MPI: a cache
 * line that two ranks write alternately, and copies from a mapping that all ranks share.
 */
#ifndef TUTTI_BENCH_REFERENCE_H
#define TUTTI_BENCH_REFERENCE_H

#include "operations.h"
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* A line of its own for each rank; two numbers, as neighbouring lines are fetched together. */
struct line {
    _Alignas(128) atomic_ulong ready;
    _Alignas(128) atomic_ulong done;
};

struct reference {
    struct line *lines;
    char *memory; /* a region of `room` bytes for each rank */
    size_t room, mapped;
    unsigned long turn;
    long spins;
};

/* The memory is a file without a name that rank 0 makes and the others open through /proc. */
static void reference_open(struct reference *r, const struct cell *c)
{
    int where[2] = {(int)getpid(), -1};
    char path[64];
    size_t lines = ((size_t)c->ranks * sizeof(struct line) + 4095) / 4096 * 4096;
    r->room = (c->bytes + 4095) / 4096 * 4096;
    r->mapped = lines + r->room * (size_t)c->ranks;
    r->turn = 0;
    r->spins = c->ranks > sysconf(_SC_NPROCESSORS_ONLN) ? 1 : 100000;
    if (c->rank == 0) {
        where[1] = memfd_create("reference", 0);
        if (where[1] < 0 || ftruncate(where[1], (off_t)r->mapped))
            MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
    int file = c->rank == 0 ? where[1] : open(path, O_RDWR);
    void *memory = mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || memory == MAP_FAILED) {
        fprintf(stderr, "tutti-bench: no shared memory for the reference\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    close(file);
    r->lines = memory;
    r->memory = (char *)memory + lines;
}

static void reference_close(struct reference *r)
{
    MPI_Barrier(MPI_COMM_WORLD);
    munmap(r->lines, r->mapped);
}

static float *region(const struct reference *r, int rank)
{
    return (float *)(void *)(r->memory + r->room * (size_t)rank);
}

static void until(const struct reference *r, atomic_ulong *number, unsigned long turn)
{
    for (long spins = 0; atomic_load_explicit(number, memory_order_acquire) < turn;)
        if (++spins > r->spins)
            sched_yield();
}

static void say(atomic_ulong *number, unsigned long turn)
{
    atomic_store_explicit(number, turn, memory_order_release);
}

static void line_there_and_back(struct reference *r, int rank)
{
    r->turn++;
    if (rank == 0) {
        say(&r->lines[0].ready, r->turn);
        until(r, &r->lines[1].ready, r->turn);
    } else if (rank == 1) {
        until(r, &r->lines[0].ready, r->turn);
        say(&r->lines[1].ready, r->turn);
    }
}

/* Everyone copies what is needed out of the owners' regions, and owners wait until all have done so. */
static void copy_around(struct reference *r, struct cell *c)
{
    size_t bytes = (size_t)c->count * sizeof(float);
    int bcast = c->kind == COPY_BCAST;
    r->turn++;
    say(&r->lines[c->rank].ready, r->turn);
    for (int i = 0; i < c->gotten.blocks; i++) {
        int owner = bcast ? 0 : (c->rank + i) % c->ranks;
        until(r, &r->lines[owner].ready, r->turn);
        memcpy(c->in + (bcast ? 0 : c->gotten.places[owner]), region(r, owner), bytes);
    }
    say(&r->lines[c->rank].done, r->turn);
    for (int i = 0; i < c->ranks && (!bcast || c->rank == 0); i++)
        until(r, &r->lines[i].done, r->turn);
}

static void reference_turn(struct reference *r, struct cell *c)
{
    if (c->kind == LINE)
        line_there_and_back(r, c->rank);
    else
        copy_around(r, c);
}

#endif
