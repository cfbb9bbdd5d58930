/* Processor time of a long wait. Each odd rank sleeps for N seconds outside of the library. The even rank
 * before it waits for its message: in MPI_Recv, in a barrier of the two, or in a fence of a window of the
 * two.
 *
 * usage: long_wait receive|barrier|fence N
 *
 * One line a waiting rank: `RANK took MICROSECONDS`.
 */
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

static long processor_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    long seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
    return seconds * 1000000L + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "receive";
    unsigned seconds = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    int memory = 0, x = 5;
    MPI_Comm two;
    MPI_Win win;
    check_begin(&argc, &argv);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank / 2, 0, &two);
    MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, two, &win);
    int sleeps = check_rank % 2;
    MPI_Barrier(MPI_COMM_WORLD);
    long before = processor_us();
    if (sleeps)
        sleep(seconds);
    if (*way == 'b') {
        MPI_Barrier(two);
    } else if (*way == 'f') {
        MPI_Win_fence(0, win);
    } else if (sleeps) {
        MPI_Send(&x, 1, MPI_INT, 0, 0, two);
    } else {
        x = 0;
        MPI_Recv(&x, 1, MPI_INT, 1, 0, two, MPI_STATUS_IGNORE);
        CHECK_EQUAL(x, 5);
    }
    if (!sleeps)
        printf("%d took %ld\n", check_rank, processor_us() - before);
    MPI_Win_free(&win);
    MPI_Comm_free(&two);
    return check_end();
}
