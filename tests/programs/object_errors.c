/* Objects used wrongly: freed, predefined and foreign handles, counts and sizes that do not fit, failing
 * callbacks. */
#include "check.h"

static int failing_copy(MPI_Comm comm, int key, void *extra, void *value, void *result, int *flag)
{
    (void)comm, (void)key, (void)value, (void)result, (void)flag;
    return *(int *)extra;
}

static int failing_delete(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)value, (void)extra;
    return MPI_ERR_RANK;
}

/* Adds int items that are an extent apart, for every type. */
static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lb, extent;
    MPI_Type_get_extent(*type, &lb, &extent);
    for (int i = 0; i < *count; i++)
        *(int *)((char *)inout + i * extent) += *(int *)((char *)in + i * extent);
}

static void groups(void)
{
    MPI_Group group, stale, made;
    int size, twice[] = {0, 0}, outside[1][3] = {{0, 9999, 1}}, endless[1][3] = {{0, 0, 0}};
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    CHECK_CLASS(MPI_Group_size(group, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Group_incl(group, 2, twice, &made), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Group_incl(group, -1, twice, &made), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Group_range_incl(group, 1, outside, &made), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Group_range_excl(group, 1, endless, &made), MPI_ERR_ARG);
    stale = group;
    MPI_Group_free(&group);
    CHECK_CLASS(MPI_Group_size(stale, &size), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_free(&stale), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_size((MPI_Group)(uintptr_t)0x123456789, &size), MPI_ERR_GROUP);
}

static void datatypes(void)
{
    MPI_Datatype type = MPI_INT, large, made, kind, again;
    int size, integers, addresses, types, combiner;
    MPI_Count wide;
    CHECK_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_contiguous(-1, MPI_INT, &made), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL), MPI_ERR_TYPE);
    MPI_Type_contiguous_c(5000000000, MPI_INT, &large);
    CHECK_CLASS(MPI_Type_get_envelope(large, &integers, &addresses, &types, &combiner), MPI_ERR_TYPE);
    MPI_Type_size(large, &size);
    MPI_Type_size_c(large, &wide);
    CHECK_EQUAL(size, MPI_UNDEFINED);
    CHECK_EQUAL(wide, 20000000000);
    CHECK_CLASS(MPI_Type_contiguous_c(5000000000, large, &made), MPI_ERR_COUNT);
    MPI_Type_free(&large);
    CHECK_CLASS(MPI_Type_create_f90_real(100, 100, &kind), MPI_ERR_ARG);
    MPI_Type_create_f90_real(6, 30, &kind);
    MPI_Type_create_f90_real(6, 30, &again);
    CHECK(kind == again);
    CHECK_CLASS(MPI_Type_free(&kind), MPI_ERR_TYPE);
}

static void packing(void)
{
    int data[100] = {0}, at = 0;
    char packed[64];
    MPI_Aint place = 0;
    MPI_Datatype type;
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    CHECK_CLASS(MPI_Pack(data, 1, type, packed, 64, &at, MPI_COMM_WORLD), MPI_ERR_TYPE);
    MPI_Type_free(&type);
    CHECK_CLASS(MPI_Pack(data, 100, MPI_INT, packed, 64, &at, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Pack(data, -1, MPI_INT, packed, 64, &at, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Pack(NULL, 1, MPI_INT, packed, 64, &at, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_EQUAL(at, 0);
    at = 65;
    CHECK_CLASS(MPI_Unpack(packed, 64, &at, data, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pack_external("native", data, 1, MPI_INT, packed, 64, &place), MPI_ERR_ARG);
}

static void operations(void)
{
    int in[] = {1, 2, 3, 4}, inout[] = {10, 20, 30, 40};
    MPI_Op op = MPI_SUM;
    MPI_Datatype padded;
    CHECK_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    CHECK_CLASS(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG);
    MPI_Op_create(add, 1, &op);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &padded);
    MPI_Type_commit(&padded);
    CHECK_CLASS(MPI_Reduce_local(in, inout, 2, padded, op), MPI_SUCCESS);
    CHECK(inout[0] == 11 && inout[1] == 20 && inout[2] == 33 && inout[3] == 40);
    CHECK_CLASS(MPI_Reduce_local(in, inout, 2, padded, MPI_SUM), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_local(in, inout, 2, MPI_FLOAT, MPI_BAND), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce_local(MPI_IN_PLACE, inout, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_local(inout, inout, 2, MPI_INT, MPI_SUM), MPI_ERR_BUFFER);
    MPI_Type_free(&padded);
    MPI_Op_free(&op);
}

static void infos(void)
{
    static char large[2000];
    MPI_Info info, environment = MPI_INFO_ENV;
    char value[16];
    int flag, room = 3;
    memset(large, 'x', sizeof large - 1);
    MPI_Info_create(&info);
    CHECK_CLASS(MPI_Info_set(info, "", "x"), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_set(info, large, "x"), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_set(info, "key", large), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Info_delete(info, "key"), MPI_ERR_INFO_NOKEY);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_string(info, "key", &room, value, &flag);
    CHECK(flag && room == 6 && !strcmp(value, "va"));
    CHECK_CLASS(MPI_Info_get_nthkey(info, 1, value), MPI_ERR_ARG);
    MPI_Info_free(&info);
    CHECK_CLASS(MPI_Info_free(&info), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_free(&environment), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Info_set(MPI_INFO_ENV, "key", "value"), MPI_ERR_INFO);
}

static void callbacks(void)
{
    int code = 77, key, freed, flag, size;
    void *value;
    MPI_Comm comm, copy;
    MPI_Datatype type;
    CHECK_CLASS(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &key), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL);
    MPI_Comm_create_keyval(failing_copy, MPI_COMM_NULL_DELETE_FN, &key, &code);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_attr(comm, key, &code);
    CHECK_EQUAL(MPI_Comm_dup(comm, &copy), 77);
    CHECK_CLASS(MPI_Type_set_attr(MPI_INT, key, NULL), MPI_ERR_KEYVAL);
    freed = key;
    MPI_Comm_free_keyval(&key);
    CHECK_EQUAL(key, MPI_KEYVAL_INVALID);
    CHECK_CLASS(MPI_Comm_get_attr(comm, freed, &value, &flag), MPI_SUCCESS); /* still in use */
    MPI_Comm_free(&comm);
    CHECK_CLASS(MPI_Comm_get_attr(MPI_COMM_SELF, freed, &value, &flag), MPI_ERR_KEYVAL);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, failing_delete, &key, NULL);
    MPI_Type_dup(MPI_INT, &type);
    MPI_Type_set_attr(type, key, NULL);
    CHECK_CLASS(MPI_Type_free(&type), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Type_size(type, &size), MPI_SUCCESS);
    CHECK_CLASS(MPI_Error_class(99999, &size), MPI_ERR_ARG);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    groups();
    datatypes();
    packing();
    operations();
    infos();
    callbacks();
    return check_end();
}
