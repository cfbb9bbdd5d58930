/* Memory that has been used in communication so often that its pages are shared with the other ranks, and
 * memory like it that has not: for programs that compare the two. */
#ifndef TUTTI_TEST_EXPOSED_H
#define TUTTI_TEST_EXPOSED_H

#include "../check.h"
#include <errno.h>
#include <sys/mman.h>

enum { USES = 40, PAGE = 4096 };

/* Returns private anonymous memory that contains a pattern. */
static inline unsigned char *fresh(size_t bytes, int seed)
{
    unsigned char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    for (size_t at = 0; at < bytes; at++)
        memory[at] = (unsigned char)(at / 7 + at / PAGE + (size_t)seed) | 1;
    return memory;
}

/* Returns 1 if any of the memory is shared with other ranks (a mapping of the library's object). Only Tutti
 * shares memory in this way. */
static inline int is_exposed(const void *memory, size_t bytes)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long start, end, first = (unsigned long)memory;
    char line[512], rights[8];
    int found = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3 && start < first + bytes && first < end)
            found |= rights[3] == 's' && strstr(line, "tutti-mapped") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Uses the memory as a buffer on all ranks; its content stays. `EXPOSED` in the environment: it must be
 * shared then. */
static inline void expose(unsigned char *memory, size_t bytes)
{
    unsigned char *other = malloc(bytes);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int use = 0; use < USES; use++)
        MPI_Sendrecv(memory, (int)bytes, MPI_BYTE, right, 0, other, (int)bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int use = 0; use < USES; use++) {
        memcpy(other, memory, bytes);
        MPI_Allreduce(MPI_IN_PLACE, memory, (int)bytes, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
        memcpy(memory, other, bytes);
    }
    free(other);
    if (getenv("EXPOSED"))
        CHECK(is_exposed(memory, bytes));
}

/* Sends the memory around, and checks the received data. */
static inline void check_use(unsigned char *memory, size_t bytes)
{
    unsigned char *other = malloc(bytes), *sums = malloc(bytes);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int use = 0; use < 3; use++) {
        for (size_t at = 0; at < bytes; at++)
            memory[at] = (unsigned char)(at / 5 + (size_t)(use + check_rank));
        MPI_Sendrecv(memory, (int)bytes, MPI_BYTE, right, 0, other, (int)bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(memory, sums, (int)bytes, MPI_UINT8_T, MPI_MAX, MPI_COMM_WORLD);
        size_t wrong = 0;
        for (size_t at = 0; at < bytes; at++) {
            wrong += other[at] != (unsigned char)(at / 5 + (size_t)(use + left));
            unsigned char most = 0;
            for (int rank = 0; rank < check_size; rank++) {
                unsigned char one = (unsigned char)(at / 5 + (size_t)(use + rank));
                most = one > most ? one : most;
            }
            wrong += sums[at] != most;
        }
        CHECK_EQUAL(wrong, 0);
    }
    free(other);
    free(sums);
}

#endif
