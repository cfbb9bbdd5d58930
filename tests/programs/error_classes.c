/* Every error class of the standard: a call that raises it, or why none can. tests/cases/test_programs.py
 * compares the list with the ABI's.
 *
 * usage: error_classes list|try
 */
#include "check.h"

static char memory[64];
static int n, flag, value = -1;
static void *pointer;
static MPI_Comm comm;
static MPI_Win win, dynamic;
static MPI_Info info;
static MPI_Group group;
static MPI_Datatype type;

static int truncate(void)
{
    MPI_Request request;
    MPI_Isend(memory, 8, MPI_CHAR, 0, 1, MPI_COMM_SELF, &request);
    int code = MPI_Recv(memory + 32, 4, MPI_CHAR, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
}

static int in_status(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Isend(memory, 8, MPI_CHAR, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Irecv(memory + 32, 4, MPI_CHAR, 0, 1, MPI_COMM_SELF, &requests[1]);
    return MPI_Waitall(2, requests, statuses);
}

/* Converts to external32, which has 32 bits where the value needs 64. */
static int conversion(void)
{
    MPI_Aint position = 0;
    unsigned long wide = 1UL << 40;
    return MPI_Pack_external("external32", &wide, 1, MPI_UNSIGNED_LONG, memory, 32, &position);
}

/* Creates a window of another kind on one of the two processes of a communicator. */
static int not_same(void)
{
    MPI_Win made = MPI_WIN_NULL;
    if (check_size == 1)
        return MPI_ERR_NOT_SAME;
    if (check_rank == 0)
        return MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &made);
    return MPI_Win_create(memory, 8, 1, MPI_INFO_NULL, comm, &made);
}

static int value_of_info(void)
{
    static char text[MPI_MAX_INFO_VAL + 8];
    memset(text, 'x', sizeof text - 1);
    return MPI_Info_set(info, "key", text);
}

static int spawn(void)
{
    MPI_Comm children = MPI_COMM_NULL;
    return MPI_Comm_spawn("/there/is/no/such/program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
}

static int file(void)
{
    MPI_Errhandler handler;
    return MPI_File_get_errhandler((MPI_File)MPI_INT, &handler);
}

#define RAISED(class, call)                                                                              \
    do {                                                                                                 \
        if (listing)                                                                                     \
            printf("%s %d\n", #class, class);                                                            \
        else                                                                                             \
            CHECK_CLASS(call, class);                                                                    \
    } while (0)

/* No call raises it, for this reason. */
#define NEVER(class, reason)                                                                             \
    do {                                                                                                 \
        if (listing)                                                                                     \
            printf("%s %d never: %s\n", #class, class, reason);                                          \
    } while (0)

static void arguments(int listing)
{
    RAISED(MPI_ERR_BUFFER, MPI_Send(NULL, 1, MPI_INT, 0, 0, comm));
    RAISED(MPI_ERR_COUNT, MPI_Send(memory, -1, MPI_INT, 0, 0, comm));
    RAISED(MPI_ERR_TYPE, MPI_Send(memory, 1, MPI_DATATYPE_NULL, 0, 0, comm));
    RAISED(MPI_ERR_TAG, MPI_Send(memory, 1, MPI_INT, 0, -1, comm));
    RAISED(MPI_ERR_COMM, MPI_Send(memory, 1, MPI_INT, 0, 0, MPI_COMM_NULL));
    RAISED(MPI_ERR_RANK, MPI_Send(memory, 1, MPI_INT, check_size, 0, comm));
    RAISED(MPI_ERR_REQUEST, MPI_Start(&(MPI_Request){MPI_REQUEST_NULL}));
    RAISED(MPI_ERR_ROOT, MPI_Bcast(memory, 1, MPI_INT, -1, comm));
    RAISED(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &n));
    RAISED(MPI_ERR_OP, MPI_Allreduce(memory, memory + 8, 1, MPI_INT, MPI_OP_NULL, comm));
    RAISED(MPI_ERR_TOPOLOGY, MPI_Cart_rank(comm, &n, &flag));
    RAISED(MPI_ERR_DIMS, MPI_Cart_create(comm, 1, &value, &value, 0, &(MPI_Comm){MPI_COMM_NULL}));
    RAISED(MPI_ERR_ARG, MPI_Group_incl(group, -1, NULL, &group));
    RAISED(MPI_ERR_KEYVAL, MPI_Comm_delete_attr(comm, MPI_KEYVAL_INVALID));
    RAISED(MPI_ERR_INFO, MPI_Info_get_nkeys(MPI_INFO_NULL, &n));
    RAISED(MPI_ERR_INFO_KEY, MPI_Info_set(info, "", "x"));
    RAISED(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "nothing"));
    RAISED(MPI_ERR_INFO_VALUE, value_of_info());
    RAISED(MPI_ERR_SESSION, MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &n));
    RAISED(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(comm, MPI_ERRHANDLER_NULL));
    RAISED(MPI_ERR_ABI, MPI_Abi_set_fortran_info(info));
    RAISED(MPI_ERR_FILE, file());
}

static void windows(int listing)
{
    RAISED(MPI_ERR_WIN, MPI_Win_fence(0, MPI_WIN_NULL));
    RAISED(MPI_ERR_BASE, MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, comm, &(MPI_Win){MPI_WIN_NULL}));
    RAISED(MPI_ERR_SIZE, MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, comm, &(MPI_Win){MPI_WIN_NULL}));
    RAISED(MPI_ERR_DISP, MPI_Win_create(memory, 8, 0, MPI_INFO_NULL, comm, &(MPI_Win){MPI_WIN_NULL}));
    RAISED(MPI_ERR_LOCKTYPE, MPI_Win_lock(77, 0, 0, win));
    RAISED(MPI_ERR_ASSERT, MPI_Win_lock_all(1, win));
    RAISED(MPI_ERR_RMA_SYNC, MPI_Win_unlock(0, win));
    RAISED(MPI_ERR_RMA_FLAVOR, MPI_Win_attach(win, memory, 8));
    RAISED(MPI_ERR_RMA_ATTACH, MPI_Win_detach(dynamic, memory));
    if (!listing)
        MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    RAISED(MPI_ERR_RMA_RANGE, MPI_Put(memory, 1, MPI_INT, check_rank, 1 << 20, 1, MPI_INT, win));
    if (!listing)
        MPI_Win_unlock(check_rank, win);
    RAISED(MPI_ERR_NOT_SAME, not_same());
    NEVER(MPI_ERR_RMA_CONFLICT, "conflicting accesses are serialised or undefined, not found out");
    NEVER(MPI_ERR_RMA_SHARED, "only MPI_Win_allocate_shared over several hosts or jobs; see the tests of those");
}

