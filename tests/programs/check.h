/* Macros for every test program: CHECK counts and names errors, DONE ends the program. */
#ifndef TUTTI_TEST_CHECK_H
#define TUTTI_TEST_CHECK_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_rank, check_size;
static long check_failures;

static inline void check_say(const char *file, int line, const char *format, ...)
{
    va_list list;
    if (++check_failures > 20)
        return;
    fprintf(stderr, "%s:%d: rank %d of %d: ", file, line, check_rank, check_size);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    fflush(stderr);
}

#define CHECK(condition)                                                                                 \
    do {                                                                                                 \
        if (!(condition))                                                                                \
            check_say(__FILE__, __LINE__, "%s", #condition);                                             \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                                         \
    do {                                                                                                 \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                \
        if (got_ != wanted_)                                                                             \
            check_say(__FILE__, __LINE__, "%s is %lld, not %lld", #got, got_, wanted_);                  \
    } while (0)

/* The call must give an error of this class (MPI_SUCCESS: none). */
#define CHECK_CLASS(call, wanted)                                                                        \
    do {                                                                                                 \
        int code_ = (call), class_ = MPI_SUCCESS;                                                        \
        if (code_ != MPI_SUCCESS)                                                                        \
            MPI_Error_class(code_, &class_);                                                             \
        if (class_ != (wanted))                                                                          \
            check_say(__FILE__, __LINE__, "%s gives class %d, not %s", #call, class_, #wanted);          \
    } while (0)

static inline void check_begin(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
}

/* Stores the ranks of the world with the same processor name as this rank, in their order. `ranks` has room
 * for all. Returns their number. */
static inline int check_neighbours(int *ranks)
{
    enum { LENGTH = MPI_MAX_PROCESSOR_NAME };
    char name[LENGTH] = "", *names = malloc((size_t)check_size * LENGTH);
    int count = 0, length;
    MPI_Get_processor_name(name, &length);
    MPI_Allgather(name, LENGTH, MPI_CHAR, names, LENGTH, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < check_size; i++)
        if (!strcmp(names + (size_t)i * LENGTH, name))
            ranks[count++] = i;
    free(names);
    return count;
}

/* Adds up the errors of all ranks. Rank 0 prints "ok" or their number. Returns the status of the program. */
static inline int check_end(void)
{
    long all = 0;
    MPI_Allreduce(&check_failures, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (check_rank == 0)
        printf(all ? "FAILED: %ld checks\n" : "ok\n", all);
    MPI_Finalize();
    return all != 0;
}

static inline void *check_memory(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "rank %d: no memory for %zu bytes\n", check_rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return memory;
}

#endif
