/* Program for the measurements of checkpoints (checkpoint_figures.py). Arguments: the kind of work, a number,
 * and a file for which the program waits. */
#include "check.h"
#include <time.h>
#include <unistd.h>

static int rank, size;

static void fill(uint64_t *words, size_t count, uint64_t seed)
{
    uint64_t x = seed * 2862933555777941757u + 3037000493u;
    for (size_t i = 0; i < count; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = x;
    }
}

static void say(const char *text)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        puts(text);
        fflush(stdout);
    }
}

static void wait_for(const char *file)
{
    while (access(file, F_OK))
        usleep(1000);
}

/* Holds so many MB that no two ranks have alike, noise or a smooth field; changes a twentieth
 * of them when FILE.change is there. */
static void hold(int megabytes, const char *file, int is_field)
{
    char change[4096];
    size_t count = (size_t)megabytes * 1000000 / sizeof(uint64_t);
    uint64_t *words = malloc(count * sizeof *words);
    fill(words, count, (uint64_t)rank + 1);
    for (size_t i = 0; is_field && i < count; i++) {
        double t = (double)(i % 100000) * 1e-5, x = 300 + 20 * t * (1 - t);
        memcpy(&words[i], &x, sizeof x);
    }
    say("ready");
    snprintf(change, sizeof change, "%s.change", file);
    while (access(file, F_OK) && access(change, F_OK))
        usleep(1000);
    if (access(file, F_OK)) {
        fill(words, count / 20, (uint64_t)rank + 1000);
        say("changed");
        wait_for(file);
    }
    say("goes on");
    uint64_t sum = 0, all = 0;
    for (size_t i = 0; i < count; i++)
        sum += words[i];
    MPI_Reduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sum %llx\n", (unsigned long long)all);
}

/* Microseconds of a message of 8 bytes, and of an allreduce of 8 bytes: the least of ten parts. */
static void latency(int count)
{
    double best[2] = {1, 1};
    uint64_t mine = (uint64_t)rank, all = 0;
    for (int part = 0; part < 10; part++) {
        double times[2];
        for (int what = 0; what < 2; what++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begun = MPI_Wtime();
            for (int i = 0; i < count; i++) {
                if (what)
                    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
                else if (rank == 0) {
                    MPI_Send(&mine, 1, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD);
                    MPI_Recv(&all, 1, MPI_UINT64_T, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                } else if (rank == 1) {
                    MPI_Recv(&all, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    MPI_Send(&mine, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD);
                }
            }
            times[what] = (MPI_Wtime() - begun) / count / (what ? 1 : 2);
            best[what] = times[what] < best[what] ? times[what] : best[what];
        }
    }
    if (rank == 0)
        printf("latency %.4f allreduce %.4f\n", best[0] * 1e6, best[1] * 1e6);
}

/* Runs a number of steps of work on memory that stays, each ended by an allreduce. */
static void work(int steps)
{
    enum { WORDS = 1 << 21 };
    uint64_t *words = malloc(WORDS * sizeof *words), all = 0;
    fill(words, WORDS, (uint64_t)rank + 1);
    say("ready");
    double begun = MPI_Wtime();
    for (int step = 0; step < steps; step++) {
        uint64_t sum = 0;
        for (int i = 0; i < WORDS; i++)
            sum += words[i] = words[i] * 6364136223846793005u + (uint64_t)step;
        MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        all ^= sum;
    }
    if (rank == 0)
        printf("seconds %.4f %llx\n", MPI_Wtime() - begun, (unsigned long long)all);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *what = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 1;
    if (!strcmp(what, "hold") || !strcmp(what, "field"))
        hold(number, argc > 3 ? argv[3] : "/", !strcmp(what, "field"));
    else if (!strcmp(what, "latency"))
        latency(number);
    else if (!strcmp(what, "work"))
        work(number);
    MPI_Finalize();
    return check_failures != 0;
}
