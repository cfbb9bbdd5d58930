/* Tool support and profiling (MPI-5, chapter 15). */
#include "rows.h"

static void variables(void)
{
    int n = -1, length, verbosity, bind, scope, count, value;
    char name[256], text[1024];
    MPI_Datatype type;
    MPI_T_enum words;
    MPI_T_cvar_handle handle;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle variable;
    int class, readonly, continuous, atomic;
    ROW("15.3.6", "number of control variables", MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    HOLDS("15.3.6", "which is not negative", n >= 0);
    for (int i = 0; i < n; i++) {
        int again = -1, name_length = sizeof name, text_length = sizeof text;
        ROW("15.3.6", "a control variable", MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &words, text, &text_length, &bind, &scope), MPI_SUCCESS);
        ROW("15.3.6", "length of its name", name_length, strlen(name) + 1);
        ROW("15.3.6", "its index by its name", (MPI_T_cvar_get_index(name, &again), again), i);
        HOLDS("15.3.6", "its verbosity", verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
    }
    ROW("15.3.6", "a control variable beyond the last", MPI_T_cvar_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    ROW("15.3.6", "a name that is none", MPI_T_cvar_get_index("no such variable", &value), MPI_T_ERR_INVALID_NAME);
    if (n > 0) {
        ROW("15.3.6", "a handle", MPI_T_cvar_handle_alloc(0, NULL, &handle, &count), MPI_SUCCESS);
        HOLDS("15.3.6", "its number of items", count >= 1);
        ROW("15.3.6", "free of it", MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
        HOLDS("15.3.6", "makes it null", handle == MPI_T_CVAR_HANDLE_NULL);
    }
    ROW("15.3.6", "a handle beyond the last", MPI_T_cvar_handle_alloc(n, NULL, &handle, &count), MPI_T_ERR_INVALID_INDEX);
    ROW("15.3.7", "number of performance variables", MPI_T_pvar_get_num(&n), MPI_SUCCESS);
    ROW("15.3.7", "a session", MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    for (int i = 0; i < n; i++) {
        int again = -1, name_length = sizeof name;
        ROW("15.3.7", "a performance variable", MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &words, NULL, NULL, &bind, &readonly, &continuous, &atomic), MPI_SUCCESS);
        ROW("15.3.7", "its index by name and class", (MPI_T_pvar_get_index(name, class, &again), again), i);
        HOLDS("15.3.7", "its class", class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC);
        if (bind != MPI_T_BIND_NO_OBJECT)
            continue;
        ROW("15.3.7", "a handle of it", MPI_T_pvar_handle_alloc(session, i, NULL, &variable, &count), MPI_SUCCESS);
        if (continuous)
            ROW("15.3.7", "one that runs always cannot be started", MPI_T_pvar_start(session, variable), MPI_T_ERR_PVAR_NO_STARTSTOP);
        if (readonly)
            ROW("15.3.7", "one that is read alone cannot be reset", MPI_T_pvar_reset(session, variable), MPI_T_ERR_PVAR_NO_WRITE);
        ROW("15.3.7", "free of the handle", MPI_T_pvar_handle_free(session, &variable), MPI_SUCCESS);
        HOLDS("15.3.7", "makes it null", variable == MPI_T_PVAR_HANDLE_NULL);
    }
    ROW("15.3.7", "a performance variable beyond the last", MPI_T_pvar_handle_alloc(session, n, NULL, &variable, &count), MPI_T_ERR_INVALID_INDEX);
    ROW("15.3.7", "end of the session", MPI_T_pvar_session_free(&session), MPI_SUCCESS);
    HOLDS("15.3.7", "makes it null", session == MPI_T_PVAR_SESSION_NULL);
    ROW("15.3.9", "number of categories", MPI_T_category_get_num(&n), MPI_SUCCESS);
    for (int i = 0; i < n; i++) {
        int variables, performance, below, again = -1, name_length = sizeof name;
        ROW("15.3.9", "a category", MPI_T_category_get_info(i, name, &name_length, NULL, NULL, &variables, &performance, &below), MPI_SUCCESS);
        ROW("15.3.9", "its index by its name", (MPI_T_category_get_index(name, &again), again), i);
    }
    ROW("15.3.9", "a category beyond the last", MPI_T_category_get_info(n, NULL, NULL, NULL, NULL, &value, &value, &value), MPI_T_ERR_INVALID_INDEX);
    ROW("15.3.9", "stamp of changes", MPI_T_category_changed(&value), MPI_SUCCESS);
    ROW("15.3.8", "number of events", MPI_T_event_get_num(&n), MPI_SUCCESS);
    ROW("15.3.8", "an event beyond the last", MPI_T_event_get_index("no such event", &value), MPI_T_ERR_INVALID_NAME);
    ROW("15.3.8", "number of sources", MPI_T_source_get_num(&n), MPI_SUCCESS);
    length = 0;
    ROW("15.3.8", "a source beyond the last", MPI_T_source_get_info(n, name, &length, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
}

/* A tool's functions stand beside the program's. */
static void profiling(void)
{
    int rank = -1, x = 3, y = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    ROW("15.2", "PMPI_Comm_rank", rank, check_rank);
    PMPI_Allreduce(&x, &y, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    ROW("15.2", "PMPI_Allreduce", y, 3 * check_size);
    HOLDS("15.2", "PMPI_Wtime", PMPI_Wtime() > 0);
    ALLOWED("15.2.4", "MPI_Pcontrol with any level", MPI_Pcontrol(0));
    ALLOWED("15.2.4", "MPI_Pcontrol with the usual level", MPI_Pcontrol(1));
    ALLOWED("15.2.4", "MPI_Pcontrol with arguments", MPI_Pcontrol(7, "words"));
}

int main(int argc, char **argv)
{
    int level, n, failed;
    ROW("15.3.4", "the tool interface before its start", MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    ROW("15.3.4", "its start before MPI_Init", MPI_T_init_thread(MPI_THREAD_SINGLE, &level), MPI_SUCCESS);
    ROW("15.3.4", "a second start", MPI_T_init_thread(MPI_THREAD_SINGLE, &level), MPI_SUCCESS);
    ROW("15.3.6", "variables before MPI_Init", MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    ROW("15.3.4", "its end", MPI_T_finalize(), MPI_SUCCESS);
    rows_begin(&argc, &argv);
    variables();
    profiling();
    failed = rows_end();
    if (MPI_T_cvar_get_num(&n) != MPI_SUCCESS)
        failed = 1;
    MPI_T_finalize();
    return failed;
}
