/* Begin and end of a program: what is legal outside MPI_Init and MPI_Finalize, attributes that go in
 * MPI_Finalize, and messages that are still on the way then.
 *
 * usage: life [WHAT]
 *   (nothing)     the checks below, which end well
 *   twice         MPI_Init a second time            before, after    a call before MPI_Init, after MPI_Finalize
 *   atexit        exit() in a handler of atexit     fork             a child that calls nothing
 */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static int deleted[3], deletions;

static int note_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    int flag = -1, size;
    (void)key, (void)extra;
    /* MPI still works, and says so (MPI-5 section 11.2.4). */
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, 0);
    MPI_Comm_size(comm, &size);
    CHECK_EQUAL(size, 1);
    deleted[deletions++ % 3] = *(int *)value;
    return MPI_SUCCESS;
}

static void outside(int initialized, int finalized)
{
    int flag = -1, version, subversion, length, code, class;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info;
    CHECK_EQUAL(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK_EQUAL(flag, initialized);
    CHECK_EQUAL(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_EQUAL(flag, finalized);
    CHECK_EQUAL(MPI_Get_version(&version, &subversion), MPI_SUCCESS);
    CHECK(version == 5 && subversion == 0);
    CHECK_EQUAL(MPI_Get_library_version(text, &length), MPI_SUCCESS);
    CHECK_EQUAL(strlen(text), length);
    CHECK_EQUAL(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Info_set(info, "a", "b"), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Error_class(MPI_ERR_RANK, &class), MPI_SUCCESS);
    CHECK_EQUAL(class, MPI_ERR_RANK);
    CHECK_EQUAL(MPI_Error_string(MPI_ERR_RANK, text, &length), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Add_error_class(&class), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Add_error_code(class, &code), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Add_error_string(code, "mine"), MPI_SUCCESS);
}

/* Every rank sends to every rank. The messages are received only after all are sent, and MPI_Finalize follows
 * at once. */
static void late_messages(void)
{
    static char large[200000];
    char word[16];
    MPI_Request request;
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    for (int to = 0; to < check_size; to++) {
        snprintf(word, sizeof word, "from %d", check_rank);
        MPI_Send(word, sizeof word, MPI_CHAR, to, 1, MPI_COMM_WORLD);
        MPI_Bsend(large, sizeof large, MPI_CHAR, to, 2, MPI_COMM_WORLD);
        MPI_Isend(word, 1, MPI_CHAR, to, 3, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    if (check_rank == check_size - 1)
        usleep(20000);
    for (int from = 0; from < check_size; from++) {
        char wanted[16];
        snprintf(wanted, sizeof wanted, "from %d", from);
        MPI_Recv(large, sizeof large, MPI_CHAR, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(word, sizeof word, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(!strcmp(word, wanted));
        MPI_Recv(word, 1, MPI_CHAR, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void at_exit(void)
{
    int flag = 0;
    MPI_Finalized(&flag);
    _exit(flag ? 0 : 9);
}

static void child(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        exit(5);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int values[] = {1, 2, 3}, keys[3], n = 0;
    if (!strcmp(what, "before"))
        MPI_Comm_size(MPI_COMM_WORLD, &n);
    outside(0, 0);
    check_begin(&argc, &argv);
    outside(1, 0);
    if (!strcmp(what, "twice"))
        MPI_Init(&argc, &argv);
    if (!strcmp(what, "fork"))
        child();
    if (!strcmp(what, "atexit"))
        atexit(at_exit);
    for (int i = 0; i < 3; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_delete, &keys[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], &values[i]);
    }
    late_messages();
    int status = check_end();
    /* The last set goes first. */
    if (deletions != 3 || deleted[0] != 3 || deleted[1] != 2 || deleted[2] != 1)
        check_say(__FILE__, __LINE__, "%d attributes of MPI_COMM_SELF went, in the order %d %d %d", deletions, deleted[0], deleted[1], deleted[2]);
    outside(1, 1);
    if (!strcmp(what, "after"))
        MPI_Comm_size(MPI_COMM_WORLD, &n);
    return status || check_failures;
}
