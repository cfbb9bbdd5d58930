/* A program that loads MPI at run time into a name space of its own, as an interpreter does. Its calls were
 * bound without the library. The same holds for calls of objects that it loads later, and for functions that
 * it looks up.
 *
 * usage: loaded LIBRARY PLUGIN
 *
 * It is built without the library; the plugin is this file, built with -DPLUGIN -shared.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, USES = 40 };

#ifdef PLUGIN
/* A child, made by number, and a discard. */
int plugin(unsigned char *memory)
{
    pid_t made = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    int status = 1;
    if (made == 0)
        _exit(memory[5] == 7 ? 0 : 1);
    waitpid(made, &status, 0);
    munlock(memory, BYTES);
    if (status != 0 || syscall(SYS_madvise, memory, BYTES, MADV_DONTNEED) != 0)
        return 1;
    for (int at = 0; at < BYTES; at++)
        if (memory[at] != 0)
            return 2;
    return 0;
}
#else

static void *library;
static int rank, size, failures;

#define CALL(name, ...) ((int (*)())dlsym(library, #name))(__VA_ARGS__)
#define CHECK(condition)                                                                                 \
    do {                                                                                                 \
        if (!(condition)) {                                                                              \
            failures++;                                                                                  \
            fprintf(stderr, "loaded.c:%d: rank %d: %s\n", __LINE__, rank, #condition);                   \
        }                                                                                                \
    } while (0)

static void expose(unsigned char *memory)
{
    unsigned char *other = malloc(BYTES);
    char line[512];
    int found = 0;
    memset(memory, 7, BYTES);
    for (int use = 0; use < USES; use++)
        CALL(MPI_Sendrecv, memory, BYTES, MPI_BYTE, (rank + 1) % size, 0, other, BYTES, MPI_BYTE, (rank + size - 1) % size, 0,
             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long start = 0, end = 0, here = (unsigned long)memory;
        sscanf(line, "%lx-%lx", &start, &end);
        found |= start <= here + BYTES / 2 && here + BYTES / 2 < end && strstr(line, "tutti-mapped") != NULL;
    }
    fclose(maps);
    CHECK(found || !getenv("EXPOSED"));
    free(other);
}

static void check_child(unsigned char *memory, pid_t made)
{
    int status = 1;
    if (made == 0)
        _exit(memory[5] == 7 && memory[BYTES - 1] == 7 ? 0 : 1);
    CHECK(waitpid(made, &status, 0) == made && status == 0);
}

int main(int argc, char **argv)
{
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || argc < 3) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    CALL(MPI_Init, NULL, NULL);
    CALL(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
    CALL(MPI_Comm_size, MPI_COMM_WORLD, &size);
    unsigned char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *c = dlopen("libc.so.6", RTLD_NOW);
    long (*by_number)(long, ...) = (long (*)(long, ...))dlsym(c, "syscall");
    pid_t (*by_name)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    int (*advise)(void *, size_t, int) = (int (*)(void *, size_t, int))dlsym(c, "madvise");
    expose(memory);
    check_child(memory, fork());
    expose(memory);
    check_child(memory, _Fork());
    expose(memory);
    check_child(memory, (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    expose(memory);
    check_child(memory, (pid_t)by_number(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    expose(memory);
    check_child(memory, by_name());
    expose(memory);
    CHECK(advise(memory, BYTES / 2, MADV_DONTNEED) == 0 && memory[0] == 0 && memory[BYTES - 1] == 7);
    expose(memory);
    /* Loaded afterwards: found at the next call of MPI. */
    void *plugin = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    CALL(MPI_Barrier, MPI_COMM_WORLD);
    if (plugin)
        CHECK(((int (*)(unsigned char *))dlsym(plugin, "plugin"))(memory) == 0);
    CALL(MPI_Allreduce, MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && failures == 0)
        puts("ok");
    CALL(MPI_Finalize);
    return failures != 0;
}
#endif
