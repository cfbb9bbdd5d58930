/* Senders run far ahead of their receiver: everything arrives, and the receiver's memory stays bounded.
 *
 * usage: p2p_flood MESSAGES BYTES LIMIT_MIB [isend]     (the receiver may grow by LIMIT_MIB; 0: not checked)
 *
 * With isend all messages of a sender are started at once, and the receiver takes the last one first, then
 * those with odd numbers, then the others: by probes, matched probes and receives in turn, from one sender or
 * any. A barrier and a reduction have to get through meanwhile.
 */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

enum { EVEN = 1, ODD, LAST };

static int messages, bytes;
static char *data;

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void check_word(int expected)
{
    int word;
    if (bytes < (int)sizeof word) return;
    memcpy(&word, data, sizeof word);
    CHECK_EQUAL(word, expected);
}

static void put_word(char *place, int word)
{
    if (bytes >= (int)sizeof word) memcpy(place, &word, sizeof word);
}

static void pause_ms(int ms) { usleep((useconds_t)ms * 1000); }

/* Receivers look only for a message that never comes, so every message before is unexpected. */
static void let_them_come(void)
{
    for (int look = 0, flag; look < 20; look++) {
        pause_ms(20);
        MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag);
    }
}

static void receive_in_order(void)
{
    let_them_come();
    for (int i = 0; i < messages; i++)
        for (int from = 1; from < check_size; from++) {
            MPI_Recv(data, bytes, MPI_BYTE, from, EVEN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_word(i + from);
        }
}

static void send_in_order(void)
{
    for (int i = 0; i < messages; i++) {
        put_word(data, i + check_rank);
        MPI_Send(data, bytes, MPI_BYTE, 0, EVEN, MPI_COMM_WORLD);
    }
}

static int receive_by(int way, int from, int tag)
{
    MPI_Status status;
    MPI_Message message;
    int flag = 0;
    switch (way % 4) {
    case 0: MPI_Recv(data, bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status); break;
    case 1:
        MPI_Probe(from, tag, MPI_COMM_WORLD, &status);
        MPI_Recv(data, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
        break;
    case 2:
        while (!flag) MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, &status);
        MPI_Recv(data, bytes, MPI_BYTE, status.MPI_SOURCE, tag, MPI_COMM_WORLD, &status);
        break;
    default:
        while (!flag) MPI_Improbe(from, tag, MPI_COMM_WORLD, &flag, &message, &status);
        MPI_Mrecv(data, bytes, MPI_BYTE, &message, &status);
    }
    CHECK_EQUAL(status.MPI_TAG, tag);
    return status.MPI_SOURCE;
}

static void receive_out_of_order(void)
{
    int *next = calloc((size_t)check_size, sizeof *next), sum;
    let_them_come();
    for (int from = 1; from < check_size; from++) {
        receive_by(from, from, LAST);
        check_word(messages - 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int odd = 1; odd >= 0; odd--) {
        for (int i = 0; i < check_size; i++) next[i] = odd;
        for (int left = (check_size - 1) * ((messages - 1 + !odd) / 2); left > 0; left--) {
            int from = left % 3 ? 1 + left % (check_size - 1) : MPI_ANY_SOURCE;
            if (from > 0 && next[from] >= messages - 1) from = MPI_ANY_SOURCE;
            from = receive_by(left, from, odd ? ODD : EVEN);
            check_word(next[from]);
            next[from] += 2;
        }
        MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQUAL(sum, check_size * (check_size - 1) / 2);
    }
    free(next);
}

static void send_all_at_once(void)
{
    MPI_Request *requests = check_memory((size_t)messages * sizeof *requests);
    char *all = check_memory((size_t)messages * (size_t)bytes);
    int sum;
    for (int i = 0; i < messages; i++) {
        char *place = all + (size_t)i * (size_t)bytes;
        put_word(place, i);
        int tag = i == messages - 1 ? LAST : i % 2 ? ODD : EVEN;
        MPI_Isend(place, bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Waitall(messages, requests, MPI_STATUSES_IGNORE);
    free(all);
    free(requests);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    messages = argc > 1 ? atoi(argv[1]) : 1000;
    bytes = argc > 2 ? atoi(argv[2]) : 1000;
    long limit = argc > 3 ? atol(argv[3]) : 0;
    int at_once = argc > 4;
    data = check_memory((size_t)bytes + 1);
    memset(data, 1, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        long before = peak_kib();
        (at_once ? receive_out_of_order : receive_in_order)();
        long grown = (peak_kib() - before) / 1024;
        if (limit && grown > limit)
            check_say(__FILE__, __LINE__, "memory grew by %ld MiB, more than %ld", grown, limit);
    } else {
        (at_once ? send_all_at_once : send_in_order)();
    }
    free(data);
    return check_end();
}
