/* Environmental management (MPI-5, chapter 9). */
#include "rows.h"
#include <ctype.h>

static int seen_code, seen_calls;
static MPI_Comm seen_comm;

static void note_comm(MPI_Comm *comm, int *code, ...)
{
    seen_comm = *comm;
    seen_code = *code;
    seen_calls++;
}

static void note_win(MPI_Win *win, int *code, ...)
{
    (void)win;
    seen_code = *code;
    seen_calls++;
}

static void note_file(MPI_File *file, int *code, ...)
{
    (void)file;
    seen_code = *code;
    seen_calls++;
}

static int is_uri(const char *text)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || !isalpha((unsigned char)*text))
        return 0;
    for (const char *at = text; at < colon; at++)
        if (!isalnum((unsigned char)*at) && !strchr("+-.", *at))
            return 0;
    return 1;
}

static void library(void)
{
    int version, subversion, length = -1, keys = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME], key[MPI_MAX_INFO_KEY];
    MPI_Info info;
    MPI_Get_version(&version, &subversion);
    ROW("9.1.1", "version", version, MPI_VERSION);
    ROW("9.1.1", "subversion", subversion, MPI_SUBVERSION);
    MPI_Get_library_version(text, &length);
    ROW("9.1.1", "length of the library's version", length, strlen(text));
    MPI_Get_processor_name(name, &length);
    ROW("9.1.2", "length of the processor's name", length, strlen(name));
    MPI_Get_hw_resource_info(&info);
    MPI_Info_get_nkeys(info, &keys);
    for (int i = 0; i < keys; i++) {
        const char *value;
        MPI_Info_get_nthkey(info, i, key);
        HOLDS("9.1.2", "a type of hardware resource is a URI", is_uri(key));
        value = value_of(info, key);
        HOLDS("9.1.2", "its value is true or false", value && (!strcmp(value, "true") || !strcmp(value, "false")));
    }
    MPI_Info_free(&info);
    HOLDS("9.6", "time goes on", MPI_Wtime() <= MPI_Wtime() && MPI_Wtick() > 0 && MPI_Wtick() < 1);
}

static void memory(void)
{
    void *base = NULL;
    MPI_Info info = info_with("mpi_minimum_memory_alignment", "16384", NULL, NULL);
    ALLOWED("9.2", "memory", MPI_Alloc_mem(1000, MPI_INFO_NULL, &base));
    memset(base, 1, 1000);
    ALLOWED("9.2", "and its end", MPI_Free_mem(base));
    MPI_Alloc_mem(100, info, &base);
    ROW("9.2", "memory with an alignment", (uintptr_t)base % 16384, 0);
    MPI_Free_mem(base);
    MPI_Info_free(&info);
    ALLOWED("9.2", "no memory", MPI_Alloc_mem(0, MPI_INFO_NULL, &base));
    MPI_Free_mem(base);
    REFUSED("9.2", "memory of a negative size", MPI_Alloc_mem(-1, MPI_INFO_NULL, &base), MPI_ERR_ARG);
}

