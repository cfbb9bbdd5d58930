/* Loaded before a program: fdatasync and fsync fail, as on a broken device, while there is a file of the
 * name that FAIL_FSYNC has. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static int synced(long call, int fd)
{
    const char *mark = getenv("FAIL_FSYNC");
    if (mark && access(mark, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

int fdatasync(int fd)
{
    return synced(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return synced(SYS_fsync, fd);
}
