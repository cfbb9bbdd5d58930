/* One of several MPI programs that follow one another in the same ranks. It checks that messages, collective
 * operations and
 * windows work as in the first one.
 *
 * usage: again NAME [exec COUNT | none | session]
 *        exec: becomes this program again after MPI_Finalize, so many times; none: exits without MPI;
 *        session: uses a session alone
 */
#include "check.h"
#include <unistd.h>

enum { LARGE = 1 << 20 };

static void communicate(MPI_Comm comm)
{
    const int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    int *data = check_memory(LARGE), *got = check_memory(LARGE), *shared, sum = 0, old = -1;
    const int items = LARGE / (int)sizeof(int);
    MPI_Win window;
    for (int round = 0; round < 20; round++) {
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK_EQUAL(sum, check_size * (check_size - 1) / 2);
        for (int i = 0; i < items; i++)
            data[i] = check_rank * 1000 + round + i % 7;
        MPI_Sendrecv(data, items, MPI_INT, next, round, got, items, MPI_INT, before, round, comm, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got[items - 1], before * 1000 + round + (items - 1) % 7);
        MPI_Bcast(got, items, MPI_INT, round % check_size, comm);
        MPI_Barrier(comm);
    }
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &shared, &window);
    *shared = 100 + check_rank;
    MPI_Win_fence(0, window);
    MPI_Get(&old, 1, MPI_INT, next, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    CHECK_EQUAL(old, 100 + next);
    MPI_Win_free(&window);
    free(data);
    free(got);
}

int main(int argc, char **argv)
{
    const char *const what = argc > 2 ? argv[2] : "";
    const int count = argc > 3 ? atoi(argv[3]) : 0;
    if (!strcmp(what, "none"))
        return 0;
    if (!strcmp(what, "session")) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Session_finalize(&session);
        return 0;
    }
    check_begin(&argc, &argv);
    communicate(MPI_COMM_WORLD);
    if (check_rank == 0) {
        printf("program %s %d\n", argv[1], count);
        fflush(stdout);
    }
    const int failed = check_end();
    if (!strcmp(what, "exec") && count > 0 && !failed) {
        char left[16];
        snprintf(left, sizeof left, "%d", count - 1);
        execl(argv[0], argv[0], argv[1], "exec", left, (char *)NULL);
        return 1;
    }
    return failed;
}
