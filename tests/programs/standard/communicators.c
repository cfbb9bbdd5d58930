/* Groups, contexts, communicators, caching, names and hints (MPI-5, chapter 7). */
#include "rows.h"

static MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
static int calls, failing;

static void groups(void)
{
    MPI_Group all, some, other, none = MPI_GROUP_EMPTY;
    int n, ranks[8] = {0}, out[8], zero = 0;
    MPI_Comm_group(world, &all);
    MPI_Group_size(all, &n);
    ROW("7.3.1", "size of the group of the world", n, check_size);
    MPI_Group_rank(all, &n);
    ROW("7.3.1", "rank in it", n, check_rank);
    MPI_Group_size(MPI_GROUP_EMPTY, &n);
    ROW("7.3.1", "size of the empty group", n, 0);
    MPI_Group_rank(MPI_GROUP_EMPTY, &n);
    ROW("7.3.1", "rank in the empty group", n, MPI_UNDEFINED);
    REFUSED("7.3.1", "size of MPI_GROUP_NULL", MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP);
    MPI_Group_incl(all, 1, &zero, &some);
    MPI_Group_size(some, &n);
    ROW("7.3.2", "size of a group of one", n, 1);
    MPI_Group_translate_ranks(all, 1, (int[]){MPI_PROC_NULL}, some, out);
    ROW("7.3.1", "translation of MPI_PROC_NULL", out[0], MPI_PROC_NULL);
    MPI_Group_translate_ranks(all, 1, (int[]){check_size - 1}, some, out);
    ROW("7.3.1", "translation of a rank that is not there", out[0], check_size == 1 ? 0 : MPI_UNDEFINED);
    REFUSED("7.3.1", "translation of a rank beyond the group", MPI_Group_translate_ranks(all, 1, (int[]){check_size}, some, out), MPI_ERR_RANK);
    REFUSED("7.3.2", "incl of a rank beyond the group", MPI_Group_incl(all, 1, (int[]){check_size}, &other), MPI_ERR_RANK);
    REFUSED("7.3.2", "incl of a rank twice", MPI_Group_incl(all, 2, ranks, &other), MPI_ERR_RANK);
    REFUSED("7.3.2", "excl of a rank beyond the group", MPI_Group_excl(all, 1, (int[]){-1}, &other), MPI_ERR_RANK);
    REFUSED("7.3.2", "incl of a negative number of ranks", MPI_Group_incl(all, -1, ranks, &other), MPI_ERR_ARG);
    REFUSED("7.3.2", "range with a stride of zero", MPI_Group_range_incl(all, 1, (int[][3]){{0, 0, 0}}, &other), MPI_ERR_ARG);
    MPI_Group_incl(all, 0, NULL, &other);
    HOLDS("7.3.2", "incl of nothing is MPI_GROUP_EMPTY", other == MPI_GROUP_EMPTY);
    MPI_Group_difference(all, all, &other);
    MPI_Group_compare(other, none, &n);
    ROW("7.3.2", "a group without itself is empty", n, MPI_IDENT);
    MPI_Group_union(some, all, &other);
    MPI_Group_compare(other, all, &n);
    ROW("7.3.2", "a union keeps the order", n, MPI_IDENT);
    MPI_Group_free(&other);
    HOLDS("7.3.3", "a freed group is null", other == MPI_GROUP_NULL);
    MPI_Group_intersection(all, some, &other);
    MPI_Group_compare(other, some, &n);
    ROW("7.3.2", "an intersection", n, MPI_IDENT);
    MPI_Group_free(&other);
    MPI_Group_range_incl(all, 1, (int[][3]){{check_size - 1, 0, -1}}, &other);
    MPI_Group_compare(other, all, &n);
    ROW("7.3.1", "the same members in another order", n, check_size == 1 ? MPI_IDENT : MPI_SIMILAR);
    MPI_Group_free(&other);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    REFUSED("7.3.3", "free of MPI_GROUP_NULL", MPI_Group_free(&all), MPI_ERR_GROUP);
}

