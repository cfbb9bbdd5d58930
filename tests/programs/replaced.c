/* A program that puts a file of its own in the place of every descriptor that it has not opened, after
 * MPI_Init; its file must keep its content, also if the job ends for it.
 *
 * usage: replaced FILE [limit]     limit: nothing is replaced; files may have a few bytes only from then on
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG = 200000, HIGHEST = 8192 };

static void replace_all(const char *name)
{
    char path[4096];
    struct stat status;
    snprintf(path, sizeof path, "%s.%d", name, check_rank);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "mine", 4) == 4);
    for (int fd = 3; fd < HIGHEST; fd++)
        if (fd != file && fstat(fd, &status) == 0)
            CHECK_EQUAL(dup2(file, fd), fd);
}

static void communicate(void)
{
    double *out = malloc(LONG * sizeof(double)), *in = malloc(LONG * sizeof(double)), *base;
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Win window;
    MPI_Comm comm;
    for (int count = 1; count <= LONG; count = count < LONG / 8 ? count * 8 : count == LONG ? LONG + 1 : LONG)
        for (int round = 0; round < 30; round++) {
            for (int i = 0; i < count; i++)
                out[i] = check_rank + i;
            MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            CHECK(in[count - 1] == check_size * (check_size - 1) / 2 + (double)check_size * (count - 1));
            MPI_Sendrecv(out, count, MPI_DOUBLE, right, 1, in, count, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(in[count - 1] == left + count - 1);
        }
    MPI_Win_allocate(1 << 20, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, 9, MPI_DOUBLE, right, 0, 9, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    CHECK(base[0] == left);
    MPI_Win_free(&window);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Barrier(comm);
    MPI_Comm_free(&comm);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    CHECK(argc > 1);
    if (argc > 2) {
        const struct rlimit limit = {10, 10};
        CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    } else
        replace_all(argv[1]);
    communicate();
    return check_end();
}
