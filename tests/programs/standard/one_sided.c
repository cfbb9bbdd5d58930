/* One-sided communication (MPI-5, chapter 12). */
#include "rows.h"

static MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
static int memory[64];

static const char *hint(MPI_Win win, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_Win_get_info(win, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

static void set_hint(MPI_Win win, const char *key, const char *value)
{
    MPI_Info info = info_with(key, value, NULL, NULL);
    ALLOWED("12.2.7", key, MPI_Win_set_info(win, info));
    MPI_Info_free(&info);
}

/* Creates a window of one of the kinds on a communicator. The caller frees it. */
static MPI_Win window_of(int flavor, MPI_Info info, MPI_Comm comm)
{
    MPI_Win win = MPI_WIN_NULL;
    void *base;
    if (flavor == MPI_WIN_FLAVOR_CREATE)
        MPI_Win_create(memory, sizeof memory, 4, info, comm, &win);
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE)
        MPI_Win_allocate(256, 4, info, comm, &base, &win);
    if (flavor == MPI_WIN_FLAVOR_SHARED)
        MPI_Win_allocate_shared(256, 4, info, comm, &base, &win);
    if (flavor == MPI_WIN_FLAVOR_DYNAMIC)
        MPI_Win_create_dynamic(info, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    return win;
}

static const int FLAVORS[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC};

static void hints(void)
{
    static const struct {
        const char *key, *value, *other, *wrong;
    } rows[] = {
        {"no_locks", "false", "true", "maybe"},
        {"accumulate_ordering", "rar,raw,war,waw", "none", "rar,xyz"},
        {"accumulate_ops", "same_op_no_op", "same_op", "any"},
        {"same_size", "false", "true", "2"},
        {"same_disp_unit", "false", "true", ""},
        {"mpi_accumulate_granularity", "0", "64", "-8"},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    for (int flavor = 0; flavor < 4; flavor++) {
        int is_allocated = FLAVORS[flavor] == MPI_WIN_FLAVOR_ALLOCATE || FLAVORS[flavor] == MPI_WIN_FLAVOR_SHARED;
        MPI_Win win = window_of(FLAVORS[flavor], MPI_INFO_NULL, self);
        for (int i = 0; i < ROWS; i++)
            TEXT("12.2.7", rows[i].key, hint(win, rows[i].key), rows[i].value);
        if (is_allocated)
            TEXT("12.2.3", "alloc_shared_noncontig", hint(win, "alloc_shared_noncontig"), "false");
        for (int i = 0; i < ROWS; i++) {
            set_hint(win, rows[i].key, rows[i].other);
            TEXT("12.2.7", rows[i].key, hint(win, rows[i].key), rows[i].other);
            for (int j = 0; j < ROWS; j++)
                TEXT("12.2.7", "hints that are not named stay", hint(win, rows[j].key), j <= i ? rows[j].other : rows[j].value);
        }
        for (int i = 0; i < ROWS; i++) {
            set_hint(win, rows[i].key, rows[i].wrong);
            TEXT("12.2.7", "a value without meaning changes nothing", hint(win, rows[i].key), rows[i].other);
        }
        set_hint(win, "no such hint", "value");
        TEXT("12.2.7", "a hint that is ignored is not returned", hint(win, "no such hint"), NULL);
        HOLDS("11.4.3", "kinds of memory of a window", has_entry(hint(win, "mpi_memory_alloc_kinds"), "mpi") && has_entry(hint(win, "mpi_memory_alloc_kinds"), "system"));
        set_hint(win, "mpi_assert_memory_alloc_kinds", "mpi");
        TEXT("11.4.3", "an assertion on kinds of memory", hint(win, "mpi_assert_memory_alloc_kinds"), "mpi");
        MPI_Win_free(&win);
        MPI_Info info = info_with("no_locks", "true", "no such hint", "value");
        win = window_of(FLAVORS[flavor], info, self);
        TEXT("12.2.1", "a hint where the window is made", hint(win, "no_locks"), "true");
        TEXT("12.2.1", "one that is ignored there", hint(win, "no such hint"), NULL);
        MPI_Win_free(&win);
        MPI_Info_free(&info);
    }
    REFUSED("12.2.7", "hints of MPI_WIN_NULL", MPI_Win_set_info(MPI_WIN_NULL, MPI_INFO_NULL), MPI_ERR_WIN);
}

static void alignment(void)
{
    MPI_Comm node;
    static const char *const rows[] = {"64", "4096", "8192", "65536", "2097152"};
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MPI_Info info = info_with("mpi_minimum_memory_alignment", rows[i], NULL, NULL);
        char *base;
        MPI_Win win;
        MPI_Win_allocate(1000, 1, info, world, &base, &win);
        ROW("12.2.2", "alignment of MPI_Win_allocate", (uintptr_t)base % (unsigned)atoi(rows[i]), 0);
        base[999] = 1;
        TEXT("12.2.2", "is returned", hint(win, "mpi_minimum_memory_alignment"), rows[i]);
        MPI_Win_free(&win);
        MPI_Win_allocate_shared(1000, 1, info, self, &base, &win);
        ROW("12.2.3", "alignment of MPI_Win_allocate_shared", (uintptr_t)base % (unsigned)atoi(rows[i]), 0);
        MPI_Win_free(&win);
        MPI_Info_set(info, "alloc_shared_noncontig", "true");
        MPI_Win_allocate_shared(1000, 1, info, node, &base, &win);
        ROW("12.2.3", "alignment of MPI_Win_allocate_shared with gaps", (uintptr_t)base % (unsigned)atoi(rows[i]), 0);
        TEXT("12.2.3", "gaps are returned", hint(win, "alloc_shared_noncontig"), "true");
        set_hint(win, "alloc_shared_noncontig", "false");
        TEXT("12.2.3", "and cannot change later", hint(win, "alloc_shared_noncontig"), "true");
        MPI_Win_free(&win);
        MPI_Info_free(&info);
    }
    MPI_Comm_free(&node);
}

static void attributes(void)
{
    for (int flavor = 0; flavor < 4; flavor++) {
        MPI_Win win = window_of(FLAVORS[flavor], MPI_INFO_NULL, world), null = MPI_WIN_NULL;
        int flag, *number;
        MPI_Aint *size;
        void *base;
        MPI_Group group, all;
        char name[MPI_MAX_OBJECT_NAME];
        MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag);
        HOLDS("12.2.6", "MPI_WIN_CREATE_FLAVOR", flag && *number == FLAVORS[flavor]);
        MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &flag);
        HOLDS("12.2.6", "MPI_WIN_MODEL", flag && (*number == MPI_WIN_UNIFIED || *number == MPI_WIN_SEPARATE));
        MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
        HOLDS("12.2.6", "MPI_WIN_SIZE", flag && *size == (FLAVORS[flavor] == MPI_WIN_FLAVOR_DYNAMIC ? 0 : 256));
        MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag);
        HOLDS("12.2.6", "MPI_WIN_DISP_UNIT", flag && *number == (FLAVORS[flavor] == MPI_WIN_FLAVOR_DYNAMIC ? 1 : 4));
        MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag);
        HOLDS("12.2.6", "MPI_WIN_BASE", flag && (FLAVORS[flavor] == MPI_WIN_FLAVOR_DYNAMIC ? base == MPI_BOTTOM : base != NULL));
        MPI_Win_get_group(win, &group);
        MPI_Comm_group(world, &all);
        MPI_Group_compare(group, all, &flag);
        ROW("12.2.6", "group of a window", flag, MPI_IDENT);
        MPI_Group_free(&group);
        MPI_Group_free(&all);
        MPI_Win_get_name(win, name, &flag);
        TEXT("7.8", "a window has no name", name, "");
        REFUSED("7.7.3", "set of a predefined attribute of a window", MPI_Win_set_attr(win, MPI_WIN_SIZE, name), MPI_ERR_KEYVAL);
        MPI_Win_free(&win);
        HOLDS("12.2.5", "a freed window is null", win == MPI_WIN_NULL);
        REFUSED("12.2.5", "free of MPI_WIN_NULL", MPI_Win_free(&null), MPI_ERR_WIN);
    }
}

