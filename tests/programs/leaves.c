/* Rank 1 leaves: it calls MPI_Finalize and returns a status, while the others wait for it in an operation
 * that it never
 * calls. They must not get beyond that operation.
 *
 * usage: leaves STATUS OPERATION [return | late | quick]
 * return: the others get errors as return values; late: rank 1 computes for a while after MPI_Finalize;
 * quick: it ends by _exit
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1 << 22, LEAVER = 1 };

static int rank, size;
static char *large;

static int is(const char *name, const char *wanted)
{
    return !strcmp(name, wanted);
}

/* Does what cannot end without rank 1; the code of the first call that fails. */
static int wait_for_leaver(const char *name)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Status *const none = MPI_STATUS_IGNORE;
    MPI_Status *status = (MPI_Status *)none;
    MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    MPI_Message message;
    MPI_Comm comm;
    int mine = rank, sum = 0, flag = 0, code = MPI_SUCCESS;
    if (is(name, "barrier"))
        return MPI_Barrier(world);
    if (is(name, "allreduce"))
        return MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, world);
    if (is(name, "bcast"))
        return MPI_Bcast(large, LARGE, MPI_CHAR, LEAVER, world);
    if (is(name, "gather"))
        return MPI_Allgather(&mine, 1, MPI_INT, large, 1, MPI_INT, world);
    if (is(name, "split"))
        return MPI_Comm_split(world, 0, rank, &comm);
    if (is(name, "ibarrier")) {
        code = MPI_Ibarrier(world, requests);
        return code ? code : MPI_Wait(requests, status);
    }
    if (is(name, "recv"))
        return MPI_Recv(&mine, 1, MPI_INT, LEAVER, 5, world, status);
    if (is(name, "any")) /* from any source: the others have nothing for each other */
        return MPI_Recv(&mine, 1, MPI_INT, MPI_ANY_SOURCE, 5, world, status);
    if (is(name, "ssend"))
        return MPI_Ssend(&mine, 1, MPI_INT, LEAVER, 5, world);
    if (is(name, "send"))
        return MPI_Send(large, LARGE, MPI_CHAR, LEAVER, 5, world);
    if (is(name, "probe"))
        return MPI_Probe(LEAVER, 5, world, status);
    if (is(name, "mprobe"))
        return MPI_Mprobe(LEAVER, 5, world, &message, status);
    if (is(name, "waitany") || is(name, "waitall")) {
        MPI_Irecv(&mine, 1, MPI_INT, LEAVER, 5, world, &requests[0]);
        MPI_Irecv(&sum, 1, MPI_INT, LEAVER, 6, world, &requests[1]);
        return is(name, "waitany") ? MPI_Waitany(2, requests, &flag, status) : MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    if (is(name, "test")) {
        MPI_Irecv(&mine, 1, MPI_INT, LEAVER, 5, world, requests);
        while (!flag && code == MPI_SUCCESS)
            code = MPI_Test(requests, &flag, status);
        return code;
    }
    fprintf(stderr, "no operation %s\n", name);
    MPI_Abort(world, 77);
    return code;
}

int main(int argc, char **argv)
{
    const int status = argc > 1 ? atoi(argv[1]) : 0;
    const char *const name = argc > 2 ? argv[2] : "barrier", *const how = argc > 3 ? argv[3] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    large = calloc(LARGE, 1);
    if (rank != LEAVER) {
        if (is(how, "return"))
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        const int code = wait_for_leaver(name);
        printf(code ? "rank %d: told\n" : "rank %d: passed\n", rank);
        fflush(stdout);
    } else if (is(name, "bcast") || is(name, "any")) {
        /* What was sent before does not hide that nothing follows. */
        for (int other = 0; other < size; other++)
            if (other != rank)
                MPI_Send(&status, 1, MPI_INT, other, 7, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    if (rank == LEAVER && is(how, "late"))
        sleep(3);
    printf("rank %d: ends\n", rank);
    if (rank == LEAVER && is(how, "quick")) {
        fflush(stdout);
        _exit(status);
    }
    return rank == LEAVER ? status : 0;
}
