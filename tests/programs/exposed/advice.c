/* Calls on memory that was used in communication act as on other private memory. Each call is made on both,
 * and the visible effects are compared. */
#define _GNU_SOURCE
#include "exposed.h"
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20, HALF = BYTES / 2, MOST_SEEN = 32 };
enum { DONTNEED_LOCKED = 24, GUARD_INSTALL = 102, GUARD_REMOVE = 103, SELF = -10001 };

/* Observations: results and errors of calls, digests of memory. */
static long seen[MOST_SEEN];
static int seen_count;

static void see(long value)
{
    if (seen_count < MOST_SEEN)
        seen[seen_count++] = value;
}

static void see_call(long result)
{
    see(result < 0 ? -errno : 0);
}

static void see_memory(const unsigned char *memory, size_t bytes)
{
    unsigned long digest = 0;
    for (size_t at = 0; at < bytes; at++)
        digest = digest * 31 + memory[at];
    see((long)digest);
}

/* Checks that each page is unchanged or zero, and records the result. */
static void see_freed(const unsigned char *memory, size_t bytes, const unsigned char *was)
{
    static const unsigned char zeros[PAGE];
    int right = 1;
    for (size_t at = 0; at < bytes; at += PAGE)
        right &= !memcmp(memory + at, zeros, PAGE) || !memcmp(memory + at, was + at, PAGE);
    see(right);
}

/* Records the end of a child that reads the memory: its first byte, or the signal. */
static void see_child(const unsigned char *memory, pid_t made)
{
    int status = 0;
    if (made == 0) {
        unsigned long sum = 0;
        for (size_t at = 0; at < BYTES; at += PAGE)
            sum += memory[at];
        _exit((int)(sum & 127));
    }
    waitpid(made, &status, 0);
    see(status);
}

static long raw_advise(unsigned char *memory, size_t bytes, int advice)
{
    return syscall(SYS_madvise, memory, bytes, advice);
}

static void discard(unsigned char *m)
{
    see_call(madvise(m, HALF, MADV_DONTNEED));
    see_memory(m, BYTES);
    m[3] = 9;
    see_memory(m, BYTES);
}

static void discard_by_number(unsigned char *m)
{
    see_call(raw_advise(m + 3 * PAGE, HALF, MADV_DONTNEED));
    see_memory(m, BYTES);
}

static void discard_part_of_a_page(unsigned char *m)
{
    see_call(raw_advise(m + PAGE, 100, MADV_DONTNEED));
    see_call(raw_advise(m + 9, 100, MADV_DONTNEED));
    see_call(raw_advise(m, 0, MADV_DONTNEED));
    see_memory(m, BYTES);
}

static void discard_unlocked(unsigned char *m)
{
    see_call(munlock(m, BYTES));
    see_call(raw_advise(m, BYTES, MADV_DONTNEED));
    see_memory(m, BYTES);
}

static void discard_unlocked_by_number(unsigned char *m)
{
    see_call(syscall(SYS_munlock, m, BYTES));
    see_call(raw_advise(m + HALF, HALF, MADV_DONTNEED));
    see_memory(m, BYTES);
}

static void discard_all_unlocked(unsigned char *m)
{
    see_call(munlockall());
    see_call(raw_advise(m, HALF, MADV_DONTNEED));
    see_call(syscall(SYS_munlockall));
    see_call(madvise(m + HALF, PAGE, MADV_DONTNEED));
    see_memory(m, BYTES);
}

static void discard_locked(unsigned char *m)
{
    see_call(raw_advise(m, HALF, DONTNEED_LOCKED));
    see_memory(m, BYTES);
}

static void free_lazily(unsigned char *m)
{
    unsigned char *was = malloc(BYTES);
    memcpy(was, m, BYTES);
    see_call(raw_advise(m, HALF, MADV_FREE));
    see_freed(m, HALF, was);
    memset(m, 3, HALF);
    see_memory(m, BYTES);
    free(was);
}

