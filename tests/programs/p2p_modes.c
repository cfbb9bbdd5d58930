/* Every way to send, blocking, non-blocking and persistent, in every size class, around a ring. */
#include "check.h"

enum { SEND, SSEND, BSEND, RSEND, MODES };
static const int COUNTS[] = {0, 1, 17, 1000, 5000, 20000, 300000};

static int value(int from, int count, int mode, int i)
{
    return from * 1000003 + count * 31 + mode * 7 + i;
}

static void fill(int *data, int count, int mode)
{
    for (int i = 0; i < count; i++)
        data[i] = value(check_rank, count, mode, i);
}

static void compare(const int *data, int count, int mode, int from)
{
    for (int i = 0; i < count; i++)
        if (data[i] != value(from, count, mode, i)) {
            check_say(__FILE__, __LINE__, "mode %d count %d: item %d is wrong", mode, count, i);
            return;
        }
}

static void blocking_send(int mode, const int *data, int count, int to)
{
    switch (mode) {
    case SEND: MPI_Send(data, count, MPI_INT, to, mode, MPI_COMM_WORLD); break;
    case SSEND: MPI_Ssend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD); break;
    case BSEND: MPI_Bsend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD); break;
    default: MPI_Rsend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD); break;
    }
}

static void immediate_send(int mode, const int *data, int count, int to, MPI_Request *request)
{
    switch (mode) {
    case SEND: MPI_Isend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    case SSEND: MPI_Issend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    case BSEND: MPI_Ibsend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    default: MPI_Irsend(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    }
}

static void planned_send(int mode, const int *data, int count, int to, MPI_Request *request)
{
    switch (mode) {
    case SEND: MPI_Send_init(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    case SSEND: MPI_Ssend_init(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    case BSEND: MPI_Bsend_init(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    default: MPI_Rsend_init(data, count, MPI_INT, to, mode, MPI_COMM_WORLD, request); break;
    }
}

/* Posts all receives before a barrier, so that a ready send is allowed. */
static void ring(int mode, int count, int *out, int *in)
{
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size, got;
    MPI_Request requests[2];
    MPI_Status status;
    fill(out, count, mode);

    memset(in, 0, (size_t)count * sizeof *in);
    MPI_Irecv(in, count, MPI_INT, from, mode, MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    blocking_send(mode, out, count, to);
    MPI_Wait(&requests[0], &status);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK_EQUAL(got, count);
    CHECK_EQUAL(status.MPI_SOURCE, from);
    CHECK_EQUAL(status.MPI_TAG, mode);
    compare(in, count, mode, from);

    memset(in, 0, (size_t)count * sizeof *in);
    MPI_Irecv(in, count, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    immediate_send(mode, out, count, to, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    compare(in, count, mode, from);

    MPI_Recv_init(in, count, MPI_INT, from, mode, MPI_COMM_WORLD, &requests[0]);
    planned_send(mode, out, count, to, &requests[1]);
    for (int round = 0; round < 3; round++) {
        memset(in, 0, (size_t)count * sizeof *in);
        MPI_Start(&requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Start(&requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
        compare(in, count, mode, from);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

/* Checks that a synchronous send does not end before its receive has begun. */
static void synchronous(void)
{
    int flag = 1, token = 5;
    MPI_Request request;
    if (check_size < 2)
        return;
    if (check_rank == 0) {
        MPI_Issend(&token, 1, MPI_INT, 1, 40, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 100; i++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag);
        }
        MPI_Send(&token, 1, MPI_INT, 1, 41, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (check_rank == 1) {
        MPI_Recv(&token, 1, MPI_INT, 0, 41, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&token, 1, MPI_INT, 0, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* Tests buffered sends. They complete before a receive; detaching the buffer waits for them. */
static void buffered(void)
{
    enum { MESSAGES = 20, COUNT = 500 };
    int bytes = MESSAGES * (int)(COUNT * sizeof(int) + MPI_BSEND_OVERHEAD), size;
    int *memory = check_memory((size_t)bytes), data[COUNT], other = check_rank ^ 1;
    void *back;
    if (other < check_size) {
        MPI_Buffer_attach(memory, bytes);
        for (int i = 0; i < MESSAGES; i++) {
            for (int j = 0; j < COUNT; j++)
                data[j] = i * j;
            MPI_Bsend(data, COUNT, MPI_INT, other, i, MPI_COMM_WORLD);
        }
        for (int i = MESSAGES - 1; i >= 0; i--) {
            MPI_Recv(data, COUNT, MPI_INT, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_EQUAL(data[COUNT - 1], i * (COUNT - 1));
        }
        MPI_Buffer_detach(&back, &size);
        CHECK(back == (void *)memory);
        CHECK_EQUAL(size, bytes);
    }
    free(memory);
}

int main(int argc, char **argv)
{
    int most = COUNTS[sizeof COUNTS / sizeof *COUNTS - 1];
    check_begin(&argc, &argv);
    int *out = check_memory((size_t)most * sizeof *out), *in = check_memory((size_t)most * sizeof *in);
    int bytes = 8 * (most * (int)sizeof(int) + MPI_BSEND_OVERHEAD), size;
    void *memory = check_memory((size_t)bytes), *back;
    MPI_Buffer_attach(memory, bytes);
    for (int mode = 0; mode < MODES; mode++)
        for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS; i++)
            ring(mode, COUNTS[i], out, in);
    MPI_Buffer_detach(&back, &size);
    synchronous();
    buffered();
    free(memory);
    free(out);
    free(in);
    return check_end();
}
