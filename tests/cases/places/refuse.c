/* Runs a program under a filter of system calls, as container run-times, sandboxes and service managers set
 * them.
 *
 * usage: refuse ERRNO CALL[,CALL...] COMMAND...
 *
 * ERRNO: EPERM or ENOSYS, given for every call named. `container` names those that the default filter of
 * Docker refuses (its documentation, "Significant syscalls blocked by the default profile").
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL(name) {#name, SYS_##name, 0}
#define REFUSED_IN_CONTAINERS(name) {#name, SYS_##name, 1}

static const struct { const char *name; int number, in_containers; } calls[] = {
    CALL(memfd_create), CALL(epoll_create1), CALL(signalfd4), CALL(prctl), CALL(eventfd2), CALL(timerfd_create), CALL(pidfd_open),
    CALL(sched_setaffinity), CALL(sched_getaffinity), CALL(setpgid), CALL(getrandom), CALL(pipe2), CALL(socketpair), CALL(socket), CALL(bind),
    CALL(listen), CALL(madvise), CALL(fallocate), CALL(ftruncate), CALL(futex), CALL(mremap), CALL(mincore), CALL(clone), CALL(prlimit64), CALL(setsockopt),
    CALL(getsockopt), CALL(sendmsg), CALL(recvmsg), CALL(sched_yield), CALL(statx), CALL(getcpu), CALL(rseq), CALL(epoll_pwait), CALL(ioctl), CALL(kill),
    CALL(waitid), CALL(process_madvise), CALL(membarrier), CALL(fcntl), CALL(ppoll), CALL(clone3),
#ifdef SYS_epoll_wait
    CALL(epoll_wait), CALL(vfork), CALL(poll),
#endif
#ifdef SYS_futex_waitv
    CALL(futex_waitv),
#endif
    REFUSED_IN_CONTAINERS(acct), REFUSED_IN_CONTAINERS(add_key), REFUSED_IN_CONTAINERS(bpf), REFUSED_IN_CONTAINERS(clock_adjtime),
    REFUSED_IN_CONTAINERS(clock_settime), REFUSED_IN_CONTAINERS(delete_module), REFUSED_IN_CONTAINERS(finit_module),
    REFUSED_IN_CONTAINERS(get_mempolicy), REFUSED_IN_CONTAINERS(init_module), REFUSED_IN_CONTAINERS(kcmp), REFUSED_IN_CONTAINERS(kexec_load),
    REFUSED_IN_CONTAINERS(keyctl), REFUSED_IN_CONTAINERS(mbind), REFUSED_IN_CONTAINERS(mount), REFUSED_IN_CONTAINERS(move_pages),
    REFUSED_IN_CONTAINERS(open_by_handle_at), REFUSED_IN_CONTAINERS(perf_event_open), REFUSED_IN_CONTAINERS(personality),
    REFUSED_IN_CONTAINERS(pivot_root), REFUSED_IN_CONTAINERS(process_vm_readv), REFUSED_IN_CONTAINERS(process_vm_writev),
    REFUSED_IN_CONTAINERS(ptrace), REFUSED_IN_CONTAINERS(quotactl), REFUSED_IN_CONTAINERS(reboot), REFUSED_IN_CONTAINERS(request_key),
    REFUSED_IN_CONTAINERS(set_mempolicy), REFUSED_IN_CONTAINERS(setns), REFUSED_IN_CONTAINERS(settimeofday), REFUSED_IN_CONTAINERS(swapon),
    REFUSED_IN_CONTAINERS(swapoff), REFUSED_IN_CONTAINERS(umount2), REFUSED_IN_CONTAINERS(unshare), REFUSED_IN_CONTAINERS(userfaultfd),
    REFUSED_IN_CONTAINERS(io_uring_setup), REFUSED_IN_CONTAINERS(io_uring_enter), REFUSED_IN_CONTAINERS(io_uring_register),
    REFUSED_IN_CONTAINERS(pidfd_getfd), REFUSED_IN_CONTAINERS(fanotify_init),
};

enum { CALLS = sizeof calls / sizeof calls[0] };

static struct sock_filter filter[2 * CALLS + 2];
static int length;

static void add(struct sock_filter step)
{
    filter[length++] = step;
}

static void refuse(int number, int error)
{
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error));
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: refuse EPERM|ENOSYS CALL[,CALL...] COMMAND...\n");
        return 2;
    }
    int error = strcmp(argv[1], "ENOSYS") ? EPERM : ENOSYS;
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (char *name = strtok(argv[2], ","); name; name = strtok(NULL, ",")) {
        int found = 0;
        for (int i = 0; i < CALLS; i++)
            if (strcmp(name, "container") ? !strcmp(name, calls[i].name) : calls[i].in_containers) {
                refuse(calls[i].number, error);
                found = 1;
            }
        if (!found) {
            fprintf(stderr, "refuse: no call %s is known here\n", name);
            return 2;
        }
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {(unsigned short)length, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("refuse: no filter");
        return 2;
    }
    execvp(argv[3], argv + 3);
    perror(argv[3]);
    return 127;
}
