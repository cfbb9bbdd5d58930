/* Measures the cost of collectives between hosts. Rank 0 prints a line. Times are in microseconds: the median
 * over the rounds of the slowest rank's time, unless stated otherwise.
 *
 * usage: net_figures bcast|fixed BYTES ROUNDS | goodput BYTES | barrier ROUNDS | allgather BYTES ROUNDS
 *        | skew BYTES MOST_US ROUNDS | longest ROUNDS MOST_US | once BYTES | chain ROUNDS AWAY */
#include "check.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define rank check_rank
#define size check_size

static double processor_us(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Measures a loop of broadcasts. With `turns` every rank is the root in its turn. */
static void bcast(size_t bytes, int rounds, int turns)
{
    unsigned char *memory = check_memory(bytes);
    double spent = processor_us(), all_us, least_us = 1e30, mean[2];
    memset(memory, 0, bytes);
    for (int half = 0; half < 4; half++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double since = MPI_Wtime();
        for (int round = 0; round < rounds; round++) {
            int root = turns ? round % size : 0;
            size_t place = ((size_t)round * 4099) % bytes;
            if (rank == root)
                memory[place] = (unsigned char)(round + half), memory[bytes - 1] = (unsigned char)round;
            MPI_Bcast(memory, (int)bytes, MPI_BYTE, root, MPI_COMM_WORLD);
            if (place != bytes - 1)
                CHECK_EQUAL(memory[place], (unsigned char)(round + half));
            CHECK_EQUAL(memory[bytes - 1], (unsigned char)round);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        double us = (MPI_Wtime() - since) * 1e6 / rounds;
        MPI_Allreduce(&us, &all_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        /* The first part does not count: the library uses it to select its path. */
        if (half > 0 && all_us < least_us)
            least_us = all_us;
    }
    spent = (processor_us() - spent) / (4 * rounds);
    MPI_Reduce(&spent, mean, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %zu us %.1f processor %.1f goodput %.1f\n", turns ? "turns" : "fixed", bytes, least_us,
               mean[0] / size, (double)bytes * 8 / least_us);
    free(memory);
}

/* Measures one broadcast after some small ones: the processor time of the root. */
static void once(size_t bytes)
{
    unsigned char *memory = check_memory(bytes), word[8] = {0};
    memset(memory, rank == 0 ? 7 : 1, bytes);
    for (int round = 0; round < 8; round++)
        MPI_Bcast(word, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    double since = MPI_Wtime(), spent = processor_us();
    MPI_Bcast(memory, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    spent = processor_us() - spent;
    for (size_t i = 0; i < bytes; i += 997)
        CHECK_EQUAL(memory[i], 7);
    if (rank == 0)
        printf("once %zu us %.1f processor %.1f\n", bytes, (MPI_Wtime() - since) * 1e6, spent);
    free(memory);
}

static void barrier(int rounds)
{
    double us, all_us, best[2] = {1e30, 1e30}, spent, sum;
    for (int part = 0; part < 5; part++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double since = MPI_Wtime(), begun = processor_us();
        for (int round = 0; round < rounds; round++)
            MPI_Barrier(MPI_COMM_WORLD);
        us = (MPI_Wtime() - since) * 1e6 / rounds, spent = (processor_us() - begun) / rounds;
        MPI_Allreduce(&us, &all_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (part > 0 && all_us < best[0])
            best[0] = all_us, best[1] = sum / size;
    }
    if (rank == 0)
        printf("barrier 0 us %.1f processor %.1f\n", best[0], best[1]);
}

static void allgather(size_t bytes, int rounds)
{
    unsigned char *mine = check_memory(bytes), *all = check_memory(bytes * (size_t)size);
    double us, all_us, best[2] = {1e30, 1e30}, spent, sum;
    memset(all, 0, bytes * (size_t)size);
    for (int part = 0; part < 4; part++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double since = MPI_Wtime(), begun = processor_us();
        for (int round = 0; round < rounds; round++) {
            memset(mine, rank + round, bytes);
            MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
            for (int from = 0; from < size; from++)
                CHECK_EQUAL(all[bytes * (size_t)from + bytes - 1], (unsigned char)(from + round));
        }
        us = (MPI_Wtime() - since) * 1e6 / rounds, spent = (processor_us() - begun) / rounds;
        MPI_Allreduce(&us, &all_us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        MPI_Allreduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (part > 0 && all_us < best[0])
            best[0] = all_us, best[1] = sum / size;
    }
    if (rank == 0)
        printf("allgather %zu us %.1f processor %.1f\n", bytes, best[0], best[1]);
    free(mine), free(all);
}

static uint64_t draw_of(uint64_t seed)
{
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    return seed ^ seed >> 31;
}

static void sleep_until(double when)
{
    double left = when - MPI_Wtime();
    if (left > 0) {
        struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&pause, NULL);
    }
}

/* Measures a broadcast to which all ranks but the root come at random times. They sleep before, so that
 * processors are free. Prints the time in the broadcast and its processor time. */
static void skew(size_t bytes, unsigned most_us, int rounds)
{
    unsigned char *memory = check_memory(bytes);
    double *each = malloc(sizeof *each * (size_t)rounds), sum = 0, all, spent = 0, all_spent;
    for (int round = 0; round < rounds + 20; round++) {
        memset(memory, rank == 0 ? round : round + 1, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        uint64_t drawn = draw_of((uint64_t)round * 64 + (uint64_t)rank);
        unsigned late = most_us && rank ? (unsigned)(drawn % (most_us + 1)) : 0;
        sleep_until(MPI_Wtime() + late * 1e-6);
        double since = MPI_Wtime(), begun = processor_us();
        MPI_Bcast(memory, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (round >= 20)
            each[round - 20] = (MPI_Wtime() - since) * 1e6, spent += processor_us() - begun;
        CHECK_EQUAL(memory[bytes - 1], (unsigned char)round);
    }
    for (int round = 0; round < rounds; round++)
        sum += each[round];
    sum = rank == 0 ? 0 : sum / rounds, spent = rank == 0 ? 0 : spent / rounds;
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&spent, &all_spent, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("skew %zu us %.1f processor %.1f\n", bytes, all / (size - 1), all_spent / (size - 1));
    free(memory), free(each);
}

/* Barriers of ranks that come at random times; the longest that anyone was in one. */
static void longest(int rounds, unsigned most_us)
{
    double most = 0, all, since = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        if (most_us && round % 64 == 0)
            usleep((unsigned)(draw_of((uint64_t)round * 64 + (uint64_t)rank) % (most_us + 1)));
        double begun = MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        double us = (MPI_Wtime() - begun) * 1e6;
        most = us > most ? us : most;
    }
    double each = (MPI_Wtime() - since) * 1e6 / rounds;
    MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0)
        printf("longest %d us %.1f mean %.1f\n", rounds, all, each);
}

/* Broadcasts from the first rank to the last and from that to the first, where these two alone are waited
 * for: with broadcasts along a chain as many hops as there are ranks. `away`: the others sleep meanwhile,
 * which only the kernel does without. */
static void chain(int rounds, int away)
{
    enum { TOGETHER = 5 };
    char word[8] = {0};
    double *each = malloc(sizeof *each * (size_t)rounds), spent = 0, sum;
    for (int round = 0; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        int inner = rank > 0 && rank < size - 1;
        double begun = processor_us(), since;
        if (inner && away)
            usleep(4000);
        else if (!inner && away)
            usleep(2000);
        since = MPI_Wtime();
        for (int i = 0; i < TOGETHER; i++) {
            if (rank == 0)
                word[0] = (char)i;
            MPI_Bcast(word, 8, MPI_BYTE, 0, MPI_COMM_WORLD);
            CHECK_EQUAL(word[0], (char)i);
            MPI_Bcast(word, 8, MPI_BYTE, size - 1, MPI_COMM_WORLD);
        }
        each[round] = (MPI_Wtime() - since) * 1e6 / TOGETHER;
        spent += processor_us() - begun;
    }
    for (int i = 1; i < rounds; i++)
        for (int j = i; j > 0 && each[j] < each[j - 1]; j--) {
            double other = each[j];
            each[j] = each[j - 1], each[j - 1] = other;
        }
    spent /= rounds * TOGETHER;
    MPI_Reduce(&spent, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("chain %d us %.1f processor %.1f least %.1f\n", size, each[rounds / 2], sum / size, each[0]);
    free(each);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    long first = argc > 2 ? atol(argv[2]) : 1, second = argc > 3 ? atol(argv[3]) : 1;
    if (!strcmp(what, "bcast") || !strcmp(what, "fixed"))
        bcast((size_t)first, (int)second, !strcmp(what, "bcast"));
    else if (!strcmp(what, "once"))
        once((size_t)first);
    else if (!strcmp(what, "barrier"))
        barrier((int)first);
    else if (!strcmp(what, "allgather"))
        allgather((size_t)first, (int)second);
    else if (!strcmp(what, "skew"))
        skew((size_t)first, (unsigned)second, argc > 4 ? atoi(argv[4]) : 200);
    else if (!strcmp(what, "chain"))
        chain((int)first, (int)second);
    else if (!strcmp(what, "longest"))
        longest((int)first, (unsigned)second);
    else
        CHECK(!"a known word");
    return check_end();
}
