/* Wrong arguments give the right error class, and the library goes on working. */
#include "check.h"

static MPI_Comm world;
static int data[16], more[16];

static void null_handles(void)
{
    MPI_Request request;
    MPI_Status status;
    MPI_Group group;
    int n;
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_rank(MPI_COMM_NULL, &n), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_free(&(MPI_Comm){MPI_COMM_NULL}), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Send(data, 1, MPI_DATATYPE_NULL, check_rank, 0, world), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_size(MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Allreduce(data, more, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP);
    CHECK_CLASS(MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_incl(MPI_GROUP_NULL, 0, NULL, &group), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create(world, MPI_GROUP_NULL, &(MPI_Comm){0}), MPI_ERR_GROUP);
    request = MPI_REQUEST_NULL;
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Wait(&request, &status), MPI_SUCCESS); /* this one is allowed */
    CHECK_CLASS(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Comm_set_errhandler(world, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
}

static void counts_and_ranks(void)
{
    MPI_Request request;
    CHECK_CLASS(MPI_Send(data, -1, MPI_INT, check_rank, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Recv(data, -5, MPI_INT, check_rank, 0, world, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send_c(data, -1, MPI_INT, check_rank, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Isend(data, -1, MPI_INT, check_rank, 0, world, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Bcast(data, -1, MPI_INT, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Allreduce(data, more, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, check_size, 0, world), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, -99, 0, world), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, world), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(data, 1, MPI_INT, check_size, 0, world, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, check_rank, -3, world), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, check_rank, MPI_ANY_TAG, world), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Recv(data, 1, MPI_INT, check_rank, -44, world, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Send(NULL, 1, MPI_INT, check_rank, 0, world), MPI_ERR_BUFFER);
}

static void roots(void)
{
    CHECK_CLASS(MPI_Bcast(data, 1, MPI_INT, check_size, world), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Bcast(data, 1, MPI_INT, -1, world), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Reduce(data, more, 1, MPI_INT, MPI_SUM, check_size + 3, world), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Gather(data, 1, MPI_INT, more, 1, MPI_INT, -8, world), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Scatter(data, 1, MPI_INT, more, 1, MPI_INT, check_size, world), MPI_ERR_ROOT);
}

static void types_and_operators(void)
{
    MPI_Datatype type;
    CHECK_CLASS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Type_vector(-2, 1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Type_contiguous(2, MPI_INT, &type), MPI_SUCCESS);
    CHECK_CLASS(MPI_Send(data, 1, type, check_rank, 0, world), MPI_ERR_TYPE); /* not committed */
    CHECK_CLASS(MPI_Type_free(&type), MPI_SUCCESS);
    type = MPI_INT;
    CHECK_CLASS(MPI_Type_free(&type), MPI_ERR_TYPE); /* predefined */
    CHECK_CLASS(MPI_Allreduce(data, more, 1, MPI_FLOAT, MPI_BAND, world), MPI_ERR_OP);
    CHECK_CLASS(MPI_Allreduce(data, more, 1, MPI_DOUBLE_COMPLEX, MPI_MAX, world), MPI_ERR_OP);
    MPI_Op op = MPI_SUM;
    CHECK_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    CHECK_CLASS(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}), MPI_ERR_COMM);
}

static void groups(void)
{
    MPI_Group group, part = MPI_GROUP_NULL;
    MPI_Comm_group(world, &group);
    CHECK_CLASS(MPI_Group_incl(group, 1, (int[]){check_size}, &part), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Group_incl(group, -1, (int[]){0}, &part), MPI_ERR_ARG);
    MPI_Group_free(&group);
}

/* Tests handles that were freed, or that never existed, if the library checks them. */
static void freed_handles(void)
{
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Group group;
    MPI_Request request;
    MPI_Info info;
    int n, flag;
    MPI_Comm_dup(world, &comm);
    MPI_Comm old_comm = comm;
    MPI_Comm_free(&comm);
    CHECK_CLASS(MPI_Comm_size(old_comm, &n), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Send(data, 1, MPI_INT, check_rank, 0, old_comm), MPI_ERR_COMM);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Datatype old_type = type;
    MPI_Type_free(&type);
    CHECK_CLASS(MPI_Type_size(old_type, &n), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Send(data, 1, old_type, check_rank, 0, world), MPI_ERR_TYPE);
    MPI_Op_create((MPI_User_function *)(void (*)(void))abort, 1, &op);
    MPI_Op old_op = op;
    MPI_Op_free(&op);
    CHECK_CLASS(MPI_Allreduce(data, more, 1, MPI_INT, old_op, world), MPI_ERR_OP);
    MPI_Comm_group(world, &group);
    MPI_Group old_group = group;
    MPI_Group_free(&group);
    CHECK_CLASS(MPI_Group_size(old_group, &n), MPI_ERR_GROUP);
    MPI_Irecv(data, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request);
    MPI_Request old_request = request;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_CLASS(MPI_Test(&old_request, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    MPI_Info_create(&info);
    MPI_Info old_info = info;
    MPI_Info_free(&info);
    CHECK_CLASS(MPI_Info_get_nkeys(old_info, &n), MPI_ERR_INFO);
    /* The wrong kind, and numbers that no handle has. */
    CHECK_CLASS(MPI_Comm_size((MPI_Comm)MPI_INT, &n), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Type_size((MPI_Datatype)MPI_COMM_WORLD, &n), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Comm_size((MPI_Comm)(uintptr_t)0x7ffffff0, &n), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Type_size((MPI_Datatype)(uintptr_t)0xdeadbeef12345, &n), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Allreduce(data, more, 1, MPI_INT, (MPI_Op)MPI_INT, world), MPI_ERR_OP);
}

/* Tests counts beyond any memory. The calls must be refused or end cleanly; the sizes must not wrap round. */
static void huge(void)
{
    MPI_Datatype type, wide;
    MPI_Count size;
    int small;
    MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &type);
    MPI_Type_size_c(type, &size);
    CHECK_EQUAL(size, 8LL << 30);
    MPI_Type_size(type, &small);
    CHECK_EQUAL(small, MPI_UNDEFINED);
    MPI_Type_contiguous(1 << 10, type, &wide);
    MPI_Type_size_c(wide, &size);
    CHECK_EQUAL(size, 8LL << 40);
    MPI_Type_free(&type);
    MPI_Type_free(&wide);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    null_handles();
    counts_and_ranks();
    roots();
    types_and_operators();
    groups();
    if (argc > 1 && !strcmp(argv[1], "freed"))
        freed_handles();
    huge();
    /* And all is well still. */
    int total = 0;
    CHECK_CLASS(MPI_Allreduce(&check_rank, &total, 1, MPI_INT, MPI_SUM, world), MPI_SUCCESS);
    CHECK_EQUAL(total, check_size * (check_size - 1) / 2);
    MPI_Comm_free(&world);
    return check_end();
}
