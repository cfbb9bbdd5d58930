/* Runs messages, collectives and windows of all lengths and checks every value. A job must do this in any
 * environment.
 *
 * usage: places [BYTES [SECONDS [RANKS]]]
 *
 * Lengths go from nothing to BYTES (200000) per pair of ranks, through every protocol. It is done once, or
 * for SECONDS; rank 0 says "ready" when all were through it once. RANKS is how many there should be: ranks
 * that start alone are no job.
 */
#include "check.h"

static long most; /* doubles */

static double value(int rank, int peer, long place, long round)
{
    return rank * 1e6 + peer * 1e3 + (double)(place % 997) + (double)round / 8;
}

static void check_values(const double *got, long count, int rank, int peer, long round, const char *what)
{
    for (long i = 0; i < count; i++)
        if (got[i] != value(rank, peer, i, round)) {
            check_say(__FILE__, __LINE__, "%s of %ld: place %ld is %g, not %g", what, count, i, got[i], value(rank, peer, i, round));
            return;
        }
}

static void fill(double *values, long count, int rank, int peer, long round)
{
    for (long i = 0; i < count; i++)
        values[i] = value(rank, peer, i, round);
}

static void messages(double *out, double *in, long count, long round)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Request requests[2];
    fill(out, count, check_rank, right, round);
    MPI_Sendrecv(out, (int)count, MPI_DOUBLE, right, 5, in, (int)count, MPI_DOUBLE, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_values(in, count, left, check_rank, round, "ring");
    memset(in, 0, (size_t)count * sizeof(double));
    MPI_Irecv(in, (int)count, MPI_DOUBLE, right, 6, MPI_COMM_WORLD, &requests[0]);
    fill(out, count, check_rank, left, round + 1);
    MPI_Issend(out, (int)count, MPI_DOUBLE, left, 6, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    check_values(in, count, right, check_rank, round + 1, "synchronous ring");
}

static void collectives(double *out, double *in, long count, long round)
{
    int root = (int)(round % check_size), n = (int)count;
    MPI_Request request;
    if (check_rank == root)
        fill(in, count, root, 0, round);
    MPI_Bcast(in, n, MPI_DOUBLE, root, MPI_COMM_WORLD);
    check_values(in, count, root, 0, round, "bcast");
    for (long i = 0; i < count; i++)
        out[i] = check_rank + (double)(i % 997) + (double)(round % 64);
    MPI_Allreduce(out, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 0; i < count; i++)
        if (in[i] != check_size * (check_size - 1) / 2 + check_size * ((double)(i % 997) + (double)(round % 64))) {
            check_say(__FILE__, __LINE__, "allreduce of %ld: place %ld is %g", count, i, in[i]);
            break;
        }
    MPI_Iallreduce(out, in, n, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (long i = 0; i < count; i++)
        if (in[i] != check_size - 1 + (double)(i % 997) + (double)(round % 64)) {
            check_say(__FILE__, __LINE__, "iallreduce of %ld: place %ld is %g", count, i, in[i]);
            break;
        }
    for (int peer = 0; peer < check_size; peer++)
        fill(out + peer * count, count, check_rank, peer, round);
    MPI_Alltoall(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int peer = 0; peer < check_size; peer++)
        check_values(in + peer * count, count, peer, check_rank, round, "alltoall");
    MPI_Allgather(out, n, MPI_DOUBLE, in, n, MPI_DOUBLE, MPI_COMM_WORLD);
    for (int peer = 0; peer < check_size; peer++)
        check_values(in + peer * count, count, peer, 0, round, "allgather");
}

static void windows(double *out, double *in, long count, long round)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, n = (int)count;
    double *base;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint)((size_t)count * sizeof(double)), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    fill(out, count, check_rank, right, round);
    MPI_Win_fence(0, window);
    MPI_Put(out, n, MPI_DOUBLE, right, 0, n, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    check_values(base, count, left, check_rank, round, "put");
    MPI_Get(in, n, MPI_DOUBLE, right, 0, n, MPI_DOUBLE, window);
    MPI_Win_fence(0, window);
    check_values(in, count, check_rank, right, round, "get");
    MPI_Win_free(&window);
    memset(in, 0, (size_t)count * sizeof(double));
    MPI_Win_create(in, (MPI_Aint)((size_t)count * sizeof(double)), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_lock(MPI_LOCK_SHARED, left, 0, window);
    MPI_Accumulate(out, n, MPI_DOUBLE, left, 0, n, MPI_DOUBLE, MPI_SUM, window);
    MPI_Win_unlock(left, window);
    MPI_Win_free(&window);
    check_values(in, count, right, (right + 1) % check_size, round, "accumulate");
}

static void once(long round)
{
    double *out = check_memory((size_t)most * (size_t)check_size * sizeof(double));
    double *in = check_memory((size_t)most * (size_t)check_size * sizeof(double));
    for (long count = 0; count <= most; count = count ? count * 8 : 1) {
        messages(out, in, count, round);
        collectives(out, in, count, round);
        windows(out, in, count, round);
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? atof(argv[2]) : 0, start;
    int goes_on = 1;
    most = (argc > 1 ? atol(argv[1]) : 200000) / (long)sizeof(double);
    check_begin(&argc, &argv);
    if (argc > 3)
        CHECK_EQUAL(check_size, atoi(argv[3]));
    start = MPI_Wtime();
    for (long round = 0; goes_on; round++) {
        once(round);
        if (check_rank == 0 && round == 0) {
            puts("ready");
            fflush(stdout);
        }
        goes_on = MPI_Wtime() - start < seconds;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    return check_end();
}
