/* Measures how much of a non-blocking operation is hidden behind computation that calls no MPI at all.
 *
 * usage: progress_ror OPERATION BYTES SECONDS      OPERATION: bcast, alltoall, allreduce, allgather
 *
 * Each round has three parts: the operation alone, the computation alone, and both together (start the
 * operation, compute, wait). The computation takes as long as the operation, as far as that can be set.
 * Prints T_comm T_comp T_exec ROR T_cpu. The times are medians, in microseconds, of the slowest rank's time.
 * ROR is the hidden share of the time that can be hidden, over all rounds. T_cpu is the processor time of all
 * ranks that the operation adds to the computation. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_ROUNDS = 1000, LEAST_ROUNDS = 7, TRIALS = 7 };

static volatile double sink;

static void work(long multiplications)
{
    double x = 1.0000001, y = 1;
    for (long i = 0; i < multiplications; i++)
        y = y * x + 1e-9;
    sink = y;
}

/* Returns the processor time of this rank in seconds, of all its threads. */
static double processor_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

struct operation {
    const char *name;
    int bytes;
    char *out, *in;
};

static void start(const struct operation *op, MPI_Request *request)
{
    if (!strcmp(op->name, "bcast"))
        MPI_Ibcast(op->out, op->bytes, MPI_BYTE, 0, MPI_COMM_WORLD, request);
    else if (!strcmp(op->name, "alltoall"))
        MPI_Ialltoall(op->out, op->bytes, MPI_BYTE, op->in, op->bytes, MPI_BYTE, MPI_COMM_WORLD, request);
    else if (!strcmp(op->name, "allgather"))
        MPI_Iallgather(op->out, op->bytes, MPI_BYTE, op->in, op->bytes, MPI_BYTE, MPI_COMM_WORLD, request);
    else
        MPI_Iallreduce(op->out, op->in, op->bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, request);
}

/* Returns the seconds of the slowest rank: of the operation, the computation, or both. */
static double seconds(const struct operation *op, long multiplications)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Barrier(MPI_COMM_WORLD);
    double own = -MPI_Wtime(), most;
    if (op)
        start(op, &request);
    work(multiplications);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    own += MPI_Wtime();
    MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double median(double *values, int number)
{
    qsort(values, number, sizeof(double), by_size);
    return number % 2 ? values[number / 2] : (values[number / 2 - 1] + values[number / 2]) / 2;
}

/* Multiplications that take as long as the operation. */
static long as_long_as(const struct operation *op)
{
    double times[TRIALS];
    long multiplications = 100000;
    for (int trial = 0; trial < TRIALS; trial++)
        times[trial] = seconds(op, 0);
    double wanted = median(times, TRIALS);
    for (int step = 0; step < 4; step++) {
        for (int trial = 0; trial < TRIALS; trial++)
            times[trial] = seconds(NULL, multiplications);
        multiplications = 1 + (long)(multiplications * wanted / median(times, TRIALS));
    }
    return multiplications;
}

int main(int argc, char **argv)
{
    int provided, size, rank, rounds = 0, more = 1;
    double added = 0, all_added;
    static double alone[MOST_ROUNDS], computing[MOST_ROUNDS], both[MOST_ROUNDS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 4) {
        fprintf(stderr, "usage: progress_ror OPERATION BYTES SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    struct operation op = {argv[1], atoi(argv[2]), NULL, NULL};
    op.out = calloc(size, op.bytes);
    op.in = calloc(size, op.bytes);
    long multiplications = as_long_as(&op);
    MPI_Bcast(&multiplications, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    double end = MPI_Wtime() + atof(argv[3]);
    while (more) {
        alone[rounds] = seconds(&op, 0);
        double before = processor_seconds();
        computing[rounds] = seconds(NULL, multiplications);
        double between = processor_seconds();
        both[rounds] = seconds(&op, multiplications);
        added += processor_seconds() - between - (between - before);
        rounds++;
        more = rounds < LEAST_ROUNDS || (rounds < MOST_ROUNDS && MPI_Wtime() < end);
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Reduce(&added, &all_added, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    double comm = median(alone, rounds), comp = median(computing, rounds), exec = median(both, rounds);
    if (rank == 0)
        printf("%.1f %.1f %.1f %.3f %.1f\n", comm * 1e6, comp * 1e6, exec * 1e6,
               (comm + comp - exec) / (comm < comp ? comm : comp), all_added * 1e6 / rounds);
    free(op.out);
    free(op.in);
    return MPI_Finalize();
}
