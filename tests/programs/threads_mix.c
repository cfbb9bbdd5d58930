/* MPI_THREAD_MULTIPLE, the awkward cases. Threads park while another thread takes in the messages that they
 * wait for. A process sends messages to itself. Communicators are created at the same time. Several threads
 * probe for the same messages. */
#include <unistd.h>

enum { THREADS = 4 };

#include "crew.h"

static MPI_Comm comms[THREADS];

/* Each thread with its like on the neighbour, on its own communicator and its own tag of the world. */
static void *ping_pong(void *argument)
{
    int me = (int)(long)argument, partner = check_rank ^ 1, lengths[] = {1, 100, 5000, 200000}, got = 0;
    if (partner >= check_size)
        return NULL;
    for (int round = 0; round < 60; round++) {
        int length = lengths[(round + me) % 4], *data = check_memory(sizeof(int) * (size_t)length);
        MPI_Comm comm = round % 2 ? comms[me] : MPI_COMM_WORLD;
        for (int turn = 0; turn < 2; turn++)
            if (turn == check_rank % 2) {
                for (int i = 0; i < length; i++)
                    data[i] = check_rank + me * 10 + round * 100 + i;
                MPI_Send(data, length, MPI_INT, partner, me, comm);
            } else {
                MPI_Status status;
                MPI_Recv(data, length, MPI_INT, partner, me, comm, &status);
                MPI_Get_count(&status, MPI_INT, &got);
                failures[me] += got != length || data[length - 1] != partner + me * 10 + round * 100 + length - 1;
            }
        free(data);
    }
    return NULL;
}

/* Pairs of threads in a process: one receives what the other sends, sometimes long before it is sent. */
static void *to_oneself(void *argument)
{
    int me = (int)(long)argument, tag = 100 + me / 2, length = me / 2 ? 100000 : 3;
    int *data = check_memory(sizeof(int) * (size_t)length);
    for (int round = 0; round < 50; round++) {
        if (me % 2) {
            if (round % 10 == 0)
                usleep(3000);
            for (int i = 0; i < length; i++)
                data[i] = round + i;
            if (round % 3)
                MPI_Send(data, length, MPI_INT, check_rank, tag, MPI_COMM_WORLD);
            else
                MPI_Ssend(data, length, MPI_INT, check_rank, tag, MPI_COMM_WORLD);
        } else {
            if (round % 10 == 5)
                usleep(3000);
            data[length - 1] = -1;
            MPI_Recv(data, length, MPI_INT, check_rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            failures[me] += data[length - 1] != round + length - 1;
        }
    }
    free(data);
    return NULL;
}

/* Receives in all threads but thread 0. Thread 0 of the left neighbour sends to them in turn, each time after
 * a pause in which all of them park. */
static void *parked(void *argument)
{
    int me = (int)(long)argument, right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < 40; round++) {
        int token = -1;
        if (me == 0) {
            usleep(2000);
            for (int other = 1; other < THREADS; other++) {
                token = round * 10 + other;
                MPI_Send(&token, 1, MPI_INT, right, 200 + round * THREADS + other, comms[0]);
            }
        } else {
            int tag = 200 + round * THREADS + me;
            if (round % 2) {
                MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
                int which = 0;
                MPI_Irecv(&token, 1, MPI_INT, left, tag, comms[0], &requests[1]);
                MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
                failures[me] += which != 1;
            } else {
                MPI_Recv(&token, 1, MPI_INT, left, tag, comms[0], MPI_STATUS_IGNORE);
            }
            failures[me] += token != round * 10 + me;
        }
    }
    return NULL;
}

