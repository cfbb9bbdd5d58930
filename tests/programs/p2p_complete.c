/* All the ways in which requests complete, and exchanges in one call. */
#include "check.h"

enum { MANY = 40 };

static int left, right;

static void post(MPI_Request *requests, int *in, int *out)
{
    for (int i = 0; i < MANY; i++) {
        in[i] = -1;
        out[i] = check_rank * 1000 + i;
        MPI_Irecv(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[2 * i]);
        MPI_Isend(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
}

static void arrived(const int *in, const MPI_Request *requests)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(in[i], left * 1000 + i);
    for (int i = 0; i < 2 * MANY; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL);
}

static void any(int testing)
{
    int in[MANY], out[MANY], index, flag, done[2 * MANY] = {0}, count = 0;
    MPI_Request requests[2 * MANY];
    MPI_Status status;
    post(requests, in, out);
    while (count < 2 * MANY) {
        flag = 1;
        if (testing)
            MPI_Testany(2 * MANY, requests, &index, &flag, &status);
        else
            MPI_Waitany(2 * MANY, requests, &index, &status);
        if (!flag)
            continue;
        CHECK(index >= 0 && index < 2 * MANY && !done[index]);
        if (index % 2 == 0)
            CHECK_EQUAL(status.MPI_TAG, index / 2);
        done[index] = 1;
        count++;
    }
    arrived(in, requests);
    MPI_Waitany(2 * MANY, requests, &index, &status);
    CHECK_EQUAL(index, MPI_UNDEFINED);
    MPI_Testany(2 * MANY, requests, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED);
}

static void some(int testing)
{
    int in[MANY], out[MANY], indices[2 * MANY], now, count = 0;
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY];
    post(requests, in, out);
    while (count < 2 * MANY) {
        if (testing)
            MPI_Testsome(2 * MANY, requests, &now, indices, statuses);
        else
            MPI_Waitsome(2 * MANY, requests, &now, indices, statuses);
        CHECK(now >= !testing);
        for (int i = 0; i < now; i++)
            if (indices[i] % 2 == 0)
                CHECK_EQUAL(statuses[i].MPI_TAG, indices[i] / 2);
        count += now;
    }
    arrived(in, requests);
    MPI_Waitsome(2 * MANY, requests, &now, indices, statuses);
    CHECK_EQUAL(now, MPI_UNDEFINED);
    MPI_Testsome(2 * MANY, requests, &now, indices, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(now, MPI_UNDEFINED);
}

static void all(int testing)
{
    int in[MANY], out[MANY], flag = 0;
    MPI_Request requests[2 * MANY];
    MPI_Status statuses[2 * MANY];
    post(requests, in, out);
    if (testing)
        while (!flag)
            MPI_Testall(2 * MANY, requests, &flag, statuses);
    else
        MPI_Waitall(2 * MANY, requests, statuses);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(statuses[2 * i].MPI_TAG, i);
        CHECK_EQUAL(statuses[2 * i].MPI_SOURCE, left);
    }
    arrived(in, requests);
}

static void status_without_completion(void)
{
    int in = -1, flag = 0;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Irecv(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&check_rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD, &requests[1]);
    while (!flag)
        MPI_Request_get_status(requests[0], &flag, &status);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    CHECK_EQUAL(status.MPI_SOURCE, left);
    MPI_Request_get_status(requests[0], &flag, &status);
    CHECK(flag);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(in, left);
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    MPI_Wait(&requests[0], &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE);
}

