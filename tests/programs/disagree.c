/* Ranks that disagree about a collective operation: about its length, its root, or the operation itself. This
 * is the program's error. At least one rank gets an error, no rank waits without end, and no rank computes
 * with data that another rank meant otherwise.
 *
 * usage: disagree [messages | leave]      messages: the members have no banks; leave: after a broadcast with two roots
 */
#include "check.h"

enum { LARGE = 1 << 20 };

static char *data, *other;

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* An operation that goes one way, or all ways; blocking or not. */
static int call(int which, int count, int root, MPI_Comm comm)
{
    MPI_Request request;
    int code, later;
    switch (which) {
    case 0: return MPI_Bcast(data, count, MPI_CHAR, root, comm);
    case 1: return MPI_Reduce(data, other, count, MPI_SIGNED_CHAR, MPI_SUM, root, comm);
    case 2: return MPI_Allreduce(data, other, count, MPI_SIGNED_CHAR, MPI_SUM, comm);
    case 3: return MPI_Gather(data, count / check_size, MPI_CHAR, other, count / check_size, MPI_CHAR, root, comm);
    case 4: return MPI_Scatter(data, count / check_size, MPI_CHAR, other, count / check_size, MPI_CHAR, root, comm);
    case 5: return MPI_Allgather(data, count / check_size, MPI_CHAR, other, count / check_size, MPI_CHAR, comm);
    case 6: return MPI_Alltoall(data, count / check_size, MPI_CHAR, other, count / check_size, MPI_CHAR, comm);
    case 7: return MPI_Scan(data, other, count, MPI_SIGNED_CHAR, MPI_SUM, comm);
    case 8:
        code = MPI_Ibcast(data, count, MPI_CHAR, root, comm, &request);
        later = MPI_Wait(&request, MPI_STATUS_IGNORE);
        return code ? code : later;
    default:
        code = MPI_Iallreduce(data, other, count, MPI_SIGNED_CHAR, MPI_SUM, comm, &request);
        later = MPI_Wait(&request, MPI_STATUS_IGNORE);
        return code ? code : later;
    }
}

/* Checks that at least one rank gets an error of these classes. */
static void note(int code, int expected, MPI_Comm world)
{
    int class = class_of(code), mine = class != MPI_SUCCESS, sum = 0;
    if (mine && class != expected && class != MPI_ERR_OTHER) {
        printf("rank %d: class %d where %d was expected\n", check_rank, class, expected);
        CHECK(0);
    }
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, world);
    CHECK(sum > 0);
}

int main(int argc, char **argv)
{
    static const int counts[][2] = { { 8, 16 }, { 16, 8 }, { 48, 100 }, { 100, 5000 }, { 4096, 4000 }, { 8, LARGE }, { LARGE, 8 },
                                     { LARGE, LARGE - 64 }, { LARGE / 2, LARGE }, { 65536, 32768 } };
    MPI_Comm comm, world;
    check_begin(&argc, &argv);
    data = check_memory(LARGE);
    other = check_memory(LARGE);
    memset(data, 1, LARGE);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (argc > 1 && !strcmp(argv[1], "leave")) {
        MPI_Bcast(data, 8, MPI_CHAR, check_rank, world);
        MPI_Comm_free(&world);
        free(data);
        free(other);
        return check_end();
    }
    const int last = check_size - 1;
    /* Where messages are used, two roots only send, and get the error when they meet again. In banks each
     * only writes into its own. */
    for (int blocking = 0; argc > 1 && blocking < 2; blocking++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        int code = call(blocking ? 0 : 8, 8, check_rank == last ? last : 0, comm), later = MPI_Barrier(comm);
        note(code ? code : later, MPI_ERR_ROOT, world);
        MPI_Comm_free(&comm);
    }
    for (int which = 0; which < 10; which++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            MPI_Comm_dup(MPI_COMM_WORLD, &comm);
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            CHECK_EQUAL(call(which, 64, 0, comm), MPI_SUCCESS);
            note(call(which, counts[i][check_rank == last], 0, comm), MPI_ERR_TRUNCATE, world);
            /* The following calls may fail too, but must end. */
            for (int again = 0; again < 40; again++)
                call(which, 64, 0, comm);
            MPI_Comm_free(&comm);
        }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (argc < 2) /* who is alone with its root, and only sends, goes unnoticed among messages */
        note(call(1, 8, check_rank == last, comm), MPI_ERR_ROOT, world);
    note(check_rank == last ? MPI_Barrier(comm) : MPI_Allreduce(data, other, 8, MPI_SIGNED_CHAR, MPI_SUM, comm), MPI_ERR_OTHER, world);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&world);
    free(data);
    free(other);
    return check_end();
}
