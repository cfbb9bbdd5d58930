/* A program that makes children, and discards memory, by instructions of its own rather than by the C
 * library. */
#define _GNU_SOURCE
#include "exposed.h"
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };

#ifdef __x86_64__
static inline long call(long number, long a, long b, long c)
{
    long result;
    register long d __asm__("r10") = 0, e __asm__("r8") = 0;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d), "r"(e) : "rcx", "r11", "memory");
    return result;
}
#else
#define call(number, a, b, c) syscall(number, a, b, c, 0, 0)
#endif

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    unsigned char *memory = fresh(BYTES, 3);
    unsigned char first = memory[0], last = memory[BYTES - 1];
    int status = 1;
    expose(memory, BYTES);
    long made = call(SYS_clone, SIGCHLD, 0, 0);
    if (made == 0)
        _exit(memory[0] == first && memory[BYTES - 1] == last ? 0 : 1);
    CHECK(made > 0 && waitpid((pid_t)made, &status, 0) == made);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(call(SYS_munlock, (long)memory, BYTES, 0), 0);
    CHECK_EQUAL(call(SYS_madvise, (long)memory, BYTES, MADV_DONTNEED), 0);
    for (int at = 0; at < BYTES; at += PAGE)
        CHECK_EQUAL(memory[at], 0);
    check_use(memory, BYTES);
    return check_end();
}
