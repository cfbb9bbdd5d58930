/* MPI_THREAD_MULTIPLE with a communicator for each of eight threads: they communicate beside each other, and
 * whatever crosses from one communicator to another (waits for requests of several, collectives under way,
 * buffered sends) works too. */

enum { THREADS = 8, ROUNDS = 40 };

#include "crew.h"

static MPI_Comm comms[THREADS];

static int left(void) { return (check_rank + check_size - 1) % check_size; }
static int right(void) { return (check_rank + 1) % check_size; }

/* Windows of messages of many sizes around the ring of ranks, also to oneself with one rank. */
static void *windows(void *argument)
{
    enum { WINDOW = 16, LONGEST = 50000 };
    int me = (int)(long)argument, lengths[] = {1, 10, 1000, LONGEST};
    int *in = check_memory(sizeof(int) * WINDOW * LONGEST), *out = check_memory(sizeof(int) * LONGEST);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[2 * WINDOW];
        int length = lengths[round % 4];
        for (int i = 0; i < length; i++)
            out[i] = check_rank * 1000 + me * 100 + round + i;
        for (int i = 0; i < WINDOW; i++)
            MPI_Irecv(in + i * LONGEST, length, MPI_INT, round % 3 ? left() : MPI_ANY_SOURCE, i, comms[me], &requests[i]);
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(out, length, MPI_INT, right(), i, comms[me], &requests[WINDOW + i]);
        MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; i++)
            failures[me] += in[i * LONGEST + length - 1] != left() * 1000 + me * 100 + round + length - 1;
    }
    free(in);
    free(out);
    return NULL;
}

/* Each thread has requests on its own and on the next communicator, and waits for them together or one by
 * one. */
static void *crossing(void *argument)
{
    int me = (int)(long)argument;
    MPI_Comm both[2] = {comms[me], comms[(me + 1) % THREADS]};
    for (int round = 0; round < ROUNDS; round++) {
        int in[4] = {-1, -1, -1, -1}, out[4], done = 0;
        MPI_Request requests[8];
        for (int i = 0; i < 4; i++) {
            out[i] = check_rank * 100 + me * 10 + i;
            MPI_Irecv(&in[i], 1, MPI_INT, left(), 100 * me + i, both[i % 2], &requests[i]);
        }
        for (int i = 0; i < 4; i++)
            if (i < 2)
                MPI_Issend(&out[i], 1, MPI_INT, right(), 100 * me + i, both[i % 2], &requests[4 + i]);
            else
                MPI_Isend(&out[i], 1, MPI_INT, right(), 100 * me + i, both[i % 2], &requests[4 + i]);
        switch (round % 4) {
        case 0:
            MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
            break;
        case 1:
            for (int i = 0; i < 8; i++) {
                int which;
                MPI_Waitany(8, requests, &which, MPI_STATUS_IGNORE);
                failures[me] += which < 0 || which > 7;
            }
            break;
        case 2:
            while (done < 8) {
                int some, indices[8];
                MPI_Waitsome(8, requests, &some, indices, MPI_STATUSES_IGNORE);
                done += some;
            }
            break;
        default:
            for (int i = 0; i < 8; i++)
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < 4; i++)
            failures[me] += in[i] != left() * 100 + me * 10 + i;
    }
    return NULL;
}

/* A collective that this thread has started goes on while it waits for a message on another communicator,
 * which the neighbour sends only when the collective is over there. */
static void *collective_under_way(void *argument)
{
    int me = (int)(long)argument;
    MPI_Comm other = comms[(me + 1) % THREADS];
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request barrier, sum_request;
        int token = -1, one = 1, sum = 0, sent = round;
        MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[me], &sum_request);
        MPI_Ibarrier(comms[me], &barrier);
        if (check_rank % 2) {
            MPI_Wait(&barrier, MPI_STATUS_IGNORE);
            MPI_Send(&sent, 1, MPI_INT, check_rank - 1, 1000 + me, other);
        } else {
            if (check_rank + 1 < check_size)
                MPI_Recv(&token, 1, MPI_INT, check_rank + 1, 1000 + me, other, MPI_STATUS_IGNORE);
            failures[me] += check_rank + 1 < check_size && token != round;
            MPI_Wait(&barrier, MPI_STATUS_IGNORE);
        }
        MPI_Wait(&sum_request, MPI_STATUS_IGNORE);
        failures[me] += sum != check_size;
    }
    return NULL;
}

