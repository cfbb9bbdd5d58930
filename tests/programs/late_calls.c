/* Calls from a destructor that runs after MPI_Finalize. As with Open MPI and MPICH, memory, info objects and
 * error handlers may be freed then, other objects not.
 *
 * usage: late_calls memory | info | errhandler | keyvals | texts: allowed
 *        late_calls type | group | op | comm | win | request: ends the job
 */
#include "check.h"

static const char *what;
static void *memory[4];
static MPI_Info info;
static MPI_Errhandler errhandler;
static MPI_Datatype type;
static MPI_Group group;
static MPI_Op op;
static MPI_Comm comm;
static MPI_Win window;
static MPI_Request request;
static int keyvals[3];

static void combine(void *in, void *inout, int *length, MPI_Datatype *datatype)
{
    (void)in, (void)inout, (void)length, (void)datatype;
}

static void handle(MPI_Comm *where, int *code, ...)
{
    (void)where, (void)code;
}

static void make(void)
{
    int rank = 0;
    MPI_Group world;
    MPI_Alloc_mem(100, MPI_INFO_NULL, &memory[0]);
    MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory[1]);
    MPI_Alloc_mem(1 << 24, MPI_INFO_NULL, &memory[2]);
    MPI_Info_create(&info);
    MPI_Comm_create_errhandler(handle, &errhandler);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &rank, &group);
    MPI_Group_free(&world);
    MPI_Op_create(combine, 1, &op);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Win_create(memory[0], 100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Send_init(memory[0], 1, MPI_BYTE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyvals[0], NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &keyvals[1], NULL);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &keyvals[2], NULL);
}

static int is(const char *name)
{
    return !strcmp(what, name);
}

/* Makes the calls like the destructor of a static object. */
__attribute__((destructor)) static void destroy(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int code = MPI_SUCCESS, length;
    if (!what)
        return;
    if (is("memory"))
        for (int i = 0; i < 4; i++) {
            if (memory[i])
                memset(memory[i], 1, 100);
            code |= MPI_Free_mem(memory[i]);
        }
    else if (is("info"))
        code = MPI_Info_free(&info);
    else if (is("errhandler"))
        code = MPI_Errhandler_free(&errhandler);
    else if (is("keyvals"))
        code = MPI_Comm_free_keyval(&keyvals[0]) | MPI_Type_free_keyval(&keyvals[1]) | MPI_Win_free_keyval(&keyvals[2]);
    else if (is("texts"))
        code = MPI_Error_string(MPI_ERR_ARG, text, &length) | MPI_Error_class(MPI_ERR_ARG, &length);
    else if (is("type"))
        code = MPI_Type_free(&type);
    else if (is("group"))
        code = MPI_Group_free(&group);
    else if (is("op"))
        code = MPI_Op_free(&op);
    else if (is("comm"))
        code = MPI_Comm_free(&comm);
    else if (is("win"))
        code = MPI_Win_free(&window);
    else if (is("request"))
        code = MPI_Request_free(&request);
    printf(code == MPI_SUCCESS ? "ok\n" : "FAILED: %d\n", code);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    make();
    memset(memory[1], check_rank, 1 << 20);
    /* Also when it was lent to others. */
    MPI_Bcast(memory[2], 1 << 24, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    what = argc > 1 ? argv[1] : "memory";
    return 0;
}
