/* A program that closes all descriptors but the standard ones, as daemons and careful libraries do.
 *
 * usage: closes before|after|many     before or after MPI_Init; many: closes none, but opens many and uses a large part of its stack
 */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

enum { DESCRIPTORS = 900, LONG = 200000 };

static void close_all(void)
{
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
}

static void open_many(void)
{
    volatile char room[4 << 20];
    for (size_t i = 0; i < sizeof room; i += 4096)
        room[i] = 1;
    for (int i = 0; i < DESCRIPTORS; i++)
        CHECK(open("/dev/null", O_RDONLY) >= 0 || i > 100);
}

int main(int argc, char **argv)
{
    const char *when = argc > 1 ? argv[1] : "before";
    double *out = malloc(LONG * sizeof(double)), *in = malloc(LONG * sizeof(double));
    MPI_Win window;
    double *base;
    if (!strcmp(when, "before"))
        close_all();
    check_begin(&argc, &argv);
    if (!strcmp(when, "after"))
        close_all();
    if (!strcmp(when, "many"))
        open_many();
    for (int count = 1; count <= LONG; count = count < LONG / 8 ? count * 8 : count == LONG ? LONG + 1 : LONG) {
        for (int i = 0; i < count; i++)
            out[i] = check_rank + i;
        for (int round = 0; round < 30; round++)
            MPI_Allreduce(out, in, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < count; i += 97)
            CHECK(in[i] == check_size * (check_size - 1) / 2 + (double)check_size * i);
        MPI_Sendrecv(out, count, MPI_DOUBLE, (check_rank + 1) % check_size, 1, in, count, MPI_DOUBLE,
                     (check_rank + check_size - 1) % check_size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(in[count - 1] == (check_rank + check_size - 1) % check_size + count - 1);
    }
    MPI_Win_allocate(4096, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_fence(0, window);
    MPI_Put(out, 1, MPI_DOUBLE, (check_rank + 1) % check_size, 0, 1, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    CHECK(base[0] == (check_rank + check_size - 1) % check_size);
    MPI_Win_free(&window);
    free(out);
    free(in);
    return check_end();
}
