/* Counts the instructions that a call takes in the thread that makes it: a child of the process steps through
 * it (ptrace). Times say little on a busy machine; this says the same each time. */
#ifndef TUTTI_TEST_STEPS_H
#define TUTTI_TEST_STEPS_H

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static int steps_to_child[2], steps_to_parent[2];

/* The child: for each byte it counts from SIGUSR1 to SIGUSR2 and answers. */
static inline long steps_of_one(pid_t traced)
{
    long count = 0;
    int status, signal, counts = 0;
    char yes = 1;
    if (ptrace(PTRACE_SEIZE, traced, 0, 0) < 0)
        return -1;
    if (write(steps_to_parent[1], &yes, 1) != 1)
        return -1;
    for (;;) {
        if (waitpid(traced, &status, __WALL) != traced || !WIFSTOPPED(status))
            return -1;
        signal = WSTOPSIG(status);
        if (signal == SIGUSR2) {
            ptrace(PTRACE_DETACH, traced, 0, 0);
            return count;
        }
        count += counts;
        counts |= signal == SIGUSR1;
        if (signal == SIGTRAP || signal == SIGUSR1)
            signal = 0;
        if (ptrace(counts ? PTRACE_SINGLESTEP : PTRACE_CONT, traced, 0, signal) < 0)
            return -1;
    }
}

/* Before MPI_Init: the child must have nothing of the library. */
static inline void steps_begin(void)
{
    pid_t parent = getpid();
    char byte, no = 0;
    if (pipe(steps_to_child) || pipe(steps_to_parent))
        exit(4);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    if (fork()) {
        close(steps_to_child[0]), close(steps_to_parent[1]);
        return;
    }
    close(steps_to_child[1]), close(steps_to_parent[0]);
    while (read(steps_to_child[0], &byte, 1) == 1) {
        long count = steps_of_one(parent);
        if (count < 0 && write(steps_to_parent[1], &no, 1) != 1)
            break;
        if (count >= 0 && write(steps_to_parent[1], &count, sizeof count) != sizeof count)
            break;
    }
    _exit(0);
}

/* Returns the instructions of `call`, or -1 if no process may step through this one. */
static inline long steps_of(void (*call)(void))
{
    char go = 1, able = 0;
    long count = -1;
    if (write(steps_to_child[1], &go, 1) != 1 || read(steps_to_parent[0], &able, 1) != 1 || !able)
        return -1;
    raise(SIGUSR1);
    call();
    raise(SIGUSR2);
    if (read(steps_to_parent[0], &count, sizeof count) != sizeof count)
        return -1;
    return count;
}

static inline void steps_end(void)
{
    close(steps_to_child[1]);
    while (wait(NULL) < 0 && errno == EINTR)
        ;
}

#endif
