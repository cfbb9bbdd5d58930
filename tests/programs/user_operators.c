/* User operators are called with the datatype handle that the call named (MPI-5, 6.9.5), in every function
 * and
 * form. */
#include "check.h"
#include <stddef.h>

enum { MOST = 3000, TYPES = 10 };

struct pair {
    double value;
    int place;
};

static MPI_Datatype wanted;
static long calls, wrong;
static char *from, *into, *sum;
static const char *expected_name;

static void look(MPI_Datatype type)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    calls++;
    wrong += type != wanted;
    if (!expected_name)
        return;
    /* The operator receives the object itself, with its name. */
    MPI_Type_get_name(type, name, &length);
    wrong += strcmp(name, expected_name) != 0;
}

static void combine(void *in, void *inout, int *length, MPI_Datatype *type)
{
    MPI_Aint low, extent;
    look(*type);
    MPI_Type_get_extent(*type, &low, &extent);
    memcpy(inout, in, (size_t)(*length * extent));
}

#if MPI_VERSION >= 4
static void combine_c(void *in, void *inout, MPI_Count *length, MPI_Datatype *type)
{
    MPI_Aint low, extent;
    look(*type);
    MPI_Type_get_extent(*type, &low, &extent);
    memcpy(inout, in, (size_t)(*length * extent));
}
#endif

static int make_types(MPI_Datatype *types)
{
    int lengths[2] = { 1, 1 }, n = 0;
    MPI_Aint places[2] = { offsetof(struct pair, value), offsetof(struct pair, place) };
    MPI_Datatype members[2] = { MPI_DOUBLE, MPI_INT }, packed;
    MPI_Type_create_struct(2, lengths, places, members, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct pair), &types[n++]);
    MPI_Type_dup(packed, &types[n++]);
    MPI_Type_free(&packed);
    MPI_Type_contiguous(2, MPI_DOUBLE, &types[n++]);
    MPI_Type_vector(3, 1, 2, MPI_INT, &types[n++]);
    MPI_Type_dup(MPI_DOUBLE, &types[n++]);
    MPI_Type_dup(MPI_DOUBLE_INT, &types[n++]);
    MPI_Type_contiguous(1, MPI_DOUBLE, &types[n++]);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 8, &types[n++]);
    for (int i = 0; i < n; i++)
        MPI_Type_commit(&types[i]);
    types[n++] = MPI_DOUBLE;
    types[n++] = MPI_2INT;
    return n;
}