static void *duplicates(void *argument)
{
    int me = (int)(long)argument;
    for (int round = 0; round < 15; round++) {
        MPI_Comm dup, part, idup;
        MPI_Request request;
        int size, result, total = 0;
        MPI_Comm_dup(comms[me], &dup);
        MPI_Comm_idup(dup, &idup, &request);
        MPI_Comm_split(dup, check_rank % 2, 0, &part);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_size(part, &size);
        MPI_Comm_compare(dup, idup, &result);
        failures[me] += result != MPI_CONGRUENT || size != (check_size + 1 - check_rank % 2) / 2;
        MPI_Allreduce(&size, &total, 1, MPI_INT, MPI_SUM, part);
        failures[me] += total != size * size;
        MPI_Allreduce(&round, &total, 1, MPI_INT, MPI_SUM, idup);
        failures[me] += total != round * check_size;
        MPI_Comm_free(&dup);
        MPI_Comm_free(&idup);
        MPI_Comm_free(&part);
    }
    return NULL;
}

static void *collectives(void *argument)
{
    int me = (int)(long)argument, lengths[] = {1, 50, 3000, 100000};
    for (int round = 0; round < 30; round++) {
        int length = lengths[(round * 3 + me) % 4], root = (round + me) % check_size;
        size_t bytes = sizeof(int) * (size_t)length;
        int *one = check_memory(bytes), *two = check_memory(bytes), *all = check_memory(bytes * (size_t)check_size);
        MPI_Request requests[2];
        for (int i = 0; i < length; i++)
            one[i] = check_rank == root ? round + i : -1, two[i] = check_rank + i;
        MPI_Ibcast(one, length, MPI_INT, root, comms[me], &requests[0]);
        MPI_Iallgather(two, length, MPI_INT, all, length, MPI_INT, comms[me], &requests[1]);
        MPI_Barrier(comms[me]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        failures[me] += one[length - 1] != round + length - 1;
        failures[me] += all[(size_t)length * (size_t)check_size - 1] != check_size - 1 + length - 1;
        MPI_Allreduce(two, one, length, MPI_INT, MPI_SUM, comms[me]);
        failures[me] += one[0] != check_size * (check_size - 1) / 2;
        free(one), free(two), free(all);
    }
    return NULL;
}

/* Tests that all threads receive messages of any source by matched probes. Each message is received once. */
static void *probes(void *argument)
{
    int me = (int)(long)argument, rounds = 50;
    MPI_Request *requests = check_memory(sizeof(MPI_Request) * (size_t)rounds);
    int *out = check_memory(sizeof(int) * (size_t)rounds);
    for (int round = 0; round < rounds; round++) {
        out[round] = check_rank * 1000 + round;
        MPI_Isend(&out[round], 1, MPI_INT, (check_rank + round) % check_size, 300, comms[1], &requests[round]);
    }
    for (int round = 0; round < rounds; round++) {
        MPI_Message message;
        MPI_Status status;
        int got = -1;
        MPI_Mprobe(MPI_ANY_SOURCE, 300, comms[1], &message, &status);
        MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        failures[me] += got / 1000 != status.MPI_SOURCE;
    }
    MPI_Waitall(rounds, requests, MPI_STATUSES_IGNORE);
    free(requests), free(out);
    return NULL;
}

/* Waits for a request that another thread completes, while others only test. */
static void *testers(void *argument)
{
    int me = (int)(long)argument, right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < 100; round++) {
        int out = round * 4 + me, in = -1, flag = 0;
        MPI_Request requests[2];
        MPI_Irecv(&in, 1, MPI_INT, left, 400 + me, comms[2], &requests[0]);
        MPI_Isend(&out, 1, MPI_INT, right, 400 + me, comms[2], &requests[1]);
        if (me == 0)
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        while (me != 0 && !flag)
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
        failures[me] += in != out;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rounds = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int round = 0; round < rounds; round++) {
        in_threads(ping_pong, "ping-pong");
        in_threads(to_oneself, "to oneself");
        in_threads(parked, "parked");
        in_threads(duplicates, "duplicates");
        in_threads(collectives, "collectives");
        in_threads(probes, "probes");
        in_threads(testers, "testers");
    }
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return check_end();
}