static void discard_by_process(unsigned char *m)
{
    struct iovec ranges[2] = {{m, 2 * PAGE}, {m + HALF, HALF}};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    long done = syscall(SYS_process_madvise, self, ranges, 2, MADV_DONTNEED, 0);
    see(done < 0 ? -errno : done);
    done = syscall(SYS_process_madvise, SELF, ranges, 1, MADV_DONTNEED, 0);
    see(done < 0 ? -errno : done);
    see_memory(m, BYTES);
    close(self);
}

static void remove_pages(unsigned char *m)
{
    see_call(madvise(m, BYTES, MADV_REMOVE));
    see_call(raw_advise(m, BYTES, MADV_REMOVE));
    see_memory(m, BYTES);
}

static void hint(unsigned char *m)
{
    const int hints[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, 20 /* cold */, 21 /* pageout */,
                         MADV_HUGEPAGE, MADV_NOHUGEPAGE, 22 /* populate */, 23};
    for (size_t at = 0; at < sizeof hints / sizeof *hints; at++)
        see_call(raw_advise(m, BYTES, hints[at]));
    see_call(madvise(m, BYTES, 9999));
    see_memory(m, BYTES);
}

static void wipe_in_children(unsigned char *m)
{
    see_call(madvise(m, HALF, MADV_WIPEONFORK));
    see_child(m, fork());
    see_memory(m, BYTES);
    see_call(madvise(m, HALF, MADV_KEEPONFORK));
    see_child(m, fork());
}

