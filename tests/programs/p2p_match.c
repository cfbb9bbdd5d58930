/* Matching of messages with receives: order, wildcards, probes, null process, self, cancel, truncation. */
#include "check.h"

static MPI_Comm world;

/* Tests that messages of one sender are received in the order sent, for all sizes and mixes of receives. */
static void order(void)
{
    enum { MESSAGES = 200 };
    static const int counts[] = {1, 3000, 10, 50000, 0, 700};
    static int data[50000];
    int got;
    MPI_Status status;
    if (check_rank == 0) {
        for (int to = 1; to < check_size; to++)
            for (int i = 0; i < MESSAGES; i++) {
                data[0] = i;
                MPI_Send(data, counts[i % 6], MPI_INT, to, 7 + i % 2, world);
            }
    } else {
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Recv(data, 50000, MPI_INT, i % 3 ? 0 : MPI_ANY_SOURCE, i % 5 ? MPI_ANY_TAG : 7 + i % 2, world,
                     &status);
            MPI_Get_count(&status, MPI_INT, &got);
            CHECK_EQUAL(got, counts[i % 6]);
            CHECK_EQUAL(status.MPI_TAG, 7 + i % 2);
            CHECK_EQUAL(status.MPI_SOURCE, 0);
            if (got)
                CHECK_EQUAL(data[0], i);
        }
    }
}

/* Receives posted beforehand are matched in the order posted. */
static void posted_order(void)
{
    enum { MESSAGES = 64 };
    int data[MESSAGES];
    MPI_Request requests[MESSAGES];
    int from = (check_rank + check_size - 1) % check_size, to = (check_rank + 1) % check_size;
    for (int i = 0; i < MESSAGES; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, i % 4 ? from : MPI_ANY_SOURCE, i % 3 ? 9 : MPI_ANY_TAG, world, &requests[i]);
    MPI_Barrier(world);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send(&i, 1, MPI_INT, to, 9, world);
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        CHECK_EQUAL(data[i], i);
}

