/* Process initialisation, sessions and creation (MPI-5, chapter 11). Started again as a child of itself. */
#include "rows.h"
#include <unistd.h>

static const char *session_hint(MPI_Session session, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_Session_get_info(session, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

static const char *comm_hint(MPI_Comm comm, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_Comm_get_info(comm, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

static const char *win_hint(MPI_Win win, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_Win_get_info(win, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

static const char *file_hint(MPI_File file, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_File_get_info(file, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

/* All that derives from a communicator of a session has the kinds of memory of the session (11.4.3). */
static void derived_kinds(MPI_Comm comm, const char *wanted)
{
    enum { MADE = 8 };
    static const char *const names[MADE] = {"dup", "idup", "split", "create", "create_group", "cart_create", "split_type", "dup_with_info"};
    const char *const key = "mpi_memory_alloc_kinds";
    MPI_Comm made[MADE], inter, merged;
    MPI_Request request;
    MPI_Group group;
    MPI_Win win;
    MPI_File file;
    void *base;
    char path[64];
    MPI_Comm_group(comm, &group);
    MPI_Comm_dup(comm, &made[0]);
    MPI_Comm_idup(comm, &made[1], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_split(comm, 0, 0, &made[2]);
    MPI_Comm_create(comm, group, &made[3]);
    MPI_Comm_create_group(comm, group, 3, &made[4]);
    MPI_Cart_create(comm, 1, &check_size, (int[]){0}, 0, &made[5]);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made[6]);
    MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made[7]);
    for (int i = 0; i < MADE; i++) {
        TEXT("11.4.3", names[i], comm_hint(made[i], key), wanted);
        MPI_Comm_free(&made[i]);
    }
    if (check_size > 1) {
        MPI_Comm_split(comm, check_rank % 2, 0, &made[0]);
        MPI_Intercomm_create(made[0], 0, comm, 1 - check_rank % 2, 5, &inter);
        TEXT("11.4.3", "an intercommunicator", comm_hint(inter, key), wanted);
        MPI_Intercomm_merge(inter, 0, &merged);
        TEXT("11.4.3", "and what is merged of it", comm_hint(merged, key), wanted);
        MPI_Comm_free(&merged);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&made[0]);
    }
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, comm, &base, &win);
    TEXT("11.4.3", "a window", win_hint(win, key), wanted);
    MPI_Win_free(&win);
    snprintf(path, sizeof path, "/tmp/tutti-standard-%d-%s", (int)getuid(), getenv("JOB_MARK") ? getenv("JOB_MARK") : "");
    if (MPI_File_open(comm, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file) == MPI_SUCCESS) {
        TEXT("11.4.3", "a file", file_hint(file, key), wanted);
        MPI_File_close(&file);
    }
    MPI_Group_free(&group);
}

static void sessions(void)
{
    MPI_Session session, null = MPI_SESSION_NULL;
    MPI_Group group;
    MPI_Comm comm, copy;
    MPI_Info info;
    MPI_Errhandler handler;
    int n, length, size;
    char name[MPI_MAX_PSET_NAME_LEN], wanted[MPI_MAX_INFO_VAL];
    const char *const kinds = "mpi_memory_alloc_kinds";
    ALLOWED("11.3.1", "session", MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MPI_Session_get_errhandler(session, &handler);
    HOLDS("9.3.4", "its error handler", handler == MPI_ERRORS_RETURN);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    HOLDS("11.3.2", "process sets", n >= 2);
    for (int i = 0, found = 0; i < n; i++) {
        length = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL);
        HOLDS("11.3.2", "length of the name of a set", length > 1 && length <= MPI_MAX_PSET_NAME_LEN);
        length = sizeof name;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name);
        ROW("11.3.2", "with the terminator", length, strlen(name) + 1);
        found += !strcmp(name, "mpi://WORLD") || !strcmp(name, "mpi://SELF");
        if (i == n - 1)
            ROW("11.3.2", "mpi://WORLD and mpi://SELF", found, 2);
    }
    REFUSED("11.3.2", "a set beyond the last", MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name), MPI_ERR_ARG);
    MPI_Session_get_pset_info(session, "mpi://WORLD", &info);
    HOLDS("11.3.2", "mpi_size of a set", value_of(info, "mpi_size") && atoi(value_of(info, "mpi_size")) == check_size);
    MPI_Info_free(&info);
    REFUSED("11.3.2", "group of a set that is none", MPI_Group_from_session_pset(session, "mpi://NONE", &group), MPI_ERR_ARG);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "standard", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_size(comm, &size);
    ROW("11.3.3", "communicator of a set", size, check_size);
    MPI_Comm_dup(comm, &copy);
    HOLDS("11.4.3", "kinds of memory of a session", has_entry(session_hint(session, kinds), "mpi") && has_entry(session_hint(session, kinds), "system"));
    TEXT("11.4.3", "its communicators have the same", comm_hint(comm, kinds), session_hint(session, kinds));
    TEXT("11.4.3", "and their duplicates", comm_hint(copy, kinds), session_hint(session, kinds));
    HOLDS("11.3.1", "thread level of a session", session_hint(session, "thread_level") && !strncmp(session_hint(session, "thread_level"), "MPI_THREAD_", 11));
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    ALLOWED("11.3.1", "end of a session", MPI_Session_finalize(&session));
    HOLDS("11.3.1", "its handle is null", session == MPI_SESSION_NULL);
    REFUSED("11.3.1", "end of MPI_SESSION_NULL", MPI_Session_finalize(&null), MPI_ERR_SESSION);

    info = info_with(kinds, "mpi:alloc_mem,no such kind,system", "no such hint", "value");
    MPI_Session_init(info, MPI_ERRORS_RETURN, &session);
    MPI_Info_free(&info);
    HOLDS("11.4.3", "a kind that was requested", has_entry(session_hint(session, kinds), "mpi:alloc_mem"));
    HOLDS("11.4.3", "beside the usual ones", has_entry(session_hint(session, kinds), "mpi") && has_entry(session_hint(session, kinds), "system"));
    HOLDS("11.4.3", "one that is not supported", !has_entry(session_hint(session, kinds), "no such kind"));
    TEXT("11.3.1", "a hint of a session that is ignored", session_hint(session, "no such hint"), NULL);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "other", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    TEXT("11.4.3", "a communicator of this session", comm_hint(comm, kinds), session_hint(session, kinds));
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "third", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    snprintf(wanted, sizeof wanted, "%s", session_hint(session, kinds));
    derived_kinds(comm, wanted);
    HOLDS("11.4.3", "the world has its own", !has_entry(comm_hint(MPI_COMM_WORLD, kinds), "mpi:alloc_mem"));
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

/* Processes that cannot be started (11.8.2): all ranks get the codes. */
static void failed_spawn(void)
{
    enum { WANTED = 3 };
    int codes[WANTED + 1] = {-7, -7, -7, -7}, both[2 * WANTED];
    MPI_Comm children = MPI_COMM_NULL;
    char *commands[] = {"/no/such/program", "/no/such/program"};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    for (int root = 0; root < check_size; root += check_size > 1 ? check_size - 1 : 1) {
        REFUSED("11.8.2", "spawn of a program that is not there", MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, check_rank == root ? WANTED : 0, MPI_INFO_NULL, root, MPI_COMM_WORLD, &children, codes), MPI_ERR_SPAWN);
        for (int i = 0; i < WANTED; i++)
            REFUSED("11.8.2", "code of each process on all ranks", codes[i], MPI_ERR_SPAWN);
        ROW("11.8.2", "no more codes", codes[WANTED], -7);
    }
    REFUSED("11.8.3", "spawn_multiple of programs that are not there", MPI_Comm_spawn_multiple(2, commands, MPI_ARGVS_NULL, (int[]){WANTED, WANTED}, infos, 0, MPI_COMM_WORLD, &children, both), MPI_ERR_SPAWN);
    REFUSED("11.8.3", "code of the last process", both[2 * WANTED - 1], MPI_ERR_SPAWN);
    REFUSED("11.8.2", "a root beyond the group", MPI_Comm_spawn("x", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 77, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE), MPI_ERR_ROOT);
}

static void spawn(const char *program)
{
    MPI_Comm children, all;
    int codes[2] = {-7, -7}, n, flag;
    char *arguments[] = {"child", NULL};
    MPI_Info info = info_with("mpi_memory_alloc_kinds", "mpi:win_allocate", NULL, NULL);
    ALLOWED("11.8.2", "spawn", MPI_Comm_spawn(program, arguments, 2, info, 0, MPI_COMM_WORLD, &children, codes));
    HOLDS("11.8.2", "codes of success", codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS);
    MPI_Info_free(&info);
    MPI_Comm_test_inter(children, &flag);
    ROW("11.8.2", "an intercommunicator", flag, 1);
    MPI_Comm_remote_size(children, &n);
    ROW("11.8.2", "with the new processes", n, 2);
    MPI_Intercomm_merge(children, 0, &all);
    MPI_Comm_size(all, &n);
    ROW("7.6.2", "all together", n, check_size + 2);
    /* The number of rows that failed in the children. */
    n = 0;
    MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT, MPI_SUM, all);
    ROW("11.8.2", "rows that failed in the children", n, 0);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&children);
    HOLDS("11.11.3", "a disconnected communicator is null", children == MPI_COMM_NULL);
}

static int child(void)
{
    MPI_Comm parent, all;
    int n, failures, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm_get_parent(&parent);
    HOLDS("11.8.2", "a child has a parent", parent != MPI_COMM_NULL);
    MPI_Comm_get_name(parent, name, &length);
    TEXT("7.8", "its name", name, "MPI_COMM_PARENT");
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    ROW("11.8.2", "a world of its own", n, 2);
    HOLDS("11.4.3", "with the kinds of memory that the parents requested", has_entry(comm_hint(MPI_COMM_WORLD, "mpi_memory_alloc_kinds"), "mpi:win_allocate"));
    MPI_Intercomm_merge(parent, 1, &all);
    failures = (int)check_failures;
    MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    HOLDS("11.11.3", "no parent after that", parent == MPI_COMM_NULL);
    MPI_Finalize();
    return 0;
}

static void ports(void)
{
    MPI_Comm parent, comm;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm_get_parent(&parent);
    HOLDS("11.8.2", "no parent", parent == MPI_COMM_NULL);
    ALLOWED("11.9.2", "a port", MPI_Open_port(MPI_INFO_NULL, port));
    HOLDS("11.9.2", "has a name", *port && strlen(port) < MPI_MAX_PORT_NAME);
    ALLOWED("11.9.2", "and is closed", MPI_Close_port(port));
    REFUSED("11.9.4", "a service that nobody offers", MPI_Lookup_name("tutti-no-such-service", MPI_INFO_NULL, port), MPI_ERR_NAME);
    REFUSED("11.9.4", "the end of a service that nobody offers", MPI_Unpublish_name("tutti-no-such-service", MPI_INFO_NULL, "x"), MPI_ERR_SERVICE);
    REFUSED("11.9.3", "connection to no port", MPI_Comm_connect("no such port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &comm), MPI_ERR_PORT);
}

static void start(void)
{
    int flag, level, again;
    MPI_Initialized(&flag);
    ROW("11.4.1", "MPI_Initialized", flag, 1);
    MPI_Finalized(&flag);
    ROW("11.4.1", "MPI_Finalized", flag, 0);
    MPI_Is_thread_main(&flag);
    ROW("11.4.2", "the main thread", flag, 1);
    MPI_Query_thread(&level);
    HOLDS("11.4.2", "thread level", level >= MPI_THREAD_SINGLE && level <= MPI_THREAD_MULTIPLE);
    HOLDS("11.2.1", "a second MPI_Init is refused", MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &again) != MPI_SUCCESS);
}

static int order[2], deleted, was_finalized = 1;

static int note_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    order[deleted++ % 2] = *(int *)value;
    MPI_Finalized(&was_finalized);
    return MPI_SUCCESS;
}

static void no_handler(MPI_Session *session, int *code, ...)
{
    (void)session, (void)code;
}

/* Functions that may be called at any time (11.4.1). */
static void at_any_time(const char *when)
{
    int version, subversion, length, class, code, flag;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Info info, copy;
    MPI_Errhandler handler;
    ROW("11.4.1", when, MPI_Get_version(&version, &subversion), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Get_library_version(text, &length), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Abi_get_version(&version, &subversion), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_create(&info), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_set(info, "key", "value"), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_dup(info, &copy), MPI_SUCCESS);
    TEXT("11.4.1", when, value_of(copy, "key"), "value");
    ROW("11.4.1", when, MPI_Info_delete(info, "key"), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_free(&info), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_free(&copy), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_create_env(0, NULL, &info), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Info_free(&info), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Session_create_errhandler(no_handler, &handler), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Errhandler_free(&handler), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Add_error_class(&class), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Add_error_code(class, &code), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Add_error_string(code, "text"), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Error_class(code, &flag), MPI_SUCCESS);
    ROW("11.4.1", when, flag, class);
    ROW("11.4.1", when, MPI_Error_string(code, text, &length), MPI_SUCCESS);
    TEXT("11.4.1", when, text, "text");
    ROW("11.4.1", when, MPI_Remove_error_string(code), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Remove_error_code(code), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Remove_error_class(class), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Initialized(&flag), MPI_SUCCESS);
    ROW("11.4.1", when, MPI_Finalized(&flag), MPI_SUCCESS);
    HOLDS("11.4.1", when, MPI_Wtime() > 0 && MPI_Wtick() > 0);
}

int main(int argc, char **argv)
{
    int flag = 1, failed, keys[2], values[2] = {1, 2};
    if (argc > 1 && !strcmp(argv[1], "child")) {
        rows_begin(&argc, &argv);
        return child();
    }
    MPI_Initialized(&flag);
    HOLDS("11.4.1", "MPI_Initialized before MPI_Init", !flag);
    MPI_Finalized(&flag);
    HOLDS("11.4.1", "MPI_Finalized before MPI_Init", !flag);
    at_any_time("before MPI_Init");
    rows_begin(&argc, &argv);
    start();
    for (int i = 0; i < 2; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_delete, &keys[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], &values[i]);
    }
    sessions();
    ports();
    if (argc > 1 && !strcmp(argv[1], "spawn")) {
        failed_spawn();
        spawn(argv[0]);
    }
    if (argc > 2)
        HOLDS("11.5", "kinds of memory that mpirun was given", has_entry(comm_hint(MPI_COMM_WORLD, "mpi_memory_alloc_kinds"), argv[2]));
    failed = rows_end();
    check_failures = 0;
    MPI_Finalized(&flag);
    ROW("11.4.1", "MPI_Finalized after MPI_Finalize", flag, 1);
    MPI_Initialized(&flag);
    ROW("11.4.1", "MPI_Initialized after MPI_Finalize", flag, 1);
    HOLDS("11.2.4", "attributes of MPI_COMM_SELF are deleted, the last first", deleted == 2 && order[0] == 2 && order[1] == 1);
    ROW("11.2.4", "before MPI is finalised", was_finalized, 0);
    at_any_time("after MPI_Finalize");
    return failed || check_failures;
}