static void others(int listing)
{
    RAISED(MPI_ERR_TRUNCATE, truncate());
    RAISED(MPI_ERR_IN_STATUS, in_status());
    RAISED(MPI_ERR_OTHER, MPI_Init(NULL, NULL));
    RAISED(MPI_ERR_CONVERSION, conversion());
    RAISED(MPI_ERR_NO_MEM, MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &pointer));
    RAISED(MPI_ERR_NAME, MPI_Lookup_name("nobody's service", MPI_INFO_NULL, memory));
    RAISED(MPI_ERR_SERVICE, MPI_Unpublish_name("nobody's service", MPI_INFO_NULL, "port"));
    RAISED(MPI_ERR_PORT, MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &(MPI_Comm){MPI_COMM_NULL}));
    RAISED(MPI_ERR_SPAWN, spawn());
    NEVER(MPI_ERR_UNKNOWN, "the library knows its errors");
    NEVER(MPI_ERR_INTERN, "a bug of the library, which ends the job");
    NEVER(MPI_ERR_PENDING, "MPI_Waitall completes all requests, also where one has failed");
    NEVER(MPI_ERR_PROC_ABORTED, "a process that fails ends the job and those connected with it");
    NEVER(MPI_ERR_VALUE_TOO_LARGE, "what does not fit into an int is MPI_UNDEFINED");
}