static void wipe_in_children_by_number(unsigned char *m)
{
    see_call(raw_advise(m + HALF, HALF, MADV_WIPEONFORK));
    see_child(m, (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    see_child(m, fork());
    see_memory(m, BYTES);
}

static void keep_from_children(unsigned char *m)
{
    see_call(madvise(m, HALF, MADV_DONTFORK));
    see_child(m, fork());
    see_call(madvise(m, HALF, MADV_DOFORK));
    see_child(m, fork());
    see_memory(m, BYTES);
}

static void give_to_children(unsigned char *m)
{
    see_call(raw_advise(m, BYTES, MADV_DOFORK));
    pid_t made = fork();
    if (made == 0) {
        memset(m, 5, BYTES);
        _exit(0);
    }
    waitpid(made, NULL, 0);
    see_memory(m, BYTES);
}

static void see_after_child(unsigned char *m)
{
    see_child(m, fork());
    see_memory(m, BYTES);
}

static void shrink_and_grow(unsigned char *m)
{
    unsigned char *moved = mremap(m, BYTES, HALF, 0);
    see(moved == m);
    moved = mremap(moved, HALF, BYTES, MREMAP_MAYMOVE);
    see(moved != MAP_FAILED);
    see_memory(moved, BYTES);
}

static void shrink_and_grow_by_number(unsigned char *m)
{
    long moved = syscall(SYS_mremap, m, BYTES, HALF, 0, 0);
    moved = syscall(SYS_mremap, moved, HALF, 2 * BYTES, MREMAP_MAYMOVE, 0);
    see(moved != -1);
    see_memory((unsigned char *)moved, 2 * BYTES);
}

static void grow(unsigned char *m)
{
    unsigned char *moved = mremap(m, BYTES, 3 * BYTES, MREMAP_MAYMOVE);
    see(moved != MAP_FAILED);
    see_memory(moved, 3 * BYTES);
    memset(moved, 4, 3 * BYTES);
    see_child(moved, fork());
}

static void move_and_keep(unsigned char *m)
{
    unsigned char *moved = mremap(m, BYTES, BYTES, MREMAP_MAYMOVE | 4 /* dontunmap */, NULL);
    see(moved != MAP_FAILED);
    if (moved == MAP_FAILED)
        return;
    see_memory(moved, BYTES);
    see_memory(m, BYTES);
    memset(moved, 6, BYTES);
    see_memory(m, BYTES);
}

static void move_part(unsigned char *m)
{
    unsigned char *place = fresh(BYTES, 4);
    unsigned char *moved = mremap(m + HALF, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place + PAGE);
    see(moved == place + PAGE);
    see_memory(place, BYTES);
    see_memory(m, HALF);
    see_child(m, fork());
}

static void map_twice(unsigned char *m)
{
    unsigned char *second = mremap(m, 0, BYTES, MREMAP_MAYMOVE);
    see_call(second == MAP_FAILED ? -1 : 0);
    see_memory(m, BYTES);
}

static void protect(unsigned char *m)
{
    see_call(mprotect(m, HALF, PROT_NONE));
    see_child(m, fork());
    see_call(mprotect(m, HALF, PROT_READ));
    see_memory(m, BYTES);
    see_call(mprotect(m, HALF, PROT_READ | PROT_WRITE));
    see_call(syscall(SYS_pkey_mprotect, m, HALF, PROT_READ | PROT_WRITE, -1));
    memset(m, 1, PAGE);
    see_memory(m, BYTES);
}

static void rearrange(unsigned char *m)
{
    see_call(syscall(SYS_remap_file_pages, m, PAGE, 0, 3, 0));
    see_memory(m, BYTES);
}

static void map_over(unsigned char *m)
{
    see(mmap(m + PAGE, HALF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m + PAGE);
    see_memory(m, BYTES);
    see_call(munmap(m + HALF, PAGE));
    see(mmap(m + HALF, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == m + HALF);
    see_memory(m, BYTES);
    see_child(m, fork());
}

static void attach_over(unsigned char *m)
{
    int segment = shmget(IPC_PRIVATE, HALF, IPC_CREAT | 0600);
    see(shmat(segment, m, SHM_REMAP) == m);
    see_memory(m, BYTES);
    shmctl(segment, IPC_RMID, NULL);
    see_call(shmdt(m));
    see_memory(m + HALF, HALF);
}

static void lock(unsigned char *m)
{
    see_call(mlock(m, 4 * PAGE));
    see_call(raw_advise(m, 4 * PAGE, MADV_DONTNEED) && errno != EINVAL ? -1 : 0);
    see_call(munlock(m, 4 * PAGE));
    see_call(munlock(m + 1, PAGE));
    see_call(msync(m, BYTES, MS_SYNC));
    see_memory(m + 4 * PAGE, BYTES - 4 * PAGE);
}

static void guard(unsigned char *m)
{
    see_call(raw_advise(m, 2 * PAGE, GUARD_INSTALL));
    see_child(m, fork());
    see_call(raw_advise(m, 2 * PAGE, GUARD_REMOVE));
    see_memory(m, BYTES);
}

static void write_by_the_kernel(unsigned char *m)
{
    int zero = open("/dev/zero", O_RDONLY), self = open("/proc/self/mem", O_RDWR);
    see_call(read(zero, m + 5, PAGE));
    see_call(pwrite(self, "abc", 3, (off_t)(uintptr_t)m + 20));
    struct iovec here = {m + HALF, PAGE}, there = {m, PAGE};
    see_call(process_vm_readv(getpid(), &here, 1, &there, 1, 0));
    see_memory(m, BYTES);
    close(zero);
    close(self);
}

static void name(unsigned char *m)
{
    see_call(madvise(m, BYTES, MADV_DONTDUMP));
    see_call(madvise(m, BYTES, MADV_DODUMP));
    see_call(madvise(m, BYTES, MADV_MERGEABLE));
    see_call(madvise(m, BYTES, MADV_UNMERGEABLE));
    see_memory(m, BYTES);
}

/* Done before the memory is used in communication. */
static void wiped_before(unsigned char *m) { CHECK_EQUAL(madvise(m, HALF, MADV_WIPEONFORK), 0); }
static void kept_before(unsigned char *m) { CHECK_EQUAL(raw_advise(m, HALF, MADV_DONTFORK), 0); }

static const struct row {
    const char *name;
    void (*act)(unsigned char *memory);
    void (*before)(unsigned char *memory);
} rows[] = {
    {"madvise that discards", discard, NULL},
    {"the same by number", discard_by_number, NULL},
    {"the same, odd lengths", discard_part_of_a_page, NULL},
    {"the same after munlock", discard_unlocked, NULL},
    {"the same after munlock by number", discard_unlocked_by_number, NULL},
    {"the same after munlockall", discard_all_unlocked, NULL},
    {"the same of locked memory", discard_locked, NULL},
    {"madvise that frees", free_lazily, NULL},
    {"process_madvise", discard_by_process, NULL},
    {"madvise that removes", remove_pages, NULL},
    {"hints", hint, NULL},
    {"wiped in children", wipe_in_children, NULL},
    {"wiped in children, by number", wipe_in_children_by_number, NULL},
    {"wiped in children, from before", see_after_child, wiped_before},
    {"kept from children", keep_from_children, NULL},
    {"kept from children, from before", see_after_child, kept_before},
    {"given to children", give_to_children, NULL},
    {"mremap that shrinks and grows", shrink_and_grow, NULL},
    {"the same by number", shrink_and_grow_by_number, NULL},
    {"mremap that grows", grow, NULL},
    {"mremap that leaves", move_and_keep, NULL},
    {"mremap of a part", move_part, NULL},
    {"mremap of no bytes", map_twice, NULL},
    {"mprotect", protect, NULL},
    {"remap_file_pages", rearrange, NULL},
    {"mmap and munmap", map_over, NULL},
    {"shmat", attach_over, NULL},
    {"mlock", lock, NULL},
    {"guards", guard, NULL},
    {"writes of the kernel", write_by_the_kernel, NULL},
    {"core files and merging", name, NULL},
};

/* Uses the memory like `expose`, but does not require that it becomes shared. Memory with an attribute of its
 * own is not shared. */
static void expose_if_possible(unsigned char *memory)
{
    char *environment = getenv("EXPOSED") ? strdup(getenv("EXPOSED")) : NULL;
    unsetenv("EXPOSED");
    expose(memory, BYTES);
    if (environment)
        setenv("EXPOSED", environment, 1);
    free(environment);
}

/* Does it to memory that is exposed, was exposed until a fork (`kept`), or neither. */
static void act(const struct row *row, int seed, int exposed, int kept)
{
    unsigned char *memory = fresh(BYTES, seed);
    if (row->before)
        row->before(memory);
    if (exposed && !row->before)
        expose(memory, BYTES);
    else if (exposed)
        expose_if_possible(memory);
    if (kept) {
        pid_t made = fork();
        if (made == 0)
            _exit(0);
        waitpid(made, NULL, 0);
        memory[HALF + 7] = 12;
    }
    seen_count = 0;
    row->act(memory);
}

int main(int argc, char **argv)
{
    /* Before the library has seen anything of it. */
    unsigned char *wiped = fresh(BYTES, 1);
    CHECK_EQUAL(raw_advise(wiped, BYTES, MADV_WIPEONFORK), 0);
    check_begin(&argc, &argv);
    expose_if_possible(wiped);
    see_child(wiped, fork());
    CHECK_EQUAL(seen[0], 0);
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++)
        for (int kept = 0; kept < 2; kept++) {
            long wanted[MOST_SEEN];
            act(&rows[at], (int)at, 0, kept);
            int count = seen_count;
            memcpy(wanted, seen, sizeof wanted);
            act(&rows[at], (int)at, 1, kept);
            CHECK_EQUAL(seen_count, count);
            for (int one = 0; one < count; one++)
                if (seen[one] != wanted[one])
                    check_say(__FILE__, __LINE__, "%s%s: observation %d is %ld, not %ld", rows[at].name,
                              kept ? ", after a fork" : "", one, seen[one], wanted[one]);
        }
    unsigned char *memory = fresh(BYTES, 1);
    expose(memory, BYTES);
    CHECK_EQUAL(madvise(memory, BYTES, MADV_DONTNEED), 0);
    check_use(memory, BYTES);
    check_use(memory + PAGE, HALF);
    return check_end();
}