/* Completes an operation of one form: blocking, started, or persistent and started twice. */
static void finish(MPI_Request request, int persistent)
{
    for (int i = 0; i < persistent; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (persistent)
        MPI_Request_free(&request);
    else
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static const char *const NAMES[] = {
    "Allreduce", "Allreduce in place", "Reduce", "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block", "Reduce_local",
};

static void one(int function, int form, int n, MPI_Op op, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int counts[64], size;
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < size; i++)
        counts[i] = n / size + 1;
    int block = n / size + 1;
#define FORMS(name, ...)                                                                                 \
    do {                                                                                                 \
        if (form == 0)                                                                                   \
            MPI_##name(__VA_ARGS__, comm);                                                               \
        else if (form == 1)                                                                              \
            MPI_I##name(__VA_ARGS__, comm, &request), finish(request, 0);                                \
        else                                                                                             \
            INIT(name)(__VA_ARGS__, comm, MPI_INFO_NULL, &request), finish(request, 2);                  \
    } while (0)
#define INIT(name) UPPER_##name
#define UPPER_allreduce MPI_Allreduce_init
#define UPPER_reduce MPI_Reduce_init
#define UPPER_scan MPI_Scan_init
#define UPPER_exscan MPI_Exscan_init
#define UPPER_reduce_scatter MPI_Reduce_scatter_init
#define UPPER_reduce_scatter_block MPI_Reduce_scatter_block_init
#define MPI_allreduce MPI_Allreduce
#define MPI_reduce MPI_Reduce
#define MPI_scan MPI_Scan
#define MPI_exscan MPI_Exscan
#define MPI_reduce_scatter MPI_Reduce_scatter
#define MPI_reduce_scatter_block MPI_Reduce_scatter_block
    switch (function) {
    case 0: FORMS(allreduce, from, into, n, wanted, op); break;
    case 1: FORMS(allreduce, MPI_IN_PLACE, into, n, wanted, op); break;
    case 2: FORMS(reduce, from, into, n, wanted, op, size - 1); break;
    case 3: FORMS(scan, from, into, n, wanted, op); break;
    case 4: FORMS(exscan, from, into, n, wanted, op); break;
    case 5: FORMS(reduce_scatter, from, into, counts, wanted, op); break;
    case 6: FORMS(reduce_scatter_block, from, into, block, wanted, op); break;
    default: MPI_Reduce_local(from, into, n, wanted, op); break;
    }
}

static void all_functions(MPI_Datatype *types, int number, MPI_Op op, MPI_Comm comm)
{
    const int lengths[] = { 1, 40, MOST };
    for (int function = 0; function < 8; function++)
        for (int form = 0; form < 3; form++)
            for (int l = 0; l < 3; l++)
                /* Each type twice, so that an execution is repeated, and once more after others. */
                for (int round = 0; round < 3 * number; round++) {
                    int t = round < 2 * number ? round / 2 : round - 2 * number;
                    wanted = types[t];
                    calls = wrong = 0;
                    one(function, form, lengths[l], op, comm);
                    if (wrong)
                        check_say(__FILE__, __LINE__, "%s, form %d, %d of type %d: %ld of %ld calls with another handle",
                                  NAMES[function], form, lengths[l], t, wrong, calls);
                }
}

/* Frees the type while the operation is outstanding. The function must still get the original handle.
   */
static void freed(MPI_Op op, MPI_Comm comm)
{
    for (int persistent = 0; persistent < 2; persistent++) {
        MPI_Request request;
        MPI_Type_contiguous(3, MPI_INT, &wanted);
        MPI_Type_commit(&wanted);
        MPI_Datatype type = wanted;
        calls = wrong = 0;
        if (persistent)
            MPI_Allreduce_init(from, into, 100, type, op, comm, MPI_INFO_NULL, &request);
        else
            MPI_Iallreduce(from, into, 100, type, op, comm, &request);
        MPI_Type_free(&type);
        finish(request, persistent * 2);
        CHECK_EQUAL(wrong, 0);
        /* The datatype is freed. */
        MPI_Aint low, extent;
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Type_get_extent(wanted, &low, &extent), MPI_ERR_TYPE);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    }
}

static void named(MPI_Op op, MPI_Comm comm)
{
    MPI_Type_contiguous(3, MPI_INT, &wanted);
    MPI_Type_commit(&wanted);
    MPI_Type_set_name(wanted, "three");
    expected_name = "three";
    calls = wrong = 0;
    MPI_Allreduce(from, into, 5, wanted, op, comm);
    MPI_Reduce_local(from, into, 5, wanted, op);
    CHECK_EQUAL(wrong, 0);
    CHECK(calls > 0);
    expected_name = NULL;
    MPI_Type_free(&wanted);
}

/* Each group has its own handle for the type. */
static void between(MPI_Op op)
{
    MPI_Comm half, inter;
    if (check_size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, 7, &inter);
    MPI_Type_contiguous(3, MPI_INT, &wanted);
    MPI_Type_commit(&wanted);
    calls = wrong = 0;
    MPI_Allreduce(from, into, 50, wanted, op, inter);
    int root = check_rank % 2 ? 0 : check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Reduce(from, into, 50, wanted, op, root, inter);
    CHECK_EQUAL(wrong, 0);
    MPI_Type_free(&wanted);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    MPI_Datatype types[TYPES];
    MPI_Op ops[4];
    int number_of_ops = 2;
    MPI_Comm comm;
    check_begin(&argc, &argv);
    from = calloc(MOST + 64, 32);
    into = calloc(MOST + 64, 32);
    sum = calloc(MOST + 64, 32);
    int number = make_types(types);
    MPI_Op_create(combine, 1, &ops[0]);
    MPI_Op_create(combine, 0, &ops[1]);
#if MPI_VERSION >= 4
    MPI_Op_create_c(combine_c, 1, &ops[number_of_ops++]);
    MPI_Op_create_c(combine_c, 0, &ops[number_of_ops++]);
#endif
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < number_of_ops; i++) {
        all_functions(types, i < 2 ? number : 3, ops[i], comm);
        freed(ops[i], comm);
        named(ops[i], comm);
        between(ops[i]);
    }
    for (int i = 0; i < number_of_ops; i++)
        MPI_Op_free(&ops[i]);
    for (int i = 0; i < number - 2; i++)
        MPI_Type_free(&types[i]);
    MPI_Comm_free(&comm);
    return check_end();
}
