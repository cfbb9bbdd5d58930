/* A sender runs far ahead of its receiver: everything arrives, and the receiver's memory stays bounded.
 *
 * usage: p2p_flood MESSAGES BYTES LIMIT_MIB     (the receiver may grow by LIMIT_MIB; 0: not checked)
 */
#include "check.h"
#include <sys/resource.h>
#include <unistd.h>

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int messages = argc > 1 ? atoi(argv[1]) : 1000, bytes = argc > 2 ? atoi(argv[2]) : 1000, word;
    long limit = argc > 3 ? atol(argv[3]) : 0, before, grown;
    char *data = check_memory((size_t)bytes);
    memset(data, 1, (size_t)bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        /* Receivers look only for the last message's sign, so every message before it is unexpected. */
        before = peak_kib();
        sleep(1);
        MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &word, MPI_STATUS_IGNORE);
        sleep(1);
        for (int i = 0; i < messages; i++)
            for (int from = 1; from < check_size; from++) {
                MPI_Recv(data, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                memcpy(&word, data, sizeof word);
                CHECK_EQUAL(word, i + from);
            }
        grown = (peak_kib() - before) / 1024;
        if (limit && grown > limit)
            check_say(__FILE__, __LINE__, "memory grew by %ld MiB, more than %ld", grown, limit);
    } else {
        for (int i = 0; i < messages; i++) {
            word = i + check_rank;
            memcpy(data, &word, sizeof word);
            MPI_Send(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
    free(data);
    return check_end();
}
