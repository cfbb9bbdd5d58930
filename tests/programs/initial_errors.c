/* The error handlers that are there from the start, the one of files, and communicators that cannot be
 * duplicated.
 *
 * usage: initial_errors NAME [early|late]      NAME: the initial error handler; early, late: an error before MPI_Init, after MPI_Finalize
 */
#include "check.h"

static MPI_File seen_file;
static int seen_code, calls;

static void note(MPI_File *file, int *code, ...)
{
    seen_file = *file;
    seen_code = *code;
    calls++;
}

static void expect_handler(MPI_Comm comm, MPI_Errhandler wanted)
{
    MPI_Errhandler got;
    MPI_Comm_get_errhandler(comm, &got);
    CHECK(got == wanted);
    MPI_Errhandler_free(&got);
}

static void handler_of_files(void)
{
    MPI_Errhandler got, mine;
    MPI_File file;
    CHECK_CLASS(MPI_File_get_errhandler(MPI_FILE_NULL, &got), MPI_SUCCESS);
    CHECK(got == MPI_ERRORS_RETURN);
    MPI_File_create_errhandler(note, &mine);
    CHECK_CLASS(MPI_File_set_errhandler(MPI_FILE_NULL, mine), MPI_SUCCESS);
    MPI_File_get_errhandler(MPI_FILE_NULL, &got);
    CHECK(got != MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&got);
    CHECK_CLASS(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_READ_ONLY), MPI_SUCCESS);
    CHECK(calls == 1 && seen_file == MPI_FILE_NULL && seen_code == MPI_ERR_READ_ONLY);
    /* Errors that are no file's. */
    CHECK(MPI_File_open(MPI_COMM_SELF, "/there/is/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
    CHECK_EQUAL(calls, 2);
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, mine), MPI_ERR_ERRHANDLER); /* of the wrong kind */
    MPI_Errhandler_free(&mine);
    CHECK_CLASS(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_OTHER), MPI_SUCCESS);
    CHECK_EQUAL(calls, 2);
}

static int wrong_code;

static int refuse(MPI_Comm comm, int keyval, void *state, void *from, void *to, int *flag)
{
    (void)comm, (void)keyval, (void)state, (void)from, (void)to;
    *flag = 0;
    return wrong_code;
}

/* Tests a copy callback that fails on the last rank. There the communicator is null; on the other ranks it is
 * created, and no rank waits for ever. */
static void refused_duplicates(void)
{
    MPI_Comm one, two = MPI_COMM_WORLD, three = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    int keyval, class, code, last = check_rank == check_size - 1;
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &wrong_code);
    MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_set_errhandler(one, MPI_ERRORS_RETURN);
    if (last)
        MPI_Comm_set_attr(one, keyval, NULL);
    code = MPI_Comm_dup(one, &two);
    CHECK_EQUAL(code, last ? wrong_code : MPI_SUCCESS);
    CHECK((two == MPI_COMM_NULL) == last);
    code = MPI_Comm_idup(one, &three, &request);
    CHECK_EQUAL(code, last ? wrong_code : MPI_SUCCESS);
    CHECK((three == MPI_COMM_NULL) == last);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(one);
    if (!last)
        MPI_Comm_free(&two), MPI_Comm_free(&three);
    MPI_Comm_free(&one);
    MPI_Comm_free_keyval(&keyval);
}

int main(int argc, char **argv)
{
    MPI_Errhandler initial = MPI_ERRORS_ARE_FATAL;
    const char *name = argc > 1 ? argv[1] : "", *when = argc > 2 ? argv[2] : "";
    int size;
    if (!strcmp(name, "mpi_errors_return"))
        initial = MPI_ERRORS_RETURN;
    else if (!strcmp(name, "mpi_errors_abort"))
        initial = MPI_ERRORS_ABORT;
    if (!strcmp(when, "early"))
        CHECK_CLASS(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_ERR_OTHER);
    check_begin(&argc, &argv);
    expect_handler(MPI_COMM_WORLD, initial);
    expect_handler(MPI_COMM_SELF, initial);
    if (initial == MPI_ERRORS_RETURN) {
        CHECK_CLASS(MPI_Send(NULL, 0, MPI_INT, 0, -7, MPI_COMM_WORLD), MPI_ERR_TAG);
        CHECK_CLASS(MPI_Group_size(MPI_GROUP_NULL, &size), MPI_ERR_GROUP);
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    handler_of_files();
    refused_duplicates();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, initial);
    int status = check_end();
    if (!strcmp(when, "late"))
        MPI_Comm_size(MPI_COMM_WORLD, &size);
    return status;
}