static void arguments(void)
{
    MPI_Win win;
    int x = 0;
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    REFUSED("12.2.1", "window of a negative size", MPI_Win_create(memory, -1, 1, MPI_INFO_NULL, self, &win), MPI_ERR_SIZE);
    REFUSED("12.2.1", "window with a unit of zero", MPI_Win_create(memory, 4, 0, MPI_INFO_NULL, self, &win), MPI_ERR_DISP);
    REFUSED("12.2.1", "window on MPI_COMM_NULL", MPI_Win_create(memory, 4, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    win = window_of(MPI_WIN_FLAVOR_CREATE, MPI_INFO_NULL, self);
    REFUSED("12.5", "put outside of an epoch", MPI_Put(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    REFUSED("12.5.3", "unlock without lock", MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    REFUSED("12.5.2", "complete without start", MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    REFUSED("12.5.2", "wait without post", MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    REFUSED("12.5.4", "flush outside of a passive epoch", MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    REFUSED("12.5.3", "lock of no type", MPI_Win_lock(4711, 0, 0, win), MPI_ERR_LOCKTYPE);
    REFUSED("12.5.3", "lock of a rank beyond the group", MPI_Win_lock(MPI_LOCK_SHARED, 7, 0, win), MPI_ERR_RANK);
    REFUSED("12.5.5", "an assertion that is none", MPI_Win_fence(1 << 28, win), MPI_ERR_ASSERT);
    REFUSED("12.2.4", "attach to a window that is not dynamic", MPI_Win_attach(win, memory, 4), MPI_ERR_RMA_FLAVOR);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    REFUSED("12.5.3", "lock twice", MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    REFUSED("12.5.1", "fence in a lock", MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    REFUSED("12.2.5", "free in a lock", MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    REFUSED("12.3.1", "put of a negative count", MPI_Put(&x, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    REFUSED("12.3.1", "put of MPI_DATATYPE_NULL", MPI_Put(&x, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    REFUSED("12.3.1", "put to a rank beyond the group", MPI_Put(&x, 1, MPI_INT, 7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    REFUSED("12.3.1", "put beyond the window", MPI_Put(&x, 1, MPI_INT, 0, 1000, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    ALLOWED("12.3.1", "put to nobody", MPI_Put(&x, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    REFUSED("12.3.4", "accumulate by MPI_OP_NULL", MPI_Accumulate(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    REFUSED("12.3.4", "compare and swap of doubles", MPI_Compare_and_swap(&x, &x, &x, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
    win = window_of(MPI_WIN_FLAVOR_DYNAMIC, MPI_INFO_NULL, self);
    MPI_Win_attach(win, memory, 64);
    REFUSED("12.2.4", "attach of what is attached", MPI_Win_attach(win, memory, 64), MPI_ERR_RMA_ATTACH);
    ALLOWED("12.2.4", "detach", MPI_Win_detach(win, memory));
    REFUSED("12.2.4", "detach of what is not attached", MPI_Win_detach(win, memory), MPI_ERR_RMA_ATTACH);
    REFUSED("12.2.3", "shared_query of a dynamic window", MPI_Win_shared_query(win, 0, &(MPI_Aint){0}, &x, &(void *){NULL}), MPI_ERR_RMA_FLAVOR);
    MPI_Win_free(&win);
}

/* Operations with requests, which are for epochs of passive targets (12.3.5). */
static void requests(void)
{
    MPI_Win win = window_of(MPI_WIN_FLAVOR_ALLOCATE, MPI_INFO_NULL, world);
    int x = 5, y = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    REFUSED("12.3.5", "Rput outside of an epoch", MPI_Rput(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    MPI_Win_fence(0, win);
    REFUSED("12.3.5", "Rput between fences", MPI_Rput(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    REFUSED("12.3.5", "Rget between fences", MPI_Rget(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    REFUSED("12.3.5", "Raccumulate between fences", MPI_Raccumulate(&x, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request), MPI_ERR_RMA_SYNC);
    REFUSED("12.3.5", "Rget_accumulate between fences", MPI_Rget_accumulate(&x, 1, MPI_INT, &y, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win, &request), MPI_ERR_RMA_SYNC);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win);
    ALLOWED("12.3.5", "Rput in a lock", MPI_Rput(&x, 1, MPI_INT, check_rank, 0, 1, MPI_INT, win, &request));
    REFUSED("12.3.5", "cancel of it", MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(check_rank, win);
    ALLOWED("12.3.5", "Rget in a lock", MPI_Rget(&y, 1, MPI_INT, check_rank, 0, 1, MPI_INT, win, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ROW("12.3.5", "what was put", y, 5);
    MPI_Win_unlock(check_rank, win);
    MPI_Win_lock_all(0, win);
    ALLOWED("12.3.5", "Raccumulate with lock_all", MPI_Raccumulate(&x, 1, MPI_INT, check_rank, 0, 1, MPI_INT, MPI_SUM, win, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ALLOWED("12.3.5", "Rget_accumulate with lock_all", MPI_Rget_accumulate(&x, 1, MPI_INT, &y, 1, MPI_INT, check_rank, 0, 1, MPI_INT, MPI_REPLACE, win, &request));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ROW("12.3.5", "what was accumulated", y, 10);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void transfers(void)
{
    int *base, x = check_rank + 1, y = -1, right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, unit, flag = 0;
    MPI_Win win;
    MPI_Group all, peer, origin;
    MPI_Aint size;
    void *near;
    MPI_Comm node;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, world, &base, &win);
    memset(base, 0, 64);
    MPI_Win_fence(0, win);
    MPI_Put(&x, 1, MPI_INT, right, 3, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    ROW("12.3.1", "put", base[3], left + 1);
    MPI_Get(&y, 1, MPI_INT, right, 3, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    ROW("12.3.2", "get", y, check_rank + 1);
    MPI_Accumulate(&x, 1, MPI_INT, 0, 4, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (check_rank == 0)
        ROW("12.3.4", "accumulate", base[4], check_size * (check_size + 1) / 2);
    MPI_Win_lock_all(0, win);
    MPI_Fetch_and_op(&x, &y, MPI_INT, right, 5, MPI_REPLACE, win);
    MPI_Win_flush(right, win);
    ROW("12.3.4", "fetch_and_op gives the old value", y, 0);
    MPI_Fetch_and_op(NULL, &y, MPI_INT, right, 5, MPI_NO_OP, win);
    MPI_Win_flush(right, win);
    ROW("12.3.4", "MPI_NO_OP fetches", y, x);
    unit = 77;
    MPI_Compare_and_swap(&unit, &x, &y, MPI_INT, right, 5, win);
    MPI_Win_flush(right, win);
    ROW("12.3.4", "compare_and_swap gives the old value", y, x);
    MPI_Win_unlock_all(win);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    ROW("12.3.4", "and swaps", base[5], 77);
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(world);
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &right, &peer);
    MPI_Group_incl(all, 1, &left, &origin);
    MPI_Win_post(origin, 0, win);
    MPI_Win_start(peer, 0, win);
    MPI_Put(&x, 1, MPI_INT, right, 6, 1, MPI_INT, win);
    MPI_Win_complete(win);
    while (!flag)
        MPI_Win_test(win, &flag);
    ROW("12.5.2", "put with post and start", base[6], left + 1);
    MPI_Group_free(&all);
    MPI_Group_free(&peer);
    MPI_Group_free(&origin);
    MPI_Win_free(&win);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(check_rank ? 8 : 0, 2, MPI_INFO_NULL, node, &base, &win);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &near);
    HOLDS("12.2.3", "shared_query of MPI_PROC_NULL gives the first that has memory", check_size == 1 ? size == 0 : size == 8 && near != NULL);
    MPI_Win_shared_query(win, 0, &size, &unit, &near);
    HOLDS("12.2.3", "shared_query of no memory", size == 0 && unit == 2);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

/* Assertions, empty groups, units, operators and types of accumulates. */
static void further(void)
{
    int *base, x[4] = {1, 2, 3, 4}, y[4] = {0}, key, flag;
    void *value;
    char *bytes;
    MPI_Win win;
    MPI_Datatype gaps;
    MPI_Win_allocate(check_rank % 2 ? 64 : 128, check_rank % 2 ? 4 : 8, MPI_INFO_NULL, world, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(base, 0, 64);
    ALLOWED("12.5.1", "fence with MPI_MODE_NOPRECEDE", MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    int right = (check_rank + 1) % check_size;
    MPI_Put(x, 1, MPI_INT, right, 2, 1, MPI_INT, win);
    ALLOWED("12.5.1", "fence with assertions", MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOSUCCEED, win));
    ROW("12.3.1", "displacements count units of the target", base[check_rank % 2 ? 2 : 4], 1);
    ALLOWED("12.5.2", "start to nobody", MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    ALLOWED("12.5.2", "and complete", MPI_Win_complete(win));
    ALLOWED("12.5.2", "post to nobody", MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
    ALLOWED("12.5.2", "and wait", MPI_Win_wait(win));
    MPI_Barrier(world);
    MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Accumulate(x, 2, MPI_INT, right, 4, 1, gaps, MPI_SUM, win);
    MPI_Win_flush_all(win);
    MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, y, 2, MPI_INT, right, 4, 1, gaps, MPI_NO_OP, win);
    MPI_Win_flush_local_all(win);
    HOLDS("12.3.4", "accumulate into a type with gaps", y[0] == 1 && y[1] == 2);
    REFUSED("12.3.4", "accumulate of a type that the operator is not for", MPI_Accumulate(x, 1, MPI_DOUBLE, right, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
    ALLOWED("12.5.4", "MPI_Win_sync", MPI_Win_sync(win));
    REFUSED("12.5.3", "unlock of one of lock_all", MPI_Win_unlock(right, win), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock_all(win);
    REFUSED("12.5.3", "unlock_all without lock_all", MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    MPI_Type_free(&gaps);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
    MPI_Win_set_attr(win, key, x);
    MPI_Win_get_attr(win, key, &value, &flag);
    HOLDS("7.7.3", "an attribute of a window", flag && value == x);
    ALLOWED("7.7.3", "is deleted", MPI_Win_delete_attr(win, key));
    MPI_Win_get_attr(win, key, &value, &flag);
    ROW("7.7.3", "and gone", flag, 0);
    MPI_Win_free_keyval(&key);
    MPI_Win_free(&win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, self, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    bytes = (char *)memory;
    MPI_Aint at;
    MPI_Get_address(bytes, &at);
    MPI_Win_attach(win, bytes, 64);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    ALLOWED("12.2.4", "access to memory that is attached", MPI_Put(x + 1, 1, MPI_INT, 0, MPI_Aint_add(at, 8), 1, MPI_INT, win));
    MPI_Win_unlock(0, win);
    ROW("12.2.4", "writes it", memory[2], 2);
    MPI_Win_detach(win, bytes);
    MPI_Win_free(&win);
}

/* Memory that several processes load and store (12.2.3). */
static void shared(void)
{
    MPI_Comm node;
    MPI_Win win;
    int *base, *other, rank, size, unit;
    MPI_Aint bytes;
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &size);
    MPI_Win_allocate_shared(sizeof(int) * 3, 4, MPI_INFO_NULL, node, &base, &win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &other);
    ROW("12.2.3", "memory is contiguous in the order of ranks", base - other, 3 * rank);
    HOLDS("12.2.3", "length and unit of another member", bytes == 12 && unit == 4);
    MPI_Win_lock_all(0, win);
    base[0] = 50 + rank;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    MPI_Win_shared_query(win, (rank + 1) % size, &bytes, &unit, &other);
    ROW("12.2.3", "a store of another member is seen", other[0], 50 + (rank + 1) % size);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    hints();
    alignment();
    attributes();
    arguments();
    requests();
    transfers();
    further();
    shared();
    return rows_end();
}