/* Tests that a completed request does not keep the others from progress. */
static void status_of_all(void)
{
    enum { COUNT = 100000 };
    int *out = check_memory(COUNT * sizeof(int)), *in = check_memory(COUNT * sizeof(int)), flag = 0;
    MPI_Request requests[3];
    MPI_Status statuses[3];
    out[COUNT - 1] = check_rank;
    MPI_Irecv(in, 0, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(in, COUNT, MPI_INT, left, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(out, COUNT, MPI_INT, right, 5, MPI_COMM_WORLD, &requests[2]);
    while (!flag)
        MPI_Request_get_status_all(3, requests, &flag, statuses);
    CHECK_EQUAL(statuses[0].MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQUAL(statuses[1].MPI_SOURCE, left);
    CHECK_EQUAL(in[COUNT - 1], left);
    CHECK(requests[1] != MPI_REQUEST_NULL);
    MPI_Waitall(3, requests, statuses);
    free(out);
    free(in);
}

static void persistent(void)
{
    int in[MANY], out[MANY], flag;
    MPI_Request requests[2 * MANY];
    MPI_Status status;
    for (int i = 0; i < MANY; i++) {
        MPI_Recv_init(&in[i], 1, MPI_INT, left, i, MPI_COMM_WORLD, &requests[2 * i]);
        MPI_Send_init(&out[i], 1, MPI_INT, right, i, MPI_COMM_WORLD, &requests[2 * i + 1]);
    }
    MPI_Wait(&requests[0], &status); /* inactive: at once, empty */
    CHECK_EQUAL(status.MPI_SOURCE, MPI_ANY_SOURCE);
    MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    CHECK(flag);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < MANY; i++) {
            in[i] = -1;
            out[i] = round * 1000 + i + check_rank;
        }
        MPI_Startall(2 * MANY, requests);
        MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++)
            CHECK_EQUAL(in[i], round * 1000 + i + left);
    }
    for (int i = 0; i < 2 * MANY; i++)
        MPI_Request_free(&requests[i]);
}

/* Tests that a freed send still delivers. */
static void freed(void)
{
    int in = -1;
    MPI_Request request;
    MPI_Isend(&check_rank, 1, MPI_INT, right, 8, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    CHECK(request == MPI_REQUEST_NULL);
    MPI_Recv(&in, 1, MPI_INT, left, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(in, left);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void exchanges(int count)
{
    int *out = check_memory((size_t)count * sizeof(int)), *in = check_memory((size_t)count * sizeof(int));
    MPI_Status status;
    MPI_Request request;
    for (int form = 0; form < 4; form++) {
        for (int i = 0; i < count; i++)
            out[i] = check_rank + i * form;
        int *result = form < 2 ? in : out;
        if (form == 0)
            MPI_Sendrecv(out, count, MPI_INT, right, 5, in, count, MPI_INT, left, 5, MPI_COMM_WORLD, &status);
        else if (form == 1)
            MPI_Isendrecv(out, count, MPI_INT, right, 5, in, count, MPI_INT, left, 5, MPI_COMM_WORLD, &request);
        else if (form == 2)
            MPI_Sendrecv_replace(out, count, MPI_INT, right, 5, left, 5, MPI_COMM_WORLD, &status);
        else
            MPI_Isendrecv_replace(out, count, MPI_INT, right, 5, left, 5, MPI_COMM_WORLD, &request);
        if (form % 2)
            MPI_Wait(&request, &status);
        CHECK_EQUAL(status.MPI_SOURCE, left);
        CHECK_EQUAL(status.MPI_TAG, 5);
        for (int i = 0; i < count; i++)
            if (result[i] != left + i * form) {
                check_say(__FILE__, __LINE__, "form %d count %d: item %d is %d", form, count, i, result[i]);
                break;
            }
    }
    free(out);
    free(in);
}

/* Lets both sides send first, with requests that must work at every size. */
static void both_first(void)
{
    enum { COUNT = 1 << 19 };
    int *out = check_memory(COUNT * sizeof(int)), *in = check_memory(COUNT * sizeof(int));
    MPI_Request request;
    for (int i = 0; i < COUNT; i++)
        out[i] = check_rank * 3 + i;
    MPI_Isend(out, COUNT, MPI_INT, right, 2, MPI_COMM_WORLD, &request);
    MPI_Recv(in, COUNT, MPI_INT, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(in[0], left * 3);
    CHECK_EQUAL(in[COUNT - 1], left * 3 + COUNT - 1);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    left = (check_rank + check_size - 1) % check_size;
    right = (check_rank + 1) % check_size;
    for (int testing = 0; testing < 2; testing++) {
        any(testing);
        some(testing);
        all(testing);
    }
    status_without_completion();
    status_of_all();
    persistent();
    freed();
    exchanges(1);
    exchanges(3000);
    exchanges(200000);
    both_first();
    return check_end();
}
