/* Partitioned communication: partitions of both sides that differ, every order, derived types, several
 * channels under one tag, arrival before the end, no process, a receive that begins late, wrong use.
 */
#include "check.h"

static int right, left;

static int value(int from, int round, int i)
{
    return from * 1000003 + round * 9176 + i;
}

/* Runs a ring of `items` ints in `out` partitions at the sender and `in` at the receiver, in rounds of
 * different orders. */
static void ring(MPI_Comm comm, int items, int out, int in, int late)
{
    int *sent = check_memory(sizeof(int) * (size_t)items), *got = check_memory(sizeof(int) * (size_t)items);
    int flag, count, list[64], listed = 0;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Psend_init(sent, out, items / out, MPI_INT, right, 7, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(got, in, items / in, MPI_INT, left, 7, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Parrived(requests[1], 0, &flag);
    CHECK(flag); /* not active */
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < items; i++)
            sent[i] = value(check_rank, round, i), got[i] = -1;
        if (late) {
            MPI_Start(&requests[0]);
        } else {
            MPI_Startall(2, requests);
            MPI_Parrived(requests[1], in - 1, &flag);
        }
        switch (round) {
        case 0:
            for (int i = 0; i < out; i++)
                MPI_Pready(i, requests[0]);
            break;
        case 1:
            for (int i = out - 1; i >= 0; i--)
                MPI_Pready(i, requests[0]);
            break;
        case 2:
            MPI_Pready_range(0, out / 2, requests[0]);
            if (out / 2 + 1 < out)
                MPI_Pready_range(out / 2 + 1, out - 1, requests[0]);
            break;
        default:
            listed = 0;
            for (int i = 0; i < out; i += 2)
                list[listed++] = i;
            MPI_Pready_list(listed, list, requests[0]);
            listed = 0;
            for (int i = 1; i < out; i += 2)
                list[listed++] = i;
            MPI_Pready_list(listed, list, requests[0]);
        }
        if (late)
            MPI_Start(&requests[1]);
        for (int i = 0; i < in; i++) {
            do
                MPI_Parrived(requests[1], i, &flag);
            while (!flag);
            int per = items / in;
            CHECK_EQUAL(got[i * per], value(left, round, i * per));
            CHECK_EQUAL(got[i * per + per - 1], value(left, round, i * per + per - 1));
        }
        MPI_Waitall(2, requests, statuses);
        MPI_Get_count(&statuses[1], MPI_INT, &count);
        CHECK_EQUAL(count, items);
        CHECK_EQUAL(statuses[1].MPI_SOURCE, left);
        CHECK_EQUAL(statuses[1].MPI_TAG, 7);
        for (int i = 0; i < items; i++)
            if (got[i] != value(left, round, i)) {
                CHECK_EQUAL(got[i], value(left, round, i));
                break;
            }
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    free(sent), free(got);
}

/* Every second int at the sender, all at the receiver; large counts. */
static void derived(MPI_Comm comm)
{
    enum { PARTS = 4, EACH = 500 };
    static int sent[PARTS * EACH * 2], got[PARTS * EACH];
    MPI_Datatype sparse;
    MPI_Request requests[2];
    MPI_Type_vector(EACH, 1, 2, MPI_INT, &sparse);
    MPI_Datatype padded;
    MPI_Type_create_resized(sparse, 0, EACH * 2 * (MPI_Aint)sizeof(int), &padded);
    MPI_Type_commit(&padded);
    for (int i = 0; i < PARTS * EACH; i++)
        sent[2 * i] = value(check_rank, 9, i);
    MPI_Psend_init_c(sent, PARTS, 1, padded, right, 8, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init_c(got, 1, PARTS * EACH, MPI_INT, left, 8, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    for (int i = 0; i < PARTS; i++)
        MPI_Pready((i + 2) % PARTS, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < PARTS * EACH; i++)
        CHECK_EQUAL(got[i], value(left, 9, i));
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Type_free(&sparse);
    MPI_Type_free(&padded);
}

/* Checks that channels of one tag are joined in the order of their creation, and that ordinary messages do
 * not match them. */
static void order(MPI_Comm comm)
{
    enum { CHANNELS = 5 };
    int sent[CHANNELS], got[CHANNELS], word = -1, other = check_rank + 100;
    MPI_Request requests[2 * CHANNELS], plain[2];
    MPI_Irecv(&word, 1, MPI_INT, left, MPI_ANY_TAG, comm, &plain[0]);
    for (int i = 0; i < CHANNELS; i++) {
        sent[i] = value(check_rank, i, 0), got[i] = -1;
        MPI_Psend_init(&sent[i], 1, 1, MPI_INT, right, 3, comm, MPI_INFO_NULL, &requests[i]);
        MPI_Precv_init(&got[i], 1, 1, MPI_INT, left, 3, comm, MPI_INFO_NULL, &requests[CHANNELS + i]);
    }
    for (int i = CHANNELS - 1; i >= 0; i--) {
        MPI_Start(&requests[i]);
        MPI_Pready(0, requests[i]);
    }
    MPI_Startall(CHANNELS, requests + CHANNELS);
    MPI_Waitall(2 * CHANNELS, requests, MPI_STATUSES_IGNORE);
    MPI_Isend(&other, 1, MPI_INT, right, 3, comm, &plain[1]);
    MPI_Waitall(2, plain, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(word, left + 100);
    for (int i = 0; i < CHANNELS; i++)
        CHECK_EQUAL(got[i], value(left, i, 0));
    for (int i = 0; i < 2 * CHANNELS; i++)
        MPI_Request_free(&requests[i]);
}

/* The answer to the first partition decides when the second is ready. */
static void conversation(MPI_Comm comm)
{
    double sent[2] = {check_rank + 0.5, check_rank + 0.25}, got[2] = {-1, -1}, answer = -1;
    int flag = 0;
    MPI_Request requests[2], back;
    MPI_Psend_init(sent, 2, 1, MPI_DOUBLE, right, 0, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(got, 2, 1, MPI_DOUBLE, left, 0, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Irecv(&answer, 1, MPI_DOUBLE, right, 1, comm, &back);
    MPI_Pready(1, requests[0]);
    while (!flag)
        MPI_Parrived(requests[1], 1, &flag);
    CHECK(got[1] == left + 0.25);
    MPI_Parrived(requests[1], 0, &flag);
    CHECK(!flag);
    MPI_Send(&got[1], 1, MPI_DOUBLE, left, 1, comm);
    MPI_Wait(&back, MPI_STATUS_IGNORE);
    CHECK(answer == sent[1]);
    MPI_Pready(0, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(got[0] == left + 0.5);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void nobody(MPI_Comm comm)
{
    int data[4] = {0};
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Psend_init(data, 2, 2, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(data, 4, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < 2; round++) {
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 1, requests[0]);
        MPI_Waitall(2, requests, statuses);
        CHECK_EQUAL(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    /* Created, never started, freed: later requests are not disturbed. */
    MPI_Precv_init(data, 4, 1, MPI_INT, left, 11, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Request_free(&requests[1]);
    MPI_Psend_init(data, 4, 1, MPI_INT, right, 11, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Request_free(&requests[0]);
    MPI_Psend_init(data, 4, 1, MPI_INT, right, 11, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(data, 4, 1, MPI_INT, left, 11, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 3, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void wrong_use(MPI_Comm comm)
{
    int data[4] = {0}, more[4], flag, twice[2] = {1, 1}, beyond[2] = {0, 4};
    MPI_Request send, receive, plain, null = MPI_REQUEST_NULL;
    CHECK_CLASS(MPI_Psend_init(data, -1, 1, MPI_INT, right, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Psend_init(data, 1, -1, MPI_INT, right, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_INT, check_size, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_INT, right, -3, comm, MPI_INFO_NULL, &send), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_DATATYPE_NULL, right, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Psend_init(NULL, 1, 1, MPI_INT, right, 0, comm, MPI_INFO_NULL, &send), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Precv_init(data, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_INFO_NULL, &receive), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Precv_init(data, 1, 1, MPI_INT, left, MPI_ANY_TAG, comm, MPI_INFO_NULL, &receive), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Precv_init(data, 1, 1, MPI_INT, left, 0, MPI_COMM_NULL, MPI_INFO_NULL, &receive), MPI_ERR_COMM);
    MPI_Psend_init(data, 4, 1, MPI_INT, right, 0, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(more, 4, 1, MPI_INT, left, 0, comm, MPI_INFO_NULL, &receive);
    MPI_Send_init(data, 4, MPI_INT, right, 0, comm, &plain);
    CHECK_CLASS(MPI_Pready(0, send), MPI_ERR_REQUEST); /* not active */
    CHECK_CLASS(MPI_Pready(0, null), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(null, 0, &flag), MPI_SUCCESS);
    CHECK(flag);
    MPI_Start(&send);
    MPI_Start(&receive);
    CHECK_CLASS(MPI_Start(&send), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready(0, receive), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready(0, plain), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(plain, 0, &flag), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(receive, 4, &flag), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Parrived(receive, -1, &flag), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Parrived(receive, 0, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready(4, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready(-1, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(2, 1, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(2, 4, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_list(2, twice, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_list(2, beyond, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_list(-1, twice, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cancel(&send), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready(2, send), MPI_SUCCESS);
    CHECK_CLASS(MPI_Pready_range(1, 3, send), MPI_ERR_ARG); /* 2 was */
    MPI_Pready_range(0, 1, send);
    MPI_Pready(3, send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    MPI_Request_free(&plain);
    /* The message is longer than the receiver's buffer. */
    MPI_Psend_init(data, 4, 1, MPI_INT, right, 0, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(more, 2, 1, MPI_INT, left, 0, comm, MPI_INFO_NULL, &receive);
    more[2] = -7;
    MPI_Start(&send);
    MPI_Start(&receive);
    MPI_Pready_range(0, 3, send);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    CHECK_CLASS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_EQUAL(more[2], -7);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
}

int main(int argc, char **argv)
{
    static const int shapes[][3] = {{24, 4, 3}, {24, 1, 24}, {24, 24, 1}, {12, 12, 12}, {60000, 6, 10}, {1 << 20, 32, 1}, {1 << 20, 1, 16}};
    MPI_Comm comm;
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        ring(comm, shapes[i][0], shapes[i][1], shapes[i][2], 0);
        ring(comm, shapes[i][0], shapes[i][1], shapes[i][2], 1);
    }
    derived(comm);
    order(comm);
    conversation(comm);
    nobody(comm);
    wrong_use(comm);
    MPI_Comm_free(&comm);
    return check_end();
}
