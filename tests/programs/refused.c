/* Collective operations that fail at some members, where messages go between them. No rank waits for ever,
 * and the waiting ranks get an error.
 *
 * usage: refused [wait|banks]      wait: rank 0 never comes to the broadcast of the others; banks: members of a host have them
 */
#include "check.h"
#include <unistd.h>

enum { LARGE = 1 << 20, SMALL = 64 };

static char *data, *other;
static int has_banks;

static int class_of(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    return class;
}

enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static int wait_for(int code, MPI_Request *request)
{
    int later = code ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
    return code ? code : later;
}

static int bcast(enum form form, int count, int root, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (form == BLOCKING)
        return MPI_Bcast(data, count, MPI_CHAR, root, comm);
    if (form == NONBLOCKING)
        return wait_for(MPI_Ibcast(data, count, MPI_CHAR, root, comm, &request), &request);
    int code = MPI_Bcast_init(data, count, MPI_CHAR, root, comm, MPI_INFO_NULL, &request);
    if (!code && !(code = MPI_Start(&request)))
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (code) {
        /* After the failure the persistent request cannot be started again. */
        CHECK_CLASS(MPI_Start(&request), MPI_ERR_OTHER);
    }
    MPI_Request_free(&request);
    return code;
}

/* Checks that all ranks get an error of this class. */
static void everybody(int code, int wanted, const char *what, MPI_Comm world)
{
    int class = class_of(code), all[2], mine[2] = { class == wanted, class != MPI_SUCCESS };
    MPI_Allreduce(mine, all, 2, MPI_INT, MPI_SUM, world);
    if (class != wanted)
        check_say(__FILE__, __LINE__, "%s: class %d, not %d (%d ranks of %d are right, %d have errors)", what, class, wanted, all[0], check_size, all[1]);
}

/* Checks that at least one rank gets an error. All ranks reach this call. */
static void somebody(int code, const char *what, MPI_Comm world)
{
    int mine = code != MPI_SUCCESS, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, world);
    if (!all)
        check_say(__FILE__, __LINE__, "%s: nobody is told", what);
}

static MPI_Comm fresh(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

/* Checks that operations after a failed one succeed, or at least end. In banks members may have lost step. */
static void still_good(MPI_Comm *comm)
{
    int sum = 0, one = 1, code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *comm);
    if (!has_banks) {
        CHECK_CLASS(code, MPI_SUCCESS);
        CHECK_EQUAL(sum, check_size);
    }
    code = MPI_Bcast(data, LARGE, MPI_CHAR, check_size - 1, *comm);
    if (!has_banks)
        CHECK_CLASS(code, MPI_SUCCESS);
    MPI_Comm_free(comm);
}

static void truncated(MPI_Comm world)
{
    const int root = check_size / 2, at_root = check_rank == root;
    /* Persistent operations whose members disagree have no banks in common, which ends the job. */
    for (enum form form = BLOCKING; form <= (has_banks ? NONBLOCKING : PERSISTENT); form++) {
        MPI_Comm comm = fresh();
        int code = bcast(form, at_root ? LARGE : SMALL, root, comm);
        if (has_banks)
            somebody(code, "bcast of too much", world);
        else
            everybody(code, MPI_ERR_TRUNCATE, "bcast of too much", world);
        still_good(&comm);
        comm = fresh();
        /* With so little data the root may finish before it can get an error. */
        somebody(bcast(form, at_root ? SMALL : LARGE, root, comm), "bcast of too little", world);
        still_good(&comm);
    }
    MPI_Comm comm = fresh();
    somebody(MPI_Scatter(data, LARGE, MPI_CHAR, other, at_root ? LARGE : SMALL, MPI_CHAR, root, comm), "scatter", world);
    somebody(MPI_Gather(data, at_root ? SMALL : LARGE, MPI_CHAR, other, SMALL, MPI_CHAR, root, comm), "gather", world);
    somebody(MPI_Reduce(data, other, at_root ? SMALL : LARGE, MPI_SIGNED_CHAR, MPI_SUM, root, comm), "reduce", world);
    somebody(MPI_Allreduce(data, other, at_root ? SMALL : LARGE, MPI_SIGNED_CHAR, MPI_SUM, comm), "allreduce", world);
    somebody(MPI_Alltoall(data, at_root ? SMALL : LARGE, MPI_CHAR, other, at_root ? SMALL : LARGE, MPI_CHAR, comm), "alltoall", world);
    somebody(MPI_Allgather(data, at_root ? SMALL : LARGE, MPI_CHAR, other, at_root ? SMALL : LARGE, MPI_CHAR, comm), "allgather", world);
    still_good(&comm);
}

static void several_roots(MPI_Comm world)
{
    MPI_Comm comm = fresh();
    somebody(MPI_Bcast(data, LARGE, MPI_CHAR, check_rank == check_size - 1 ? check_rank : 0, comm), "bcast from two roots", world);
    somebody(bcast(NONBLOCKING, LARGE, check_rank == check_size - 1 ? check_rank : 0, comm), "ibcast from two roots", world);
    still_good(&comm);
}

static void different_operations(MPI_Comm world)
{
    MPI_Comm comm = fresh();
    int last = check_rank == check_size - 1;
    somebody(last ? MPI_Reduce(data, other, LARGE, MPI_SIGNED_CHAR, MPI_SUM, 0, comm) : MPI_Bcast(data, LARGE, MPI_CHAR, 0, comm),
             "reduce among bcasts", world);
    somebody(last ? MPI_Barrier(comm) : MPI_Allreduce(data, other, SMALL, MPI_SIGNED_CHAR, MPI_SUM, comm), "barrier among allreduces", world);
    still_good(&comm);
}

int main(int argc, char **argv)
{
    MPI_Comm world;
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    data = check_memory((size_t)LARGE * (size_t)check_size);
    other = check_memory((size_t)LARGE * (size_t)check_size);
    memset(data, 0, (size_t)LARGE * (size_t)check_size);
    if (argc > 1 && !strcmp(argv[1], "wait")) {
        MPI_Request request;
        if (check_rank == 0) {
            puts("waiting"), fflush(stdout);
            sleep(60);
        }
        if (check_rank == 1) {
            MPI_Ibcast(data, SMALL, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Bcast(data, SMALL, MPI_CHAR, 0, MPI_COMM_WORLD);
        }
        return check_end();
    }
    has_banks = argc > 1 && !strcmp(argv[1], "banks");
    truncated(world);
    several_roots(world);
    different_operations(world);
    MPI_Comm_free(&world);
    free(data), free(other);
    return check_end();
}
