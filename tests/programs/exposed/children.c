/* Children of every kind see memory that was used in communication as it was when they were made, and of
 * their own.
 *
 * usage: children [window]     with a window on the memory, which other ranks may write at any time
 */
#define _GNU_SOURCE
#include "exposed.h"
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, BLOCK = 256 << 10, STACK = 256 << 10 };

/* struct clone_args of linux/sched.h. */
struct arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static unsigned char *memory, *heap, *allocated, *guarded;
static unsigned char before[BYTES];
static int go[2];

static long differs(const unsigned char *one, const unsigned char *other, size_t bytes)
{
    long count = 0;
    for (size_t at = 0; at < bytes; at++)
        count += one[at] != other[at];
    return count;
}

/* Runs the child: waits until the parent has written its memory, then checks the child's own. The status
 * tells which check has failed. */
static int child(void)
{
    char token;
    if (read(go[0], &token, 1) != 1)
        return 2;
    if (differs(memory, before, BYTES) || differs(heap, before, BYTES) || differs(allocated, before, BLOCK))
        return 3;
    if (guarded[0] != 77)
        return 4;
    memset(memory, 200, BYTES);
    memset(heap, 201, BYTES);
    memset(allocated, 202, BLOCK);
    pid_t grandchild = fork();
    if (grandchild == 0)
        _exit(memory[5] == 200 && heap[6] == 201 && allocated[7] == 202 ? 0 : 5);
    int status = 0;
    waitpid(grandchild, &status, 0);
    memory = mremap(memory, BYTES, BYTES / 2, 0);
    memory = mremap(memory, BYTES / 2, BYTES, MREMAP_MAYMOVE);
    if (memory == MAP_FAILED || memory[BYTES / 2 - 1] != 200 || memory[BYTES / 2] != 0 || memory[BYTES - 1] != 0)
        return 6;
    if (madvise(memory, BYTES, MADV_DONTNEED) != 0 || memory[0] != 0)
        return 7;
    return status ? 8 : 0;
}

static int begin(void *nothing)
{
    (void)nothing;
    _exit(child());
}

static pid_t by_fork(void) { return fork(); }
static pid_t by_Fork(void) { return _Fork(); }
static pid_t by_call_of_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

static pid_t by_call_of_fork(void)
{
#ifdef SYS_fork
    return (pid_t)syscall(SYS_fork);
#else
    return by_call_of_clone();
#endif
}

static pid_t by_call_of_clone3(void)
{
    struct arguments arguments = {.exit_signal = SIGCHLD};
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static pid_t by_clone(void)
{
    static char stack[STACK] __attribute__((aligned(16)));
    return clone(begin, stack + STACK, SIGCHLD, NULL);
}

static pid_t by_clone_of_the_stack(void)
{
    struct arguments arguments = {.exit_signal = SIGCHLD, .flags = CLONE_PARENT_SETTID};
    static pid_t written;
    arguments.parent_tid = (uint64_t)(uintptr_t)&written;
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static const struct kind {
    const char *name;
    pid_t (*make)(void);
} kinds[] = {
    {"fork", by_fork}, {"_Fork", by_Fork}, {"SYS_fork", by_call_of_fork}, {"SYS_clone", by_call_of_clone},
    {"SYS_clone3", by_call_of_clone3}, {"clone", by_clone}, {"SYS_clone3 with a number", by_clone_of_the_stack},
};

static void fill(int round)
{
    for (size_t at = 0; at < BYTES; at++)
        memory[at] = heap[at] = before[at] = (unsigned char)(at / 3 + (size_t)round) | 1;
    memcpy(allocated, before, BLOCK);
}

static void check_kind(const struct kind *kind, int round)
{
    fill(round);
    expose(memory, BYTES);
    expose(heap, BYTES);
    expose(allocated, BLOCK);
    CHECK_EQUAL(pipe(go), 0);
    pid_t made = kind->make();
    if (made == 0)
        _exit(child());
    CHECK(made > 0);
    memset(memory, 100, BYTES);
    memset(heap, 101, BYTES);
    memset(allocated, 102, BLOCK);
    check_use(memory, BYTES);
    CHECK_EQUAL(write(go[1], "x", 1), 1);
    memset(memory, 100, BYTES);
    int status = 0;
    CHECK_EQUAL(waitpid(made, &status, 0), made);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        check_say(__FILE__, __LINE__, "%s: the child ended with status %#x", kind->name, status);
    CHECK(memory[0] == 100 && memory[BYTES - 1] == 100 && heap[9] == 101 && allocated[9] == 102);
    close(go[0]);
    close(go[1]);
}

/* Children that share memory with their parent, or leave it at once, are tested apart. The function below is
 * such a child and writes to the shared memory. */
static int write_there(void *place)
{
    *(unsigned char *)place = 55;
    return 0;
}

static void check_others(void)
{
    static char stack[STACK] __attribute__((aligned(16)));
    extern char **environ;
    char *words[] = {"true", NULL};
    pid_t made;
    int status = 1;
    expose(memory, BYTES);
    made = clone(write_there, stack + STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, memory + 12345);
    CHECK(made > 0 && waitpid(made, &status, 0) == made && status == 0);
    CHECK_EQUAL(memory[12345], 55);
    CHECK_EQUAL(posix_spawnp(&made, "true", NULL, NULL, words, environ), 0);
    CHECK(waitpid(made, &status, 0) == made && status == 0);
    CHECK_EQUAL(system("true"), 0);
    made = vfork();
    if (made == 0)
        _exit(memory[12345] == 55 ? 0 : 1);
    CHECK(waitpid(made, &status, 0) == made && status == 0);
    if (getenv("EXPOSED"))
        CHECK(is_exposed(memory, BYTES));
}

int main(int argc, char **argv)
{
    int has_window = argc > 1 && !strcmp(argv[1], "window");
    MPI_Win window;
    check_begin(&argc, &argv);
    memory = fresh(BYTES, 0);
    heap = malloc(BYTES);
    MPI_Alloc_mem(BLOCK, MPI_INFO_NULL, &allocated);
    guarded = fresh(16 * PAGE, 0);
    memset(guarded, 77, 16 * PAGE);
    expose(guarded, 16 * PAGE);
    CHECK_EQUAL(mprotect(guarded, 16 * PAGE, PROT_READ), 0);
    if (has_window) {
        fill(0);
        expose(memory, BYTES);
        MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_fence(0, window);
    }
    for (int round = 0; round < 2; round++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
            check_kind(&kinds[kind], 10 * round + (int)kind);
    check_others();
    if (has_window) {
        unsigned char value = (unsigned char)(90 + check_rank);
        MPI_Put(&value, 1, MPI_BYTE, (check_rank + 1) % check_size, 4097, 1, MPI_BYTE, window);
        MPI_Win_fence(0, window);
        CHECK_EQUAL(memory[4097], 90 + (check_rank + check_size - 1) % check_size);
        MPI_Win_free(&window);
    }
    MPI_Free_mem(allocated);
    return check_end();
}
