/* Many non-blocking and persistent collectives at once, on several communicators, waited for in any order. */
#include "check.h"

enum { MANY = 60, COUNT = 800 };

static int out[MANY][COUNT], in[MANY][COUNT * 32];

static void start(int i, MPI_Comm comm, MPI_Request *request)
{
    int root = i % check_size;
    for (int j = 0; j < COUNT; j++)
        out[i][j] = check_rank + i + j;
    memset(in[i], 0, sizeof in[i]);
    switch (i % 6) {
    case 0: MPI_Ibcast(out[i], COUNT, MPI_INT, root, comm, request); break;
    case 1: MPI_Iallreduce(out[i], in[i], COUNT, MPI_INT, MPI_SUM, comm, request); break;
    case 2: MPI_Iallgather(out[i], COUNT, MPI_INT, in[i], COUNT, MPI_INT, comm, request); break;
    case 3: MPI_Ireduce(out[i], in[i], COUNT, MPI_INT, MPI_MAX, root, comm, request); break;
    case 4: MPI_Iscan(out[i], in[i], COUNT, MPI_INT, MPI_SUM, comm, request); break;
    default: MPI_Ibarrier(comm, request); break;
    }
}

static void verify(int i)
{
    int root = i % check_size, n = check_size, r = check_rank;
    for (int j = 0; j < COUNT; j += 37) {
        int base = i + j;
        switch (i % 6) {
        case 0: CHECK_EQUAL(out[i][j], root + base); break;
        case 1: CHECK_EQUAL(in[i][j], n * base + n * (n - 1) / 2); break;
        case 2:
            for (int from = 0; from < n; from++)
                CHECK_EQUAL(in[i][from * COUNT + j], from + base);
            break;
        case 3:
            if (r == root)
                CHECK_EQUAL(in[i][j], n - 1 + base);
            break;
        case 4: CHECK_EQUAL(in[i][j], (r + 1) * base + r * (r + 1) / 2); break;
        default: break;
        }
    }
}

static void outstanding(MPI_Comm *comms)
{
    MPI_Request requests[MANY];
    for (int i = 0; i < MANY; i++)
        start(i, comms[i % 3], &requests[i]);
    /* Each rank waits in another order. */
    for (int i = 0; i < MANY; i++) {
        int at = (i * 7 + check_rank * 13) % MANY;
        MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
        verify(at);
    }
    for (int i = 0; i < MANY; i++)
        start(i, comms[0], &requests[i]);
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        verify(i);
}

/* Tests that blocking collectives and messages proceed while non-blocking collectives are outstanding. */
static void mixed(MPI_Comm comm)
{
    MPI_Request requests[3];
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, got, total, flag = 0;
    start(1, comm, &requests[0]);
    MPI_Allreduce(&check_rank, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, check_size * (check_size - 1) / 2);
    start(2, comm, &requests[1]);
    MPI_Sendrecv(&check_rank, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, left);
    start(5, comm, &requests[2]);
    while (!flag)
        MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE);
    verify(1);
    verify(2);
}

/* Tests that a rank that enters late does not delay the others longer than the data require. */
static void ibarrier_waits(MPI_Comm comm)
{
    MPI_Request request;
    int flag = 1, token = 0;
    if (check_size < 2)
        return;
    if (check_rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, 1, 77, comm, MPI_STATUS_IGNORE);
        MPI_Ibarrier(comm, &request);
    } else {
        MPI_Ibarrier(comm, &request);
        for (int i = 0; i < 50; i++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            if (check_rank == 1)
                CHECK(!flag);
        }
        if (check_rank == 1)
            MPI_Send(&token, 1, MPI_INT, 0, 77, comm);
    }
    if (request != MPI_REQUEST_NULL)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void persistent(MPI_Comm *comms)
{
    enum { PLANS = 4 };
    MPI_Request plans[PLANS];
    MPI_Bcast_init(out[0], COUNT, MPI_INT, check_size - 1, comms[0], MPI_INFO_NULL, &plans[0]);
    MPI_Allreduce_init(out[1], in[1], COUNT, MPI_INT, MPI_SUM, comms[0], MPI_INFO_NULL, &plans[1]);
    MPI_Allgather_init(out[2], COUNT, MPI_INT, in[2], COUNT, MPI_INT, comms[1], MPI_INFO_NULL, &plans[2]);
    MPI_Barrier_init(comms[2], MPI_INFO_NULL, &plans[3]);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < COUNT; j++)
                out[i][j] = check_rank + round + j;
        MPI_Startall(PLANS, plans);
        MPI_Waitall(PLANS, plans, MPI_STATUSES_IGNORE);
        int n = check_size, j = (round * 41) % COUNT;
        CHECK_EQUAL(out[0][j], n - 1 + round + j);
        CHECK_EQUAL(in[1][j], n * (round + j) + n * (n - 1) / 2);
        CHECK_EQUAL(in[2][(n - 1) * COUNT + j], n - 1 + round + j);
    }
    for (int i = 0; i < PLANS; i++)
        MPI_Request_free(&plans[i]);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[3];
    check_begin(&argc, &argv);
    for (int i = 0; i < 3; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int round = 0; round < 5; round++)
        outstanding(comms);
    mixed(comms[0]);
    ibarrier_waits(comms[1]);
    persistent(comms);
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&comms[i]);
    return check_end();
}