static void handlers(void)
{
    MPI_Errhandler handler, got, null = MPI_ERRHANDLER_NULL;
    MPI_Comm comm, copy;
    MPI_Win win;
    MPI_File file;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_errhandler(note_comm, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Comm_get_errhandler(comm, &got);
    HOLDS("9.3.1", "the handler that was set", got == handler);
    MPI_Errhandler_free(&got);
    HOLDS("9.3.4", "a freed handler is null", got == MPI_ERRHANDLER_NULL);
    REFUSED("9.3", "an error returns its code", MPI_Send(NULL, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    HOLDS("9.3", "and calls the handler", seen_calls == 1 && seen_comm == comm);
    REFUSED("9.3", "with the code", seen_code, MPI_ERR_COUNT);
    ALLOWED("9.3.4", "a handler in use may be freed", MPI_Errhandler_free(&handler));
    MPI_Comm_call_errhandler(comm, MPI_ERR_TOPOLOGY);
    HOLDS("9.5", "call_errhandler", seen_calls == 2 && seen_code == MPI_ERR_TOPOLOGY);
    MPI_Comm_dup(comm, &copy);
    MPI_Send(NULL, -1, MPI_INT, 0, 0, copy);
    HOLDS("9.3", "a duplicate has the handler", seen_calls == 3 && seen_comm == copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_get_errhandler(win, &got);
    HOLDS("9.3.2", "errors of windows are fatal by default", got == MPI_ERRORS_ARE_FATAL);
    MPI_Win_create_errhandler(note_win, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_call_errhandler(win, MPI_ERR_BASE);
    HOLDS("9.5", "call_errhandler of a window", seen_calls == 4 && seen_code == MPI_ERR_BASE);
    REFUSED("9.3.1", "a window's handler for a communicator", MPI_Comm_set_errhandler(MPI_COMM_SELF, handler), MPI_ERR_ERRHANDLER);
    MPI_Errhandler_free(&handler);
    MPI_Win_free(&win);
    MPI_File_get_errhandler(MPI_FILE_NULL, &got);
    HOLDS("14.7", "the default handler of files", got == MPI_ERRORS_RETURN);
    MPI_File_create_errhandler(note_file, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    MPI_File_open(MPI_COMM_SELF, "/no/such/folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    HOLDS("14.7", "an open that fails calls it", seen_calls == 5);
    REFUSED("14.7", "with the class", seen_code, MPI_ERR_NO_SUCH_FILE);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handler);
    REFUSED("9.3.4", "free of MPI_ERRHANDLER_NULL", MPI_Errhandler_free(&null), MPI_ERR_ERRHANDLER);
    REFUSED("9.3.1", "MPI_ERRHANDLER_NULL for a communicator", MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
}

/* Errors of calls without an object are those of MPI_COMM_SELF (9.3). */
static void without_object(void)
{
    MPI_Errhandler handler, got;
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    int n, before;
    MPI_Comm_create_errhandler(note_comm, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Errhandler_free(&handler);
    before = seen_calls;
    MPI_Group_size(group, &n);
    ROW("9.3", "an error of a group", seen_calls - before, 1);
    MPI_Info_set(info, "a", "b");
    ROW("9.3", "an error of an info object", seen_calls - before, 2);
    MPI_Type_size(type, &n);
    ROW("9.3", "an error of a datatype", seen_calls - before, 3);
    MPI_Request_free(&request);
    ROW("9.3", "an error of a request", seen_calls - before, 4);
    MPI_Comm_size(MPI_COMM_NULL, &n);
    ROW("9.3", "an error of MPI_COMM_NULL", seen_calls - before, 5);
    MPI_Error_class(1 << 30, &n);
    ROW("9.3", "an error of a code", seen_calls - before, 6);
    HOLDS("9.3", "all with MPI_COMM_SELF", seen_comm == MPI_COMM_SELF);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &got);
    ALLOWED("9.3.4", "free of a predefined handler that was got", MPI_Errhandler_free(&got));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    REFUSED("9.3", "MPI_ERRORS_RETURN is still there", MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT);
}

static void codes(void)
{
    int class, code, other, length, flag, *last;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_class(MPI_SUCCESS, &class);
    ROW("9.4", "class of success", class, MPI_SUCCESS);
    for (int i = 0; i <= MPI_ERR_RMA_SHARED; i++) {
        if (MPI_Error_class(i, &class) == MPI_SUCCESS && class == i) {
            MPI_Error_string(i, text, &length);
            HOLDS("9.4", "the text of a class has its length", length == (int)strlen(text) && length > 0);
        }
    }
    ALLOWED("9.5", "a class of the program", MPI_Add_error_class(&class));
    HOLDS("9.5", "is above the last one", class > MPI_ERR_LASTCODE);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    HOLDS("9.5", "MPI_LASTUSEDCODE", flag && *last >= class);
    MPI_Add_error_code(class, &code);
    MPI_Error_class(code, &other);
    ROW("9.5", "class of a code of the program", other, class);
    MPI_Add_error_string(code, "no more paper");
    MPI_Error_string(code, text, &length);
    TEXT("9.5", "text of a code of the program", text, "no more paper");
    MPI_Add_error_string(class, "paper");
    MPI_Error_string(class, text, &length);
    TEXT("9.5", "text of a class of the program", text, "paper");
    REFUSED("9.5", "a text for a predefined class", MPI_Add_error_string(MPI_ERR_ARG, "x"), MPI_ERR_ARG);
    REFUSED("9.5", "a code of a class that is none", MPI_Add_error_code(1 << 29, &other), MPI_ERR_ARG);
    REFUSED("9.5", "removal of a class with a code", MPI_Remove_error_class(class), MPI_ERR_ARG);
    MPI_Remove_error_string(code);
    MPI_Error_string(code, text, &length);
    TEXT("9.5", "text of a code without one", text, "");
    ALLOWED("9.5", "removal of a text", MPI_Remove_error_string(class));
    ALLOWED("9.5", "removal of a code", MPI_Remove_error_code(code));
    ALLOWED("9.5", "removal of its class", MPI_Remove_error_class(class));
    REFUSED("9.5", "removal of a predefined class", MPI_Remove_error_class(MPI_ERR_ARG), MPI_ERR_ARG);
    REFUSED("9.4", "class of a code that is none", MPI_Error_class(1 << 30, &class), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    library();
    memory();
    handlers();
    without_object();
    codes();
    return rows_end();
}
