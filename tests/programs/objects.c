/* Properties of objects: attributes and the order of their callbacks, info, error handlers, error codes. */
#include "check.h"

static char story[256];

static void note(const char *what, int key)
{
    size_t end = strlen(story);
    snprintf(story + end, sizeof story - end, "%s%d ", what, key);
}

static int copied(MPI_Comm comm, int key, void *extra, void *value, void *result, int *flag)
{
    (void)comm;
    (void)key;
    note("copy", *(int *)extra);
    *(void **)result = (char *)value + 1;
    *flag = *(int *)extra != 2; /* the second one is not handed on */
    return MPI_SUCCESS;
}

static int deleted(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)value;
    note("delete", *(int *)extra);
    return MPI_SUCCESS;
}

static void attributes(void)
{
    static int numbers[4] = {0, 1, 2, 3};
    static char data[8];
    int keys[4], flag, *pointer;
    void *value;
    MPI_Comm comm, copy;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    for (int i = 1; i < 4; i++) {
        MPI_Comm_create_keyval(copied, deleted, &keys[i], &numbers[i]);
        MPI_Comm_set_attr(comm, keys[i], &data[i]);
    }
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_get_attr(copy, keys[1], &value, &flag);
    CHECK(flag && value == &data[2]);
    MPI_Comm_get_attr(copy, keys[2], &value, &flag);
    CHECK(!flag);
    CHECK(strstr(story, "copy1") && strstr(story, "copy2") && strstr(story, "copy3"));
    story[0] = 0;
    MPI_Comm_delete_attr(comm, keys[2]);
    MPI_Comm_set_attr(comm, keys[1], &data[5]); /* replaces: the old value is deleted first */
    CHECK(!strcmp(story, "delete2 delete1 "));
    story[0] = 0;
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    CHECK(!strcmp(story, "delete3 delete1 delete3 delete1 ") || strlen(story) == strlen("delete3 delete1 ") * 2);
    for (int i = 1; i < 4; i++) {
        MPI_Comm_free_keyval(&keys[i]);
        CHECK_EQUAL(keys[i], MPI_KEYVAL_INVALID);
    }
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &pointer, &flag);
    CHECK(flag && *pointer >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &pointer, &flag);
    CHECK(flag);
}

/* Records the order at MPI_Finalize: attributes of MPI_COMM_SELF are deleted first, the last one set before
 * the others. */
static int at_end(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm;
    (void)key;
    (void)extra;
    note("end", *(int *)value);
    if (*(int *)value == 1 && strcmp(story, "end3 end2 end1 "))
        fprintf(stderr, "objects.c: order at the end is %s\n", story), exit(9);
    return MPI_SUCCESS;
}

static void at_finalize(void)
{
    static int values[4] = {0, 1, 2, 3};
    int key;
    for (int i = 1; i < 4; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_end, &key, NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key, &values[i]);
        MPI_Comm_free_keyval(&key);
    }
    story[0] = 0;
}

static void infos(void)
{
    MPI_Info info, copy;
    int count, flag, length;
    char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL + 1];
    length = (int)sizeof value;
    MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &length, value, &flag);
    CHECK(!flag || atoi(value) == check_size);
    MPI_Info_create(&info);
    MPI_Info_set(info, "first", "1");
    MPI_Info_set(info, "second", "two");
    MPI_Info_set(info, "first", "one");
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, 2);
    MPI_Info_get_nthkey(info, 0, key);
    CHECK(!strcmp(key, "first"));
    length = (int)sizeof value;
    MPI_Info_get_string(info, "first", &length, value, &flag);
    CHECK(flag && !strcmp(value, "one"));
    CHECK_EQUAL(length, 4);
    length = 2; /* cut off, and told how much there is */
    MPI_Info_get_string(info, "second", &length, value, &flag);
    CHECK(flag && !strcmp(value, "t") && length == 4);
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "first");
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, 1);
    MPI_Info_get_nkeys(copy, &count);
    CHECK_EQUAL(count, 2);
    MPI_Info_free(&copy);
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL);
}

static int handled, handled_code;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled++;
    handled_code = *code;
}

static void handlers(void)
{
    MPI_Comm comm, copy;
    MPI_Errhandler mine, got;
    int length, class, code;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got);
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(comm, mine);
    MPI_Send(&length, 1, MPI_INT, check_size + 5, 0, comm);
    CHECK_EQUAL(handled, 1);
    MPI_Error_class(handled_code, &class);
    CHECK_EQUAL(class, MPI_ERR_RANK);
    MPI_Comm_dup(comm, &copy); /* inherits */
    MPI_Send(&length, -1, MPI_INT, 0, 0, copy);
    CHECK_EQUAL(handled, 2);
    MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    CHECK_EQUAL(handled, 3);
    MPI_Errhandler_free(&mine);
    CHECK(mine == MPI_ERRHANDLER_NULL);
    MPI_Send(&length, 1, MPI_INT, 0, -7, comm); /* still in use */
    CHECK_EQUAL(handled, 4);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&comm);
    MPI_Error_string(MPI_ERR_TRUNCATE, text, &length);
    CHECK(length > 0 && (int)strlen(text) == length);
    MPI_Add_error_class(&class);
    CHECK(class > MPI_ERR_LASTCODE);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "a new kind");
    MPI_Error_string(code, text, &length);
    CHECK(!strcmp(text, "a new kind"));
    int of;
    MPI_Error_class(code, &of);
    CHECK_EQUAL(of, class);
}

static void environment(void)
{
    int version, subversion, length, flag;
    char name[MPI_MAX_PROCESSOR_NAME], library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_version(&version, &subversion);
    CHECK(version >= 3);
    MPI_Get_processor_name(name, &length);
    CHECK(length > 0 && (int)strlen(name) == length);
    MPI_Get_library_version(library, &length);
    CHECK(length > 0 && (int)strlen(library) == length);
#ifdef MPI_ABI_VERSION
    MPI_Abi_get_version(&version, &subversion);
    CHECK(version >= 1);
#endif
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Finalized(&flag);
    CHECK(!flag);
    double before = MPI_Wtime();
    while (MPI_Wtime() - before < 0.01)
        ;
    CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 0.1);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    attributes();
    infos();
    handlers();
    environment();
    at_finalize();
    return check_end();
}
