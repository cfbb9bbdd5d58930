/* The library leaves the floating-point environment of its caller alone: traps, flags and rounding mode.
 *
 * usage: floating_point traps [FILE]: enables all traps before MPI_Init; FILE is written by all ranks
 *        floating_point flags [FILE]: no call leaves a flag
 *        floating_point rounding [FILE]: ranks round differently, and agree on what they do all the same
 *        floating_point overflow: a sum of the program's data overflows, with traps
 *        floating_point outside: the program itself divides by zero, with traps
 *        floating_point integer: the program divides an integer by zero
 */
#define _GNU_SOURCE
#include "check.h"
#include <fenv.h>
#include <float.h>

enum { MANY = 1 << 18 };

static int traps, mode, calls;
static int *from, *into, *back;
static int counts[64], displacements[64];
static const char *file_name;

/* Checks that the floating-point environment is unchanged since the program set it. */
static void same(const char *what)
{
    int flags = fetestexcept(FE_ALL_EXCEPT);
    if (flags != 0 || fegetround() != mode || fegetexcept() != traps) {
        check_say(__FILE__, __LINE__, "%s: flags %#x, rounding %#x not %#x, traps %#x not %#x", what, (unsigned)flags,
                  (unsigned)fegetround(), (unsigned)mode, (unsigned)fegetexcept(), (unsigned)traps);
        feclearexcept(FE_ALL_EXCEPT);
    }
}

#define SAME(call)                                                                                       \
    do {                                                                                                 \
        call;                                                                                            \
        same(#call);                                                                                     \
    } while (0)

/* Runs in the environment of the program. */
static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
    const int *left = in;
    int *right = inout;
    (void)type;
    calls++;
    if (fegetround() != mode || fegetexcept() != traps)
        check_say(__FILE__, __LINE__, "a user operator runs in another environment");
    for (int i = 0; i < *length; i++)
        right[i] += left[i];
}

static void blocking(int n, MPI_Op op, MPI_Comm comm)
{
    int size;
    MPI_Comm_size(comm, &size);
    int part = n / size + 1;
    for (int i = 0; i < size; i++) {
        counts[i] = part;
        displacements[i] = i * part;
    }
    SAME(MPI_Barrier(comm));
    SAME(MPI_Bcast(into, n, MPI_INT, size - 1, comm));
    SAME(MPI_Gather(from, part, MPI_INT, into, part, MPI_INT, 0, comm));
    SAME(MPI_Gatherv(from, part, MPI_INT, into, counts, displacements, MPI_INT, 0, comm));
    SAME(MPI_Scatter(from, part, MPI_INT, into, part, MPI_INT, 0, comm));
    SAME(MPI_Scatterv(from, counts, displacements, MPI_INT, into, part, MPI_INT, 0, comm));
    SAME(MPI_Allgather(from, part, MPI_INT, into, part, MPI_INT, comm));
    SAME(MPI_Allgatherv(from, part, MPI_INT, into, counts, displacements, MPI_INT, comm));
    SAME(MPI_Alltoall(from, part, MPI_INT, into, part, MPI_INT, comm));
    SAME(MPI_Alltoallv(from, counts, displacements, MPI_INT, into, counts, displacements, MPI_INT, comm));
    SAME(MPI_Reduce(from, into, n, MPI_INT, op, 0, comm));
    SAME(MPI_Allreduce(from, into, n, MPI_INT, op, comm));
    SAME(MPI_Reduce_scatter(from, into, counts, MPI_INT, op, comm));
    SAME(MPI_Reduce_scatter_block(from, into, part, MPI_INT, op, comm));
    SAME(MPI_Scan(from, into, n, MPI_INT, op, comm));
    SAME(MPI_Exscan(from, into, n, MPI_INT, op, comm));
}

static void others(int n, MPI_Op op, MPI_Comm comm)
{
    MPI_Request request[8];
    int size;
    MPI_Comm_size(comm, &size);
    int part = n / size + 1;
    SAME(MPI_Ibarrier(comm, &request[0]));
    SAME(MPI_Ibcast(back, n, MPI_INT, 0, comm, &request[1]));
    SAME(MPI_Iallreduce(from, into, n, MPI_INT, op, comm, &request[2]));
    SAME(MPI_Waitall(3, request, MPI_STATUSES_IGNORE));
    SAME(MPI_Ialltoall(from, part, MPI_INT, into, part, MPI_INT, comm, &request[0]));
    SAME(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
    SAME(MPI_Allreduce_init(from, into, n, MPI_INT, op, comm, MPI_INFO_NULL, &request[0]));
    SAME(MPI_Allgather_init(from, part, MPI_INT, back, part, MPI_INT, comm, MPI_INFO_NULL, &request[1]));
    for (int i = 0; i < 3; i++) {
        SAME(MPI_Startall(2, request));
        SAME(MPI_Waitall(2, request, MPI_STATUSES_IGNORE));
    }
    MPI_Request_free(&request[0]);
    MPI_Request_free(&request[1]);
}

/* Sends messages of all lengths, so often that the library compares their paths. */
static void messages(int n, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = 0; i < 5; i++)
        SAME(MPI_Sendrecv(from, n, MPI_INT, next, 1, into, n, MPI_INT, previous, 1, comm, MPI_STATUS_IGNORE));
}