static void gather_any(void)
{
    MPI_Status status;
    int data, seen[64] = {0};
    if (check_rank != 0) {
        MPI_Send(&check_rank, 1, MPI_INT, 0, 100 + check_rank, world);
        return;
    }
    for (int i = 1; i < check_size; i++) {
        MPI_Recv(&data, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
        CHECK_EQUAL(data, status.MPI_SOURCE);
        CHECK_EQUAL(status.MPI_TAG, 100 + data);
        seen[data]++;
    }
    for (int i = 1; i < check_size; i++)
        CHECK_EQUAL(seen[i], 1);
}

static void probes(void)
{
    static int data[40000];
    int flag = 0, got;
    MPI_Status status;
    MPI_Message message;
    MPI_Request request, sending[5];
    if (check_size < 2)
        return;
    if (check_rank == 0) {
        for (int i = 0; i < 40000; i++)
            data[i] = i;
        for (int i = 0; i < 5; i++)
            MPI_Isend(data, 40000 - i, MPI_INT, 1, 20 + i, world, &sending[i]);
        MPI_Waitall(5, sending, MPI_STATUSES_IGNORE);
    } else if (check_rank == 1) {
        MPI_Probe(0, 22, world, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK_EQUAL(got, 39998);
        MPI_Recv(data, got, MPI_INT, 0, 22, world, &status);
        while (!flag)
            MPI_Iprobe(MPI_ANY_SOURCE, 24, world, &flag, &status);
        CHECK_EQUAL(status.MPI_SOURCE, 0);
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &message, &status);
        CHECK_EQUAL(status.MPI_TAG, 20);
        /* The matched message is out of reach of other receives. */
        MPI_Recv(data, 40000, MPI_INT, 0, MPI_ANY_TAG, world, &status);
        CHECK_EQUAL(status.MPI_TAG, 21);
        memset(data, 0, sizeof data);
        MPI_Mrecv(data, 40000, MPI_INT, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL);
        CHECK_EQUAL(data[39999], 39999);
        for (flag = 0; !flag;)
            MPI_Improbe(0, 23, world, &flag, &message, &status);
        MPI_Imrecv(data, 40000, MPI_INT, &message, &request);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        CHECK_EQUAL(got, 39997);
        MPI_Recv(data, 40000, MPI_INT, 0, 24, world, MPI_STATUS_IGNORE);
        MPI_Iprobe(0, MPI_ANY_TAG, world, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
    }
}

static void null_process(void)
{
    int data = 77, count = -1, flag = 0;
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    MPI_Send(&data, 1, MPI_INT, MPI_PROC_NULL, 1, world);
    MPI_Ssend(&data, 1, MPI_INT, MPI_PROC_NULL, 1, world);
    MPI_Recv(&data, 1, MPI_INT, MPI_PROC_NULL, 1, world, &status);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQUAL(status.MPI_TAG, MPI_ANY_TAG);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 0);
    CHECK_EQUAL(data, 77);
    MPI_Irecv(&data, 1, MPI_INT, MPI_PROC_NULL, 1, world, &request);
    MPI_Wait(&request, &status);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Probe(MPI_PROC_NULL, 0, world, &status);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Improbe(MPI_PROC_NULL, 0, world, &flag, &message, &status);
    CHECK(flag && message == MPI_MESSAGE_NO_PROC);
    MPI_Mrecv(&data, 1, MPI_INT, &message, &status);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
}

static void self(void)
{
    enum { COUNT = 100000 };
    int *out = check_memory(COUNT * sizeof(int)), *in = check_memory(COUNT * sizeof(int));
    MPI_Request requests[2];
    for (int i = 0; i < COUNT; i++)
        out[i] = i ^ check_rank;
    MPI_Irecv(in, COUNT, MPI_INT, check_rank, 3, world, &requests[0]);
    MPI_Send(out, COUNT, MPI_INT, check_rank, 3, world);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK(!memcmp(in, out, COUNT * sizeof(int)));
    memset(in, 0, COUNT * sizeof(int));
    MPI_Isend(out, COUNT, MPI_INT, check_rank, 4, world, &requests[0]);
    MPI_Irecv(in, COUNT, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(!memcmp(in, out, COUNT * sizeof(int)));
    MPI_Issend(out, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &requests[0]);
    MPI_Recv(in, 1, MPI_INT, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    free(out);
    free(in);
}

static void cancel(void)
{
    int data, flag = 0;
    MPI_Request request;
    MPI_Status status;
    MPI_Irecv(&data, 1, MPI_INT, MPI_ANY_SOURCE, 12345, world, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Barrier(world);
    /* A message sent later must not go to the cancelled receive. */
    MPI_Sendrecv(&check_rank, 1, MPI_INT, (check_rank + 1) % check_size, 12345, &data, 1, MPI_INT, MPI_ANY_SOURCE,
                 12345, world, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag);
    CHECK_EQUAL(data, (check_rank + check_size - 1) % check_size);
}

/* Tests a cancelled send. It returns from its wait without a receive. Then its message is gone, or otherwise
 * it can be received. */
static void cancel_send(int count, int synchronous, int planned)
{
    int *out = check_memory((size_t)count * sizeof(int)), *in = check_memory((size_t)count * sizeof(int));
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size, flag = 0, theirs = 0, last = 7;
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < count; i++)
        out[i] = i;
    if (planned)
        synchronous ? MPI_Ssend_init(out, count, MPI_INT, to, 8, world, &request) : MPI_Send_init(out, count, MPI_INT, to, 8, world, &request);
    for (int round = 0; round < 3; round++) {
        if (planned)
            MPI_Start(&request);
        else
            synchronous ? MPI_Issend(out, count, MPI_INT, to, 8, world, &request) : MPI_Isend(out, count, MPI_INT, to, 8, world, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        /* No receive has been posted, so the message is cancelled unless it has been copied. */
        CHECK(flag || (!synchronous && count < 100000));
        MPI_Sendrecv(&flag, 1, MPI_INT, to, 9, &theirs, 1, MPI_INT, from, 9, world, MPI_STATUS_IGNORE);
        if (!theirs)
            MPI_Recv(in, count, MPI_INT, from, 8, world, MPI_STATUS_IGNORE);
    }
    if (planned)
        MPI_Request_free(&request);
    MPI_Isend(&last, 1, MPI_INT, to, 8, world, &request);
    MPI_Recv(in, count, MPI_INT, from, 8, world, &status);
    MPI_Get_count(&status, MPI_INT, &flag);
    CHECK(flag == 1 && in[0] == last);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(out);
    free(in);
}

static void truncation(int count)
{
    int *out = check_memory((size_t)count * sizeof(int)), *in = check_memory((size_t)count * sizeof(int));
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    MPI_Request request, sending;
    MPI_Status status;
    for (int i = 0; i < count; i++) {
        out[i] = i;
        in[i] = -1;
    }
    MPI_Isend(out, count, MPI_INT, to, 6, world, &sending);
    CHECK_CLASS(MPI_Recv(in, count / 2, MPI_INT, from, 6, world, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    CHECK_EQUAL(in[count / 2], -1);
    MPI_Irecv(in, count / 2, MPI_INT, from, 6, world, &request);
    MPI_Isend(out, count, MPI_INT, to, 6, world, &sending);
    CHECK_CLASS(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS);
    CHECK_CLASS(status.MPI_ERROR, MPI_ERR_TRUNCATE);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    CHECK_EQUAL(in[count / 2], -1);
    /* The next message is not disturbed. */
    MPI_Sendrecv(out, count, MPI_INT, to, 6, in, count, MPI_INT, from, 6, world, MPI_STATUS_IGNORE);
    CHECK_EQUAL(in[count - 1], count - 1);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    order();
    posted_order();
    MPI_Barrier(world);
    gather_any();
    MPI_Barrier(world);
    probes();
    MPI_Barrier(world);
    null_process();
    self();
    MPI_Barrier(world);
    cancel();
    MPI_Barrier(world);
    for (int kind = 0; kind < 4; kind++) {
        cancel_send(1, kind & 1, kind / 2);
        cancel_send(300000, kind & 1, kind / 2);
    }
    MPI_Barrier(world);
    truncation(4);
    MPI_Barrier(world);
    truncation(10000);
    MPI_Barrier(world);
    truncation(500000);
    MPI_Comm_free(&world);
    return check_end();
}