/* Everything else that names a message: probes, matched ones, persistent and buffered sends, both ways at
 * once, cancelling. */
static void *the_rest(void *argument)
{
    int me = (int)(long)argument;
    MPI_Comm comm = comms[me];
    int in[2] = {-1, -1}, out[2] = {check_rank, me}, flag = 0;
    MPI_Request pair[2], request;
    MPI_Status status;
    MPI_Message message;
    MPI_Send_init(out, 2, MPI_INT, right(), 1, comm, &pair[0]);
    MPI_Recv_init(in, 2, MPI_INT, left(), 1, comm, &pair[1]);
    for (int round = 0; round < ROUNDS; round++) {
        in[0] = in[1] = -1;
        MPI_Startall(2, pair);
        MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);
        failures[me] += in[0] != left() || in[1] != me;

        MPI_Bsend(out, 2, MPI_INT, right(), 2, comm);
        MPI_Probe(MPI_ANY_SOURCE, 2, comm, &status);
        failures[me] += status.MPI_SOURCE != left();
        MPI_Recv(in, 2, MPI_INT, status.MPI_SOURCE, 2, comm, MPI_STATUS_IGNORE);

        MPI_Isend(out, 2, MPI_INT, right(), 3, comm, &request);
        if (round % 2)
            MPI_Mprobe(left(), MPI_ANY_TAG, comm, &message, &status);
        else
            for (flag = 0; !flag;)
                MPI_Improbe(left(), MPI_ANY_TAG, comm, &flag, &message, &status);
        in[0] = in[1] = -1;
        MPI_Mrecv(in, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
        failures[me] += in[0] != left() || in[1] != me || status.MPI_TAG != 3;
        MPI_Wait(&request, MPI_STATUS_IGNORE);

        MPI_Isendrecv(out, 2, MPI_INT, right(), 4, in, 2, MPI_INT, left(), 4, comm, &request);
        MPI_Wait(&request, &status);
        failures[me] += status.MPI_SOURCE != left();
        MPI_Sendrecv(out, 2, MPI_INT, right(), 5, in, 2, MPI_INT, left(), 5, comm, &status);
        failures[me] += in[0] != left();

        MPI_Irecv(in, 2, MPI_INT, left(), 6, comm, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &flag);
        failures[me] += !flag;
    }
    MPI_Request_free(&pair[0]);
    MPI_Request_free(&pair[1]);
    return NULL;
}

/* A truncated message is an error of its communicator; communicators come and go meanwhile. */
static void *errors(void *argument)
{
    int me = (int)(long)argument;
    for (int round = 0; round < 10; round++) {
        MPI_Comm comm;
        int out[4] = {1, 2, 3, 4}, in[2], class;
        MPI_Request request;
        MPI_Comm_dup(comms[me], &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        MPI_Isend(out, 4, MPI_INT, right(), 0, comm, &request);
        MPI_Error_class(MPI_Recv(in, 2, MPI_INT, left(), 0, comm, MPI_STATUS_IGNORE), &class);
        failures[me] += class != MPI_ERR_TRUNCATE;
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Error_class(MPI_Send(out, 1, MPI_INT, check_size, 0, comm), &class);
        failures[me] += class != MPI_ERR_RANK;
        MPI_Comm_free(&comm);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(level == MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    in_threads(windows, "windows");
    in_threads(crossing, "crossing");
    in_threads(collective_under_way, "a collective under way");
    in_threads(the_rest, "the rest");
    in_threads(errors, "errors");
    void *buffer;
    int bytes;
    MPI_Buffer_detach(&buffer, &bytes);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return check_end();
}