static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *extra)
{
    (void)datatype, (void)extra;
    *extent = 1;
    return MPI_SUCCESS;
}

/* Opens and closes a file, and returns the result of opening. */
static int opened(const char *name, int amode)
{
    MPI_File made = MPI_FILE_NULL;
    int code = MPI_File_open(MPI_COMM_SELF, name, amode, MPI_INFO_NULL, &made);
    if (made != MPI_FILE_NULL)
        MPI_File_close(&made);
    return code;
}

/* Opens a file, accesses it, and returns the first error. The access reads, writes, or changes the view to
 * the given type and representation. */
static int accessed(const char *name, int amode, int write, MPI_Datatype view, const char *datarep)
{
    MPI_File made = MPI_FILE_NULL;
    int code = MPI_File_open(MPI_COMM_SELF, name, amode, MPI_INFO_NULL, &made);
    if (code != MPI_SUCCESS)
        return code;
    if (view != MPI_DATATYPE_NULL)
        code = MPI_File_set_view(made, 0, MPI_CHAR, view, datarep, MPI_INFO_NULL);
    else if (write)
        code = MPI_File_write_at(made, 0, memory, 1, MPI_CHAR, MPI_STATUS_IGNORE);
    else
        code = MPI_File_read_at(made, 0, memory, 1, MPI_CHAR, MPI_STATUS_IGNORE);
    MPI_File_close(&made);
    return code;
}

static int backwards(void)
{
    int code, lengths[2] = {1, 1}, places[2] = {4, 0};
    MPI_Datatype type;
    MPI_Type_indexed(2, lengths, places, MPI_CHAR, &type);
    MPI_Type_commit(&type);
    code = accessed("/dev/null", MPI_MODE_RDONLY, 0, type, "native");
    MPI_Type_free(&type);
    return code;
}

/* Tests the classes that only MPI-IO raises. */
static void files(int listing)
{
    RAISED(MPI_ERR_ACCESS, accessed("/dev/null", MPI_MODE_WRONLY, 0, MPI_DATATYPE_NULL, ""));
    RAISED(MPI_ERR_AMODE, opened("/dev/null", 0));
    RAISED(MPI_ERR_BAD_FILE, opened("/", MPI_MODE_RDONLY));
    RAISED(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, extent_of, NULL));
    RAISED(MPI_ERR_FILE_EXISTS, opened("/dev/null", MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL));
    RAISED(MPI_ERR_FILE_IN_USE, opened("/proc/self/exe", MPI_MODE_RDWR));
    RAISED(MPI_ERR_IO, backwards());
    RAISED(MPI_ERR_NO_SPACE, accessed("/dev/full", MPI_MODE_RDWR, 1, MPI_DATATYPE_NULL, ""));
    RAISED(MPI_ERR_NO_SUCH_FILE, opened("/there/is/no/such/file", MPI_MODE_RDONLY));
    NEVER(MPI_ERR_QUOTA, "needs a file system with quotas");
    RAISED(MPI_ERR_READ_ONLY, accessed("/dev/null", MPI_MODE_RDONLY, 1, MPI_DATATYPE_NULL, ""));
    RAISED(MPI_ERR_UNSUPPORTED_DATAREP, accessed("/dev/null", MPI_MODE_RDONLY, 0, MPI_CHAR, "no such"));
    RAISED(MPI_ERR_UNSUPPORTED_OPERATION, accessed("/dev/null", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, 0, MPI_DATATYPE_NULL, ""));
}

static void all(int listing)
{
    arguments(listing);
    windows(listing);
    others(listing);
    files(listing);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "list")) {
        all(1);
        return 0;
    }
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_group(comm, &group);
    MPI_Info_create(&info);
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &dynamic);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &type);
    all(0);
    MPI_Type_free(&type);
    MPI_Win_free(&dynamic);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    return check_end();
}
