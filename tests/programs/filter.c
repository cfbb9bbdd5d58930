/* Runs a program under a filter of system calls, as container run-times do it.
 *
 * usage: filter EPERM|ENOSYS FIRST CALL[,CALL...] PROGRAM [ARGUMENT...]
 *
 * The named calls fail with that error: all of them if FIRST is 0; otherwise those after the first FIRST
 * ones, so that the filter comes in the middle of the job. For that this process stays beside the program, is
 * asked by the kernel at each of these calls, and lets the first ones through (seccomp_unotify(2)). `all`
 * names everything by which processes get at each other's memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static const struct { const char *name; int number; } known[] = {
    {"process_vm_readv", SYS_process_vm_readv}, {"process_vm_writev", SYS_process_vm_writev}, {"ptrace", SYS_ptrace},
    {"userfaultfd", SYS_userfaultfd}, {"memfd_create", SYS_memfd_create}, {"pidfd_open", SYS_pidfd_open},
    {"pidfd_getfd", SYS_pidfd_getfd}};
enum { KNOWN = sizeof known / sizeof *known };

static void fail(const char *what)
{
    fprintf(stderr, "filter: %s: %s\n", what, strerror(errno));
    exit(125);
}

static int is_named(const char *list, const char *name)
{
    size_t length = strlen(name);
    if (!strcmp(list, "all"))
        return 1;
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

/* Installs a filter by which the calls of the list have this end; a descriptor if that is to ask. */
static int install(const char *list, unsigned action, unsigned flags)
{
    struct sock_filter code[3 + 2 * KNOWN];
    unsigned short count = 0;
    code[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < KNOWN; i++)
        if (is_named(list, known[i].name)) {
            code[count++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)known[i].number, 0, 1);
            code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
        }
    code[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {count, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail("no_new_privs");
    int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (fd < 0)
        fail("seccomp");
    return fd;
}

static void pass(int socket, int fd)
{
    char byte = 0, room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(control), &fd, sizeof fd);
    if (sendmsg(socket, &message, 0) != 1)
        fail("sendmsg");
}

static int take(int socket)
{
    char byte, room[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* Answers the kernel until the program has ended. */
static void answer(int fd, long first, int error)
{
    struct seccomp_notif asked;
    for (;;) {
        memset(&asked, 0, sizeof asked);
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        struct seccomp_notif_resp reply = {.id = asked.id};
        if (first-- > 0)
            reply.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        else
            reply.error = -error;
        ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &reply);
    }
}

static void end(int signal)
{
    (void)signal;
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: filter EPERM|ENOSYS FIRST CALL[,CALL...] PROGRAM [ARGUMENT...]\n");
        return 125;
    }
    int error = strcmp(argv[1], "ENOSYS") ? EPERM : ENOSYS, ends[2];
    long first = atol(argv[2]);
    if (!first) {
        install(argv[3], SECCOMP_RET_ERRNO | (unsigned)error, 0);
        execvp(argv[4], argv + 4);
        fail(argv[4]);
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        fail("socketpair");
    /* The program keeps this process's number, so that the process that started it finds it. The process
     * beside it ends with it. */
    pid_t program = getpid(), beside = fork();
    if (beside < 0)
        fail("fork");
    if (!beside) {
        signal(SIGUSR1, end);
        prctl(PR_SET_PDEATHSIG, SIGUSR1);
        close(ends[0]);
        int fd = getppid() == program ? take(ends[1]) : -1;
        close(ends[1]);
        answer(fd, first, error);
        _exit(0);
    }
    close(ends[1]);
    int fd = install(argv[3], SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    pass(ends[0], fd);
    close(fd);
    close(ends[0]);
    execvp(argv[4], argv + 4);
    fail(argv[4]);
}
