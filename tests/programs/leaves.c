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
static MPI_Win window = MPI_WIN_NULL;
static MPI_File file = MPI_FILE_NULL;

static int is(const char *name, const char *wanted)
{
    return !strcmp(name, wanted);
}

static const char *file_name(void)
{
    const char *given = getenv("LEAVES_FILE");
    return given ? given : "leaves.dat";
}

static int wait_in_window(const char *name)
{
    const int leaver = LEAVER;
    MPI_Group world, group;
    int code, flag = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &leaver, &group);
    if (is(name, "win_fence"))
        return MPI_Win_fence(0, window);
    if (is(name, "win_free"))
        return MPI_Win_free(&window);
    if (is(name, "win_lock")) {
        code = MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        return code ? code : MPI_Win_flush(0, window);
    }
    if (is(name, "win_start")) {
        code = MPI_Win_start(group, 0, window);
        return code ? code : MPI_Win_complete(window);
    }
    MPI_Win_post(group, 0, window);
    if (is(name, "win_wait"))
        return MPI_Win_wait(window);
    for (code = MPI_SUCCESS; !flag && code == MPI_SUCCESS;)
        code = MPI_Win_test(window, &flag);
    return code;
}

static int wait_in_file(const char *name)
{
    MPI_Request request;
    int code;
    if (is(name, "file_write_all"))
        return MPI_File_write_at_all(file, rank, large, 1, MPI_CHAR, MPI_STATUS_IGNORE);
    if (is(name, "file_iwrite_all")) {
        code = MPI_File_iwrite_at_all(file, rank, large, 1, MPI_CHAR, &request);
        return code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (is(name, "file_ordered"))
        return MPI_File_write_ordered(file, large, 1, MPI_CHAR, MPI_STATUS_IGNORE);
    if (is(name, "file_size"))
        return MPI_File_set_size(file, 10);
    return MPI_File_close(&file);
}

/* Calls an operation that cannot end without rank 1. Returns the code of the first call that fails. */
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
    if (is(name, "iprobe") || is(name, "iprobe_any")) {
        while (!flag && code == MPI_SUCCESS)
            code = MPI_Iprobe(is(name, "iprobe") ? LEAVER : MPI_ANY_SOURCE, 5, world, &flag, status);
        return code;
    }
    if (is(name, "improbe")) {
        while (!flag && code == MPI_SUCCESS)
            code = MPI_Improbe(LEAVER, 5, world, &flag, &message, status);
        return code;
    }
    if (is(name, "dup"))
        return MPI_Comm_dup(world, &comm);
    if (window != MPI_WIN_NULL)
        return wait_in_window(name);
    if (file != MPI_FILE_NULL)
        return wait_in_file(name);
    if (is(name, "file_open"))
        return MPI_File_open(world, file_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (is(name, "accept") || is(name, "connect") || is(name, "connect_root")) {
        char port[MPI_MAX_PORT_NAME] = "";
        if (rank == 0)
            MPI_Open_port(MPI_INFO_NULL, port);
        if (is(name, "accept"))
            return MPI_Comm_accept(port, MPI_INFO_NULL, 0, world, &comm);
        return MPI_Comm_connect(port, MPI_INFO_NULL, is(name, "connect") ? 0 : LEAVER, world, &comm);
    }
    if (is(name, "spawn"))
        return MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, LEAVER, world, &comm, MPI_ERRCODES_IGNORE);
    fprintf(stderr, "no operation %s\n", name);
    MPI_Abort(world, 77);
    return code;
}

/* Makes a window or a file on all ranks, before rank 1 leaves, and in it what the leaver still holds. */
static void prepare(const char *name)
{
    int *memory;
    if (!strncmp(name, "win_", 4)) {
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        if (is(name, "win_fence"))
            MPI_Win_fence(0, window);
        if (is(name, "win_lock") && rank == LEAVER) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
            MPI_Win_flush(0, window);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strncmp(name, "file_", 5) && !is(name, "file_open")) {
        MPI_File_open(MPI_COMM_WORLD, file_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    }
}

int main(int argc, char **argv)
{
    const int status = argc > 1 ? atoi(argv[1]) : 0;
    const char *const name = argc > 2 ? argv[2] : "barrier", *const how = argc > 3 ? argv[3] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    large = calloc(LARGE, 1);
    prepare(name);
    if (rank != LEAVER) {
        if (is(how, "return")) {
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            if (window != MPI_WIN_NULL)
                MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
        }
        const int code = wait_for_leaver(name);
        printf(code ? "rank %d: told\n" : "rank %d: passed\n", rank);
        fflush(stdout);
    } else if (is(name, "bcast") || is(name, "any")) {
        /* Earlier messages do not hide that no further ones follow. */
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
