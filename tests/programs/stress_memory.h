/* Memory as programs use it, for coll_stress.c: from malloc, mmap, MPI_Alloc_mem, or the same places over and
 * over; given back, grown, unmapped, mapped again, protected, and seen by a forked child, in between.
 */
#ifndef TUTTI_TEST_STRESS_MEMORY_H
#define TUTTI_TEST_STRESS_MEMORY_H

#include "check.h"
#include "random.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FROM_MALLOC, FROM_MMAP, FROM_MPI, FROM_PLACE, SOURCES, PLACES = 4, PLACE_BYTES = 4 << 20 };

struct memory {
    char *start; /* what the user sees */
    char *base;
    size_t bytes;
    int source, place;
};

/* Places that stay at their address for the whole run. */
static char *places[PLACES];
static int place_used[PLACES];

static char *map_pages(char *at, size_t bytes)
{
    char *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "rank %d: cannot map %zu bytes\n", check_rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return memory;
}

static void memory_begin(void)
{
    for (int i = 0; i < PLACES; i++)
        places[i] = map_pages(NULL, PLACE_BYTES);
}

static int free_place(void)
{
    for (int i = 0; i < PLACES; i++)
        if (!place_used[i])
            return i;
    return -1;
}

/* `source` and `shift` (bytes from the page's beginning, a multiple of 4) are drawn by the caller, the same
 * on all ranks. */
static struct memory memory_get(size_t bytes, int source, size_t shift)
{
    struct memory m = {NULL, NULL, bytes + shift + 64, source, free_place()};
    if (m.source == FROM_PLACE && (m.place < 0 || m.bytes > PLACE_BYTES))
        m.source = FROM_MALLOC;
    switch (m.source) {
    case FROM_PLACE: place_used[m.place] = 1; m.base = places[m.place]; break;
    case FROM_MMAP: m.base = map_pages(NULL, m.bytes); break;
    case FROM_MPI: CHECK_EQUAL(MPI_Alloc_mem((MPI_Aint)m.bytes, MPI_INFO_NULL, &m.base), MPI_SUCCESS); break;
    default: m.base = check_memory(m.bytes); break;
    }
    m.start = m.base + shift;
    return m;
}

static void memory_put(struct memory *m)
{
    switch (m->source) {
    case FROM_PLACE: place_used[m->place] = 0; break;
    case FROM_MMAP: munmap(m->base, m->bytes); break;
    case FROM_MPI: MPI_Free_mem(m->base); break;
    default: free(m->base); break;
    }
}

/* Changes memory that no operation uses, in ways in which a program may do so. */
static void memory_churn(unsigned what)
{
    int i = free_place();
    size_t half = PLACE_BYTES / 2, piece = 64 << 10;
    if (what == 0) {
        char *memory = check_memory(1 << 20), *more = realloc(memory, 3 << 20);
        memset(more ? more : memory, 1, 1 << 20);
        free(more ? more : memory);
    } else if (i >= 0 && what == 1) {
        munmap(places[i], PLACE_BYTES); /* another mapping may come to lie there */
        places[i] = map_pages(NULL, PLACE_BYTES);
    } else if (i >= 0 && what == 2) {
        map_pages(places[i] + half, half); /* new pages at the same address */
        CHECK_EQUAL(places[i][half], 0);
    } else if (i >= 0 && what == 3) {
        places[i][piece] = 5;
        mprotect(places[i], piece * 2, PROT_READ);
        CHECK_EQUAL(places[i][piece], 5);
        mprotect(places[i], piece * 2, PROT_READ | PROT_WRITE);
        places[i][piece] = 6;
    } else if (i >= 0 && what == 4) {
        madvise(places[i], half, MADV_DONTNEED);
        CHECK_EQUAL(places[i][piece], 0);
    }
}

/* ---- a child that lives for some operations ---- */

static pid_t child;
static int child_pipe[2], child_place;

static int filled(const char *memory, char with)
{
    for (size_t i = 0; i < PLACE_BYTES; i += 997)
        if (memory[i] != with)
            return 0;
    return 1;
}

/* Returns a sum of the places that no operation uses. An outstanding operation may still write into its own
 * place. */
static uint64_t sum_of_places(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < PLACES; i++)
        for (size_t at = 0; !place_used[i] && at < PLACE_BYTES; at += 1021)
            sum = mix(sum + (unsigned char)places[i][at]);
    return sum;
}

/* Checks that a child has the memory as it was and may write it, and that parent and child do not see each
 * other's writes. */
static void be_child(char *own)
{
    uint64_t before = sum_of_places();
    char go;
    close(child_pipe[1]);
    int good = read(child_pipe[0], &go, 1) == 0 && filled(own, 'a') && sum_of_places() == before;
    for (int i = 0; i < PLACES; i++)
        memset(places[i], 'c', PLACE_BYTES);
    _exit(good ? 0 : 1);
}

static void fork_child(void)
{
    if (child || free_place() < 0 || pipe(child_pipe))
        return;
    child_place = free_place();
    memset(places[child_place], 'a', PLACE_BYTES);
    child = fork();
    if (child == 0)
        be_child(places[child_place]);
    close(child_pipe[0]);
    if (child < 0) {
        close(child_pipe[1]);
        child = 0;
        return;
    }
    place_used[child_place] = 1;
    memset(places[child_place], 'b', PLACE_BYTES);
}

static void reap_child(void)
{
    int status = -1;
    if (!child)
        return;
    close(child_pipe[1]);
    while (waitpid(child, &status, 0) != child)
        ;
    child = 0;
    place_used[child_place] = 0;
    CHECK(filled(places[child_place], 'b'));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        check_say(__FILE__, __LINE__, "operation %llu: a child saw what happened to its parent's memory after the fork, or died (status %d)",
                  (unsigned long long)operation, status);
}

#endif