static void neighbours(MPI_Comm comm)
{
    int size, dimensions[2] = { 0, 0 }, periods[2] = { 1, 1 };
    MPI_Comm grid, half;
    MPI_Comm_size(comm, &size);
    SAME(MPI_Dims_create(size, 2, dimensions));
    SAME(MPI_Cart_create(comm, 2, dimensions, periods, 1, &grid));
    SAME(MPI_Neighbor_alltoall(from, 100, MPI_INT, into, 100, MPI_INT, grid));
    SAME(MPI_Neighbor_allgather(from, 1000, MPI_INT, into, 1000, MPI_INT, grid));
    MPI_Comm_free(&grid);
    SAME(MPI_Comm_split(comm, check_rank % 2, 0, &half));
    blocking(100, MPI_SUM, half);
    MPI_Comm_free(&half);
}

static void windows(MPI_Comm comm)
{
    int *memory, size;
    MPI_Win window;
    MPI_Comm_size(comm, &size);
    SAME(MPI_Win_allocate(MANY * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &memory, &window));
    for (int n = 1; n <= MANY; n *= 64) {
        SAME(MPI_Win_fence(0, window));
        SAME(MPI_Put(from, n, MPI_INT, (check_rank + 1) % size, 0, n, MPI_INT, window));
        SAME(MPI_Win_fence(0, window));
        SAME(MPI_Accumulate(from, n, MPI_INT, 0, 0, n, MPI_INT, MPI_SUM, window));
        SAME(MPI_Win_fence(0, window));
    }
    SAME(MPI_Win_free(&window));
}

static void files(MPI_Comm comm)
{
    MPI_File file;
    if (!file_name)
        return;
    SAME(MPI_File_open(comm, file_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    SAME(MPI_File_write_at_all(file, (MPI_Offset)check_rank * MANY, from, MANY / 4, MPI_INT, MPI_STATUS_IGNORE));
    SAME(MPI_File_read_at_all(file, (MPI_Offset)check_rank * MANY, into, MANY / 4, MPI_INT, MPI_STATUS_IGNORE));
    SAME(MPI_File_close(&file));
}

static void everything(void)
{
    MPI_Op op;
    MPI_Comm comm;
    SAME(MPI_Op_create(add, 1, &op));
    SAME(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int n = 1; n <= MANY / 2; n *= 8) {
        blocking(n, MPI_SUM, MPI_COMM_WORLD);
        blocking(n, op, comm);
        others(n, n % 3 ? MPI_MAX : op, comm);
        messages(n, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 300; i++)
        SAME(MPI_Allreduce(from, into, 8, MPI_INT, MPI_SUM, comm));
    neighbours(comm);
    windows(comm);
    files(comm);
    SAME(MPI_Wtime());
    SAME(MPI_Wtick());
    MPI_Op_free(&op);
    MPI_Comm_free(&comm);
    CHECK(calls > 0 || check_size == 1);
}

/* Checks that a sum of doubles rounds as the program does. */
static void sums(void)
{
    double tiny = check_rank == 0 ? 1.0 : DBL_EPSILON / 8, sum;
    fesetround(FE_UPWARD);
    MPI_Allreduce(&tiny, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(check_size == 1 || sum > 1.0);
    fesetround(FE_DOWNWARD);
    tiny = check_rank == 0 ? 1.0 : DBL_EPSILON / 8;
    MPI_Allreduce(&tiny, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum < 1.0 + DBL_EPSILON);
    fesetround(mode);
    feclearexcept(FE_ALL_EXCEPT);
}

static int crash(const char *how)
{
    volatile double large[2] = { DBL_MAX, 0.0 };
    volatile int seven = 7, nothing = 0;
    double sum;
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    MPI_Init(NULL, NULL);
    if (!strcmp(how, "overflow"))
        MPI_Allreduce((double *)large, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(how, "outside"))
        large[0] = large[0] / large[1];
    else
        nothing = seven / nothing;
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "flags";
    if (!strcmp(how, "overflow") || !strcmp(how, "outside") || !strcmp(how, "integer"))
        return crash(how);
    file_name = argc > 2 ? argv[2] : NULL;
    from = calloc(2 * MANY, sizeof(int));
    into = calloc(2 * MANY, sizeof(int));
    back = calloc(2 * MANY, sizeof(int));
    feclearexcept(FE_ALL_EXCEPT);
    if (!strcmp(how, "traps"))
        feenableexcept(FE_ALL_EXCEPT);
    traps = fegetexcept();
    mode = fegetround();
    SAME(check_begin(&argc, &argv));
    if (!strcmp(how, "rounding")) {
        const int modes[] = { FE_UPWARD, FE_TONEAREST, FE_DOWNWARD, FE_TOWARDZERO };
        mode = modes[check_rank % 4];
        fesetround(mode);
    }
    everything();
    if (strcmp(how, "traps"))
        sums();
    int status = check_end();
    same("MPI_Finalize");
    return status || check_failures;
}