static int count_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)comm, (void)key, (void)extra;
    calls++;
    *(void **)copy = (char *)value + 1;
    *flag = 1;
    return failing ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int count_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra, (void)value;
    calls += 100;
    return failing ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void constructors(void)
{
    MPI_Comm comm, other, null = MPI_COMM_NULL;
    MPI_Group all, one;
    int n, flag, zero = 0;
    MPI_Request request;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_compare(world, comm, &n);
    ROW("7.4.1", "a duplicate is congruent", n, MPI_CONGRUENT);
    MPI_Comm_compare(comm, comm, &n);
    ROW("7.4.1", "a communicator is identical with itself", n, MPI_IDENT);
    MPI_Comm_compare(world, self, &n);
    ROW("7.4.1", "the world and the process alone", n, check_size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    MPI_Comm_test_inter(comm, &flag);
    ROW("7.6", "it is no intercommunicator", flag, 0);
    REFUSED("7.6", "remote size of an intracommunicator", MPI_Comm_remote_size(comm, &n), MPI_ERR_COMM);
    REFUSED("7.6", "remote group of an intracommunicator", MPI_Comm_remote_group(comm, &all), MPI_ERR_COMM);
    REFUSED("7.6.2", "merge of an intracommunicator", MPI_Intercomm_merge(comm, 0, &other), MPI_ERR_COMM);
    MPI_Comm_split(world, MPI_UNDEFINED, 0, &other);
    HOLDS("7.4.2", "split with MPI_UNDEFINED", other == MPI_COMM_NULL);
    REFUSED("7.4.2", "split with a negative color", MPI_Comm_split(self, -3, 0, &other), MPI_ERR_ARG);
    MPI_Comm_split(world, 0, -check_rank, &other);
    MPI_Comm_rank(other, &n);
    ROW("7.4.2", "split orders by key", n, check_size - 1 - check_rank);
    MPI_Comm_free(&other);
    HOLDS("7.4.3", "a freed communicator is null", other == MPI_COMM_NULL);
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &zero, &one);
    MPI_Comm_create(world, one, &other);
    HOLDS("7.4.2", "create gives MPI_COMM_NULL to others", (other == MPI_COMM_NULL) == (check_rank > 0));
    if (other != MPI_COMM_NULL)
        MPI_Comm_free(&other);
    if (check_rank == 0) {
        MPI_Comm_create_group(world, one, 5, &other);
        MPI_Comm_size(other, &n);
        ROW("7.4.2", "create_group is called by the group alone", n, 1);
        MPI_Comm_free(&other);
    }
    REFUSED("7.4.2", "create_group with a negative tag", MPI_Comm_create_group(self, MPI_GROUP_EMPTY, -1, &other), MPI_ERR_TAG);
    if (check_size > 1)
        REFUSED("7.4.2", "create with a group that is no subset", MPI_Comm_create(self, all, &other), MPI_ERR_GROUP);
    MPI_Group_free(&one);
    MPI_Group_free(&all);
    MPI_Comm_idup(world, &other, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_compare(world, other, &n);
    ROW("7.4.2", "idup", n, MPI_CONGRUENT);
    MPI_Comm_free(&other);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &other);
    HOLDS("7.4.2", "split by shared memory", other != MPI_COMM_NULL);
    MPI_Comm_free(&other);
    MPI_Comm_split_type(world, MPI_UNDEFINED, 0, MPI_INFO_NULL, &other);
    HOLDS("7.4.2", "split_type with MPI_UNDEFINED", other == MPI_COMM_NULL);
    REFUSED("7.4.2", "split by a type that is none", MPI_Comm_split_type(self, 4711, 0, MPI_INFO_NULL, &other), MPI_ERR_ARG);
    REFUSED("7.4.3", "free of MPI_COMM_NULL", MPI_Comm_free(&null), MPI_ERR_COMM);
    other = MPI_COMM_WORLD;
    REFUSED("7.4.3", "free of MPI_COMM_WORLD", MPI_Comm_free(&other), MPI_ERR_COMM);
    other = MPI_COMM_SELF;
    REFUSED("7.4.3", "free of MPI_COMM_SELF", MPI_Comm_free(&other), MPI_ERR_COMM);
    REFUSED("7.4.2", "dup of MPI_COMM_NULL", MPI_Comm_dup(MPI_COMM_NULL, &other), MPI_ERR_COMM);
    REFUSED("7.4.1", "size of MPI_COMM_NULL", MPI_Comm_size(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    REFUSED("7.4.1", "rank in MPI_COMM_NULL", MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    MPI_Comm_free(&comm);
}

static void intercommunicators(void)
{
    MPI_Comm half, inter, merged, copy, made;
    MPI_Group group, remote;
    int color = check_rank % 2, n, size;
    REFUSED("7.6.2", "intercommunicator with a leader beyond the group", MPI_Intercomm_create(self, 3, world, 0, 7, &inter), MPI_ERR_RANK);
    if (check_size < 2)
        return;
    MPI_Comm_split(world, color, 0, &half);
    ALLOWED("7.6.2", "intercommunicator", MPI_Intercomm_create(half, 0, world, 1 - color, 7, &inter));
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Comm_remote_size(inter, &n);
    ROW("7.6.1", "remote size", n, color ? (check_size + 1) / 2 : check_size / 2);
    MPI_Comm_size(inter, &size);
    ROW("7.6.1", "local size", size, check_size - n);
    MPI_Comm_group(inter, &group);
    MPI_Comm_remote_group(inter, &remote);
    MPI_Group_compare(group, remote, &n);
    ROW("7.6.1", "the groups are disjoint", n, MPI_UNEQUAL);
    MPI_Comm_compare(inter, half, &n);
    ROW("7.4.1", "an intercommunicator and an intracommunicator", n, MPI_UNEQUAL);
    REFUSED("7.4.2", "create_group of an intercommunicator", MPI_Comm_create_group(inter, group, 1, &made), MPI_ERR_COMM);
    MPI_Comm_dup(inter, &copy);
    MPI_Comm_compare(inter, copy, &n);
    ROW("7.4.2", "a duplicate of an intercommunicator", n, MPI_CONGRUENT);
    MPI_Comm_free(&copy);
    MPI_Comm_split(inter, 0, 0, &copy);
    MPI_Comm_compare(inter, copy, &n);
    ROW("7.4.2", "split of an intercommunicator", n, MPI_CONGRUENT);
    MPI_Comm_free(&copy);
    MPI_Intercomm_merge(inter, color, &merged);
    MPI_Comm_size(merged, &n);
    ROW("7.6.2", "size of the merged groups", n, check_size);
    MPI_Comm_rank(merged, &n);
    HOLDS("7.6.2", "the high group is behind the other", color ? n >= (check_size + 1) / 2 : n < (check_size + 1) / 2);
    MPI_Comm_free(&merged);
    MPI_Group_free(&group);
    MPI_Group_free(&remote);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* Splits by hardware and by process sets; communicators of groups (7.4.2). */
static void guided(void)
{
    MPI_Comm comm, inter;
    MPI_Info info = info_with("mpi_hw_resource_type", "mpi_shared_memory", NULL, NULL);
    MPI_Group all, mine, theirs;
    int n, color = check_rank % 2, ranks[2][64], counts[2] = {0, 0};
    MPI_Comm_split_type(world, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm);
    HOLDS("7.4.2", "split guided by shared memory", comm != MPI_COMM_NULL);
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    MPI_Info_set(info, "mpi_hw_resource_type", "no such resource");
    MPI_Comm_split_type(world, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm);
    HOLDS("7.4.2", "split guided by a resource that is not known", comm == MPI_COMM_NULL);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &comm);
    HOLDS("7.4.2", "split guided by nothing", comm == MPI_COMM_NULL);
    MPI_Info_free(&info);
    info = info_with("mpi_pset_name", "mpi://WORLD", NULL, NULL);
    MPI_Comm_split_type(world, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, info, &comm);
    HOLDS("7.4.2", "split guided by a process set", comm != MPI_COMM_NULL);
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_size(comm, &n);
        ROW("7.4.2", "which is the world", n, check_size);
        MPI_Comm_free(&comm);
    }
    MPI_Info_free(&info);
    if (check_size < 2 || check_size > 64)
        return;
    for (int rank = 0; rank < check_size; rank++)
        ranks[rank % 2][counts[rank % 2]++] = rank;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, counts[color], ranks[color], &mine);
    MPI_Group_incl(all, counts[1 - color], ranks[1 - color], &theirs);
    ALLOWED("7.6.2", "intercomm_create_from_groups", MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "two", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
    MPI_Comm_remote_size(inter, &n);
    ROW("7.6.2", "its remote size", n, counts[1 - color]);
    MPI_Comm_free(&inter);
    MPI_Group_free(&all);
    MPI_Group_free(&mine);
    MPI_Group_free(&theirs);
}

static void caching(void)
{
    int key, other, flag, number, type_key, zero = 0;
    void *value;
    char memory[4];
    MPI_Comm comm, copy;
    MPI_Comm_dup(self, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(count_copy, count_delete, &key, NULL);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    ROW("7.7.2", "an attribute that was not set", flag, 0);
    ALLOWED("7.7.2", "set", MPI_Comm_set_attr(comm, key, memory));
    MPI_Comm_get_attr(comm, key, &value, &flag);
    HOLDS("7.7.2", "get", flag && value == memory);
    calls = 0;
    MPI_Comm_set_attr(comm, key, memory + 1);
    ROW("7.7.2", "set again calls the delete function", calls, 100);
    calls = 0;
    MPI_Comm_dup(comm, &copy);
    ROW("7.7.2", "dup calls the copy function", calls, 1);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    HOLDS("7.7.2", "which gives the value", flag && value == memory + 2);
    calls = 0;
    MPI_Comm_free(&copy);
    ROW("7.7.2", "free calls the delete function", calls, 100);
    failing = 1;
    REFUSED("7.7.2", "dup with a copy function that fails", MPI_Comm_dup(comm, &copy), MPI_ERR_OTHER);
    REFUSED("7.7.2", "delete with a delete function that fails", MPI_Comm_delete_attr(comm, key), MPI_ERR_OTHER);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    ROW("7.7.2", "the attribute stays", flag, 1);
    failing = 0;
    calls = 0;
    MPI_Comm_delete_attr(comm, key);
    ROW("7.7.2", "delete calls the delete function", calls, 100);
    REFUSED("7.7.2", "delete of what is not there", MPI_Comm_delete_attr(comm, key), MPI_ERR_KEYVAL);
    other = key;
    MPI_Comm_set_attr(comm, key, memory);
    ALLOWED("7.7.2", "free of a key in use", MPI_Comm_free_keyval(&key));
    ROW("7.7.2", "makes the key invalid", key, MPI_KEYVAL_INVALID);
    MPI_Comm_get_attr(comm, other, &value, &flag);
    HOLDS("7.7.2", "the attribute stays until it is deleted", flag && value == memory);
    MPI_Comm_free(&comm);
    key = MPI_KEYVAL_INVALID;
    REFUSED("7.7.2", "free of MPI_KEYVAL_INVALID", MPI_Comm_free_keyval(&key), MPI_ERR_KEYVAL);
    REFUSED("7.7.2", "get of MPI_KEYVAL_INVALID", MPI_Comm_get_attr(self, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL);
    REFUSED("7.7.2", "set of a predefined attribute", MPI_Comm_set_attr(self, MPI_TAG_UB, &zero), MPI_ERR_KEYVAL);
    REFUSED("7.7.2", "free of a predefined key", MPI_Comm_free_keyval(&(int){MPI_TAG_UB}), MPI_ERR_KEYVAL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
    REFUSED("7.7.2", "a key of datatypes for a communicator", MPI_Comm_set_attr(self, type_key, &zero), MPI_ERR_KEYVAL);
    MPI_Type_set_attr(MPI_INT, type_key, memory);
    MPI_Type_get_attr(MPI_INT, type_key, &value, &flag);
    HOLDS("7.7.4", "attribute of a predefined datatype", flag && value == memory);
    MPI_Type_delete_attr(MPI_INT, type_key);
    MPI_Type_free_keyval(&type_key);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_dup(self, &comm);
    MPI_Comm_set_attr(comm, key, memory);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    HOLDS("7.7.2", "MPI_COMM_DUP_FN", flag && value == memory);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_get_attr(world, MPI_TAG_UB, &value, &flag);
    HOLDS("9.1.1", "MPI_TAG_UB", flag && *(int *)value >= 32767);
    MPI_Comm_get_attr(world, MPI_WTIME_IS_GLOBAL, &value, &flag);
    HOLDS("9.1.1", "MPI_WTIME_IS_GLOBAL", flag && (*(int *)value == 0 || *(int *)value == 1));
    MPI_Comm_get_attr(world, MPI_IO, &value, &flag);
    HOLDS("9.1.1", "MPI_IO", flag && (*(int *)value == MPI_ANY_SOURCE || *(int *)value == MPI_PROC_NULL || *(int *)value >= 0));
    MPI_Comm_get_attr(world, MPI_HOST, &value, &flag);
    HOLDS("16.3", "MPI_HOST", !flag || *(int *)value == MPI_PROC_NULL || *(int *)value >= 0);
    MPI_Comm_get_attr(world, MPI_APPNUM, &value, &flag);
    HOLDS("11.10.3", "MPI_APPNUM", !flag || *(int *)value >= 0);
    MPI_Comm_get_attr(world, MPI_UNIVERSE_SIZE, &value, &number);
    HOLDS("11.10.1", "MPI_UNIVERSE_SIZE", !number || *(int *)value >= check_size);
}

static void names(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length = -1;
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Comm_get_name(world, name, &length);
    TEXT("7.8", "name of the world", name, "MPI_COMM_WORLD");
    ROW("7.8", "its length", length, strlen("MPI_COMM_WORLD"));
    MPI_Comm_get_name(self, name, &length);
    TEXT("7.8", "name of the process alone", name, "MPI_COMM_SELF");
    MPI_Comm_get_name(MPI_COMM_NULL, name, &length);
    TEXT("7.8", "name of MPI_COMM_NULL", name, "MPI_COMM_NULL");
    MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length);
    TEXT("7.8", "name of MPI_DATATYPE_NULL", name, "MPI_DATATYPE_NULL");
    MPI_Win_get_name(MPI_WIN_NULL, name, &length);
    TEXT("7.8", "name of MPI_WIN_NULL", name, "MPI_WIN_NULL");
    MPI_Comm_dup(world, &comm);
    MPI_Comm_get_name(comm, name, &length);
    TEXT("7.8", "a duplicate has no name", name, "");
    ROW("7.8", "and length 0", length, 0);
    MPI_Comm_set_name(comm, "mine");
    MPI_Comm_get_name(comm, name, &length);
    TEXT("7.8", "a name that was set", name, "mine");
    MPI_Comm_free(&comm);
    MPI_Type_dup(MPI_INT, &type);
    MPI_Type_get_name(type, name, &length);
    TEXT("7.8", "a duplicate of a datatype has no name", name, "");
    MPI_Type_free(&type);
    REFUSED("7.8", "name for MPI_COMM_NULL", MPI_Comm_set_name(MPI_COMM_NULL, "x"), MPI_ERR_COMM);
}

static const char *hint(MPI_Comm comm, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_Comm_get_info(comm, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

static void set_hint(MPI_Comm comm, const char *key, const char *value)
{
    MPI_Info info = info_with(key, value, NULL, NULL);
    ALLOWED("7.4.4", key, MPI_Comm_set_info(comm, info));
    MPI_Info_free(&info);
}

static const char *const ASSERTIONS[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length", "mpi_assert_allow_overtaking", "mpi_assert_strict_persistent_collective_ordering"};
enum { ASSERTED = sizeof ASSERTIONS / sizeof *ASSERTIONS };

static void hints(void)
{
    MPI_Comm comm, copy;
    MPI_Info info;
    MPI_Request request;
    MPI_Group group;
    int zero = 0;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < ASSERTED; i++) {
        TEXT("7.4.4", "default of an assertion", hint(comm, ASSERTIONS[i]), "false");
        set_hint(comm, ASSERTIONS[i], "true");
        TEXT("7.4.4", ASSERTIONS[i], hint(comm, ASSERTIONS[i]), "true");
        TEXT("7.4.4", "the first one stays", hint(comm, ASSERTIONS[0]), "true");
    }
    set_hint(comm, ASSERTIONS[1], "perhaps");
    TEXT("7.4.4", "a value without meaning changes nothing", hint(comm, ASSERTIONS[1]), "true");
    set_hint(comm, "no such hint", "value");
    TEXT("7.4.4", "a hint that is ignored is not returned", hint(comm, "no such hint"), NULL);
    set_hint(comm, "mpi_assert_memory_alloc_kinds", "system");
    TEXT("11.4.3", "an assertion on kinds of memory", hint(comm, "mpi_assert_memory_alloc_kinds"), "system");
    set_hint(comm, "mpi_assert_memory_alloc_kinds", "no such kind");
    TEXT("11.4.3", "an assertion that is ignored", hint(comm, "mpi_assert_memory_alloc_kinds"), "system");
    MPI_Comm_dup(comm, &copy);
    TEXT("7.4.2", "dup does not propagate hints", hint(copy, ASSERTIONS[0]), "false");
    TEXT("7.4.2", "nor kinds of memory", hint(copy, "mpi_assert_memory_alloc_kinds"), NULL);
    MPI_Comm_free(&copy);
    MPI_Comm_idup(comm, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    TEXT("7.4.2", "idup does not propagate hints", hint(copy, ASSERTIONS[1]), "false");
    MPI_Comm_free(&copy);
    info = info_with(ASSERTIONS[0], "true", "no such hint", "value");
    MPI_Comm_dup_with_info(comm, info, &copy);
    TEXT("7.4.2", "dup_with_info takes hints", hint(copy, ASSERTIONS[0]), "true");
    TEXT("7.4.2", "and no others", hint(copy, ASSERTIONS[1]), "false");
    TEXT("7.4.2", "nor any that is ignored", hint(copy, "no such hint"), NULL);
    MPI_Comm_free(&copy);
    MPI_Comm_idup_with_info(comm, info, &copy, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    TEXT("7.4.2", "idup_with_info takes hints", hint(copy, ASSERTIONS[0]), "true");
    TEXT("7.4.2", "and nothing that is ignored", hint(copy, "no such hint"), NULL);
    MPI_Comm_free(&copy);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, info, &copy);
    TEXT("7.4.4", "split_type takes hints", hint(copy, ASSERTIONS[0]), "true");
    MPI_Comm_free(&copy);
    MPI_Dist_graph_create_adjacent(comm, 0, &zero, MPI_UNWEIGHTED, 0, &zero, MPI_UNWEIGHTED, info, 0, &copy);
    TEXT("7.4.4", "dist_graph_create_adjacent takes hints", hint(copy, ASSERTIONS[0]), "true");
    MPI_Comm_free(&copy);
    MPI_Comm_group(comm, &group);
    MPI_Comm_create_from_group(group, "hints", info, MPI_ERRORS_RETURN, &copy);
    TEXT("7.4.2", "create_from_group takes hints", hint(copy, ASSERTIONS[0]), "true");
    TEXT("7.4.2", "and ignores others", hint(copy, "no such hint"), NULL);
    MPI_Comm_free(&copy);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
    HOLDS("11.4.3", "kinds of memory of the world", has_entry(hint(world, "mpi_memory_alloc_kinds"), "mpi"));
    HOLDS("11.4.3", "have those of the system", has_entry(hint(world, "mpi_memory_alloc_kinds"), "system"));
    set_hint(world, "mpi_memory_alloc_kinds", "mpi:alloc_mem");
    HOLDS("11.4.3", "and cannot change", !has_entry(hint(world, "mpi_memory_alloc_kinds"), "mpi:alloc_mem"));
    TEXT("11.4.3", "a duplicate has the same", hint(comm, "mpi_memory_alloc_kinds"), hint(world, "mpi_memory_alloc_kinds"));
    TEXT("11.4.3", "and the process alone", hint(self, "mpi_memory_alloc_kinds"), hint(world, "mpi_memory_alloc_kinds"));
    REFUSED("7.4.4", "hints for MPI_COMM_NULL", MPI_Comm_set_info(MPI_COMM_NULL, MPI_INFO_NULL), MPI_ERR_COMM);
    REFUSED("7.4.4", "hints of MPI_COMM_NULL", MPI_Comm_get_info(MPI_COMM_NULL, &info), MPI_ERR_COMM);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    groups();
    constructors();
    intercommunicators();
    guided();
    caching();
    names();
    hints();
    return rows_end();
}
