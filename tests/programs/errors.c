/* Errors: truncation on every path, error handlers of every kind, handles of the wrong kind, counts beyond
 * any memory.
 *
 * usage: errors [WHAT]      abort, errors_abort, inherit, wait: end the job in their way; nothing: checks that end well
 */
#include "check.h"

static MPI_Comm seen_comm;
static int seen_code, seen_calls;

static void note(MPI_Comm *comm, int *code, ...)
{
    seen_comm = *comm;
    seen_code = *code;
    seen_calls++;
}

/* Counts the error and calls MPI, as a handler may. */
static void note_and_talk(MPI_Comm *comm, int *code, ...)
{
    int flag, word = 5, copy = 0;
    note(comm, code);
    MPI_Sendrecv(&word, 1, MPI_INT, 0, 9, &copy, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Iprobe(MPI_ANY_SOURCE, 3, *comm, &flag, MPI_STATUS_IGNORE);
    CHECK_EQUAL(copy, 5);
}

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Sends `sent` ints to a receive of `wanted` ints. */
static void truncated(int sent, int wanted, int to, int from, MPI_Comm comm)
{
    int *out = check_memory(sizeof(int) * (size_t)sent), *in = check_memory(sizeof(int) * (size_t)(wanted + 2));
    MPI_Request requests[4];
    MPI_Status status, statuses[4];
    for (int i = 0; i < sent; i++)
        out[i] = i;
    for (int i = 0; i < wanted + 2; i++)
        in[i] = -1;
    MPI_Isend(out, sent, MPI_INT, to, 1, comm, &requests[0]);
    CHECK_CLASS(MPI_Recv(in, wanted, MPI_INT, from, 1, comm, &status), MPI_ERR_TRUNCATE);
    CHECK_EQUAL(in[wanted], -1);
    CHECK_EQUAL(status.MPI_SOURCE, from);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    /* One of several: the rest is well. */
    MPI_Irecv(in, wanted, MPI_INT, from, 2, comm, &requests[0]);
    MPI_Irecv(in + wanted, 1, MPI_INT, from, 3, comm, &requests[1]);
    MPI_Isend(out, sent, MPI_INT, to, 2, comm, &requests[2]);
    MPI_Isend(out + 1, 1, MPI_INT, to, 3, comm, &requests[3]);
    CHECK_CLASS(MPI_Waitall(4, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK_EQUAL(class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    CHECK_EQUAL(statuses[1].MPI_ERROR, MPI_SUCCESS);
    CHECK_EQUAL(statuses[3].MPI_ERROR, MPI_SUCCESS);
    CHECK_EQUAL(in[wanted], 1);
    CHECK_EQUAL(in[wanted + 1], -1);
    for (int i = 0; i < 4; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
    free(out), free(in);
}

static void truncation(MPI_Comm world)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Comm self;
    int sizes[][2] = {{2, 1}, {100, 0}, {5000, 4999}, {500000, 10}, {500000, 499999}};
    MPI_Comm_dup(MPI_COMM_SELF, &self);
    for (int i = 0; i < 5; i++) {
        truncated(sizes[i][0], sizes[i][1], right, left, world);
        truncated(sizes[i][0], sizes[i][1], 0, 0, self);
    }
    MPI_Comm_free(&self);
}

static void handlers(void)
{
    MPI_Comm one, two;
    MPI_Errhandler mine, other, got;
    MPI_Request request;
    int word = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &one);
    MPI_Comm_create_errhandler(note, &mine);
    MPI_Comm_create_errhandler(note_and_talk, &other);
    MPI_Comm_set_errhandler(one, mine);
    MPI_Comm_dup(one, &two);
    MPI_Comm_get_errhandler(two, &got);
    /* Programs compare it, and free it once more. */
    CHECK(got == mine && got != MPI_ERRHANDLER_NULL && got != MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&got);
    CHECK(got == MPI_ERRHANDLER_NULL);
    MPI_Comm_set_errhandler(one, mine);
    MPI_Errhandler_free(&mine);
    CHECK(mine == MPI_ERRHANDLER_NULL);
    CHECK_CLASS(MPI_Send(&word, 1, MPI_INT, 1000, 0, one), MPI_ERR_RANK);
    CHECK(seen_calls == 1 && seen_comm == one && class_of(seen_code) == MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(&word, 1, MPI_INT, 0, -9, two, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    CHECK(seen_calls == 2 && seen_comm == two);
    MPI_Comm_set_errhandler(two, other);
    CHECK_CLASS(MPI_Bcast(&word, 1, MPI_INT, -5, two), MPI_ERR_ROOT);
    CHECK(seen_calls == 3 && seen_comm == two);
    CHECK_CLASS(MPI_Bcast(&word, 1, MPI_INT, -5, one), MPI_ERR_ROOT);
    CHECK(seen_calls == 4 && seen_comm == one);
    /* An error found later goes to the communicator of the request. */
    MPI_Irecv(&word, 0, MPI_INT, check_rank, 4, two, &request);
    MPI_Send(&word, 1, MPI_INT, check_rank, 4, two);
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK(seen_calls == 5 && seen_comm == two);
    MPI_Comm_call_errhandler(one, MPI_ERR_ARG);
    CHECK(seen_calls == 6 && seen_code == MPI_ERR_ARG);
    MPI_Comm_set_errhandler(two, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Send(&word, -1, MPI_INT, 0, 0, two), MPI_ERR_COUNT);
    CHECK_EQUAL(seen_calls, 6);
    MPI_Errhandler_free(&other);
    MPI_Comm_free(&one);
    MPI_Comm_free(&two);
}

/* Calls each kind of function with each kind of handle and with numbers that are no handles. */
static void foreign_handles(void)
{
    uintptr_t bad[] = {(uintptr_t)MPI_COMM_WORLD, (uintptr_t)MPI_INT, (uintptr_t)MPI_SUM, (uintptr_t)MPI_GROUP_EMPTY, (uintptr_t)MPI_INFO_ENV,
                       (uintptr_t)MPI_ERRORS_RETURN, (uintptr_t)MPI_MESSAGE_NO_PROC, 0, 1, 0x3ff, 0x1000, (uintptr_t)-1, (uintptr_t)&seen_comm,
                       (uintptr_t)bad, (uintptr_t)0x8000000000000000u, (uintptr_t)0x0100000100000001u, (uintptr_t)0x100000000u};
    int n, flag, data[2] = {0, 0};
    MPI_Aint lb, extent;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        uintptr_t h = bad[i];
        if (h != (uintptr_t)MPI_COMM_WORLD) {
            CHECK_CLASS(MPI_Comm_size((MPI_Comm)h, &n), MPI_ERR_COMM);
            CHECK_CLASS(MPI_Barrier((MPI_Comm)h), MPI_ERR_COMM);
            CHECK_CLASS(MPI_Comm_free(&(MPI_Comm){(MPI_Comm)h}), MPI_ERR_COMM);
        }
        if (h != (uintptr_t)MPI_INT) {
            CHECK_CLASS(MPI_Type_get_extent((MPI_Datatype)h, &lb, &extent), MPI_ERR_TYPE);
            CHECK_CLASS(MPI_Send(data, 1, (MPI_Datatype)h, MPI_PROC_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
            CHECK_CLASS(MPI_Type_commit(&(MPI_Datatype){(MPI_Datatype)h}), MPI_ERR_TYPE);
        }
        if (h != (uintptr_t)MPI_SUM) {
            CHECK_CLASS(MPI_Reduce_local(data, data + 1, 1, MPI_INT, (MPI_Op)h), MPI_ERR_OP);
            CHECK_CLASS(MPI_Op_free(&(MPI_Op){(MPI_Op)h}), MPI_ERR_OP);
        }
        if (h != (uintptr_t)MPI_GROUP_EMPTY)
            CHECK_CLASS(MPI_Group_rank((MPI_Group)h, &n), MPI_ERR_GROUP);
        if (h != (uintptr_t)MPI_INFO_ENV)
            CHECK_CLASS(MPI_Info_get_nkeys((MPI_Info)h, &n), MPI_ERR_INFO);
        if (h != (uintptr_t)MPI_ERRORS_RETURN)
            CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, (MPI_Errhandler)h), MPI_ERR_ERRHANDLER);
        CHECK_CLASS(MPI_Test(&(MPI_Request){(MPI_Request)h}, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Cancel(&(MPI_Request){(MPI_Request)h}), MPI_ERR_REQUEST);
        CHECK_CLASS(MPI_Request_free(&(MPI_Request){(MPI_Request)h}), MPI_ERR_REQUEST);
        if (h != (uintptr_t)MPI_MESSAGE_NO_PROC)
            CHECK_CLASS(MPI_Mrecv(data, 1, MPI_INT, &(MPI_Message){(MPI_Message)h}, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    }
}

static void huge_counts(MPI_Comm world)
{
    static int data[4];
    MPI_Count most = INT64_MAX, many = (MPI_Count)1 << 60;
    MPI_Datatype type, large;
    void *memory;
    CHECK_CLASS(MPI_Send_c(data, most, MPI_INT, check_rank, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send_c(data, many, MPI_DOUBLE_COMPLEX, check_rank, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Bcast_c(data, most, MPI_INT, 0, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Allreduce_c(data, data, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Type_contiguous_c(many, MPI_DOUBLE_COMPLEX, &type), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Type_vector_c(many, 1, 1 << 20, MPI_INT, &type), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Type_contiguous_c(many, MPI_BYTE, &large), MPI_SUCCESS);
    MPI_Type_commit(&large);
    CHECK_CLASS(MPI_Send_c(data, 1 << 10, large, check_rank, 0, world), MPI_ERR_COUNT);
    MPI_Type_free(&large);
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM);
    CHECK_CLASS(MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory), MPI_ERR_ARG);
}

static void vectors(MPI_Comm world)
{
    int data[64] = {0}, more[64], counts[64], places[64];
    MPI_Datatype types[64];
    for (int i = 0; i < 64; i++)
        counts[i] = places[i] = 0, types[i] = MPI_INT;
    counts[0] = -1;
    CHECK_CLASS(MPI_Allgatherv(data, 0, MPI_INT, more, counts, places, MPI_INT, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Alltoallv(data, counts, places, MPI_INT, more, counts, places, MPI_INT, world), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Reduce_scatter(data, more, counts, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT);
    counts[0] = 1;
    types[0] = MPI_DATATYPE_NULL;
    CHECK_CLASS(MPI_Alltoallw(data, counts, places, types, more, counts, places, types, world), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Allgather(data, 1, MPI_INT, data, 1, MPI_INT, MPI_COMM_NULL), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER); /* aliased */
    CHECK_CLASS(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, world), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, check_rank, 0, world), MPI_ERR_BUFFER);
}

/* Ranks disagree about the length: the rank with too little room returns an error. */
static void disagreement(int count)
{
    int *data = check_memory(sizeof(int) * (size_t)count);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < count; i++)
        data[i] = check_rank;
    CHECK_CLASS(MPI_Bcast(data, check_rank ? count / 2 : count, MPI_INT, 0, comm), check_rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    CHECK_EQUAL(data[count - 1], check_rank);
    MPI_Comm_free(&comm);
    free(data);
}

static void communicators(MPI_Comm world)
{
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group all, own;
    CHECK_CLASS(MPI_Comm_split(world, -3, 0, &made), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_split_type(world, 12345, 0, MPI_INFO_NULL, &made), MPI_ERR_ARG);
    MPI_Comm_group(world, &all);
    MPI_Comm_group(MPI_COMM_SELF, &own);
    if (check_size > 1)
        CHECK_CLASS(MPI_Comm_create(MPI_COMM_SELF, all, &made), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create_group(world, own, -1, &made), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Intercomm_create(world, check_size, world, 0, 1, &made), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Intercomm_merge(world, 0, &made), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_remote_size(world, &(int){0}), MPI_ERR_COMM);
    MPI_Group_free(&all);
    MPI_Group_free(&own);
}

static void buffers(void)
{
    static char room[2000];
    void *address;
    int bytes, word = 0;
    CHECK_CLASS(MPI_Bsend(&word, 1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Buffer_attach(room, -1), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Buffer_attach(room, sizeof room), MPI_SUCCESS);
    CHECK_CLASS(MPI_Buffer_attach(room, sizeof room), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Bsend(room, 2000, MPI_CHAR, 0, 0, MPI_COMM_SELF), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Buffer_detach(&address, &bytes), MPI_SUCCESS);
    CHECK(address == room && bytes == (int)sizeof room);
}

static void end_badly(const char *what)
{
    MPI_Comm dup;
    MPI_Request request;
    int word = 0;
    if (!strcmp(what, "abort") && check_rank == check_size - 1)
        MPI_Abort(MPI_COMM_WORLD, 300); /* not 0 modulo 256 */
    if (!strcmp(what, "errors_abort")) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
        MPI_Send(&word, 1, MPI_INT, -50, 0, MPI_COMM_WORLD);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_name(dup, "ocean");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!strcmp(what, "inherit"))
        MPI_Send(&word, -1, MPI_INT, 0, 0, dup); /* the copy has kept what the world had */
    if (!strcmp(what, "wait")) {
        MPI_Irecv(&word, 0, MPI_INT, check_rank, 4, dup, &request);
        MPI_Send(&word, 1, MPI_INT, check_rank, 4, dup);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Comm world;
    check_begin(&argc, &argv);
    if (argc > 1) {
        end_badly(argv[1]);
        MPI_Finalize();
        return 77;
    }
    handlers();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    truncation(world);
    foreign_handles();
    huge_counts(world);
    vectors(world);
    disagreement(10);
    disagreement(800);
    communicators(world);
    buffers();
    /* And all is well still. */
    int total = 0;
    CHECK_CLASS(MPI_Allreduce(&check_rank, &total, 1, MPI_INT, MPI_SUM, world), MPI_SUCCESS);
    CHECK_EQUAL(total, check_size * (check_size - 1) / 2);
    MPI_Comm_free(&world);
    return check_end();
}
