/* Measures what tuning at run time costs and gains, in one program. Rounds alternate between a communicator
 * that is tuned and one that is not. They alternate in slices of some milliseconds, so that disturbances of
 * the machine affect both.
 *
 * usage: tune_table KIND OPERATIONS WORK LEARN AFTER [ALGORITHMS...]
 *
 * KIND: loop (the operations in their order), mix (in random order), dup (each round on a new duplicate).
 * OPERATIONS: name:bytes,... with i before the name for a non-blocking one; names as of TUTTI_ALGORITHM.
 * WORK: multiplications beside each operation. LEARN: seconds of the first part; AFTER: of the second, in
 * which ALGORITHMS (words of TUTTI_ALGORITHM), each forced on a communicator of its own, take turns too.
 *
 * Prints: tuned to untuned in the first part, in its second half, and in the second part; then tuned to the
 * best of all in the second part, and which that is (0: untuned; 1: the first algorithm, ...). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERATIONS = 40, MOST_COMMS = 12, MOST_SLICES = 1 << 16 };
static const double SLICE = 4e-3;

struct operation {
    char name[24];
    int bytes, nonblocking;
};

static struct operation operations[MOST_OPERATIONS];
static int number, rank, size;
static long work;
static const char *kind;
static char *out, *in;
static unsigned long state = 7;
static volatile double sink;
static MPI_Comm comms[MOST_COMMS];
static MPI_Info infos[MOST_COMMS];
static double times[2][MOST_SLICES];

static void compute(void)
{
    double y = 1;
    for (long i = 0; i < work; i++)
        y = y * 1.0000001 + 1e-9;
    sink = y;
}

static int next_random(int below)
{
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (int)((state >> 33) % (unsigned long)below);
}

/* Runs the operation. A non-blocking one is started with a request, a blocking one is complete when the call
 * returns. */
static void perform(const struct operation *one, MPI_Comm comm, MPI_Request *request)
{
    const char *name = one->name;
    int n = one->bytes, waits = one->nonblocking;
    MPI_Request *r = request;
    if (!strcmp(name, "barrier"))
        waits ? MPI_Ibarrier(comm, r) : MPI_Barrier(comm);
    else if (!strcmp(name, "bcast"))
        waits ? MPI_Ibcast(in, n, MPI_BYTE, 0, comm, r) : MPI_Bcast(in, n, MPI_BYTE, 0, comm);
    else if (!strcmp(name, "reduce"))
        waits ? MPI_Ireduce(out, in, n / 8, MPI_DOUBLE, MPI_SUM, 0, comm, r)
              : MPI_Reduce(out, in, n / 8, MPI_DOUBLE, MPI_SUM, 0, comm);
    else if (!strcmp(name, "allreduce"))
        waits ? MPI_Iallreduce(out, in, n / 8, MPI_DOUBLE, MPI_SUM, comm, r)
              : MPI_Allreduce(out, in, n / 8, MPI_DOUBLE, MPI_SUM, comm);
    else if (!strcmp(name, "allgather"))
        waits ? MPI_Iallgather(out, n, MPI_BYTE, in, n, MPI_BYTE, comm, r)
              : MPI_Allgather(out, n, MPI_BYTE, in, n, MPI_BYTE, comm);
    else if (!strcmp(name, "alltoall"))
        waits ? MPI_Ialltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, comm, r)
              : MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, comm);
    else {
        fprintf(stderr, "tune_table: no operation %s\n", name);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

static void round_on(int which)
{
    MPI_Comm comm = comms[which];
    MPI_Request request;
    if (!strcmp(kind, "dup"))
        MPI_Comm_dup_with_info(comms[which], infos[which], &comm);
    for (int i = 0; i < number; i++) {
        const struct operation *one = &operations[strcmp(kind, "mix") ? i : next_random(number)];
        perform(one, comm, &request);
        compute();
        if (one->nonblocking)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (comm != comms[which])
        MPI_Comm_free(&comm);
}

/* Returns the seconds of this many rounds. */
static double slice(int which, int rounds)
{
    double begin, seconds;
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = 0; i < rounds; i++)
        round_on(which);
    seconds = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

static int compare(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

/* Returns the mean of slices. A slice of more than three times the median counts as that. */
static double mean(const double *values, int count)
{
    double *sorted = malloc((count + 1) * sizeof *sorted), sum = 0;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    for (int i = 0; i < count; i++)
        sum += values[i] < 3 * sorted[count / 2] ? values[i] : 3 * sorted[count / 2];
    free(sorted);
    return count ? sum / count : 0;
}

static MPI_Comm communicator(const char *tune, const char *algorithm, MPI_Info *info)
{
    MPI_Comm comm;
    MPI_Info_create(info);
    MPI_Info_set(*info, "tutti_tune", tune);
    MPI_Info_set(*info, "tutti_algorithm", algorithm);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, *info, &comm);
    return comm;
}

/* Returns the number of rounds of a slice, on which all ranks agree. It follows from the time of a warm
 * round. */
static int rounds_of_slice(void)
{
    double once;
    int rounds;
    slice(0, 3);
    once = slice(0, 5) / 5;
    rounds = once > SLICE ? 1 : (int)(SLICE / once);
    MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return rounds;
}

static int goes_on(double begin, double seconds)
{
    int goes = MPI_Wtime() - begin < seconds;
    MPI_Bcast(&goes, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return goes;
}

static void parse(char *text)
{
    for (char *word = strtok(text, ","); word && number < MOST_OPERATIONS; word = strtok(NULL, ",")) {
        struct operation *one = &operations[number++];
        char *colon = strchr(word, ':');
        one->nonblocking = *word == 'i';
        word += one->nonblocking;
        one->bytes = colon ? atoi(colon + 1) : 0;
        snprintf(one->name, sizeof one->name, "%.*s", colon ? (int)(colon - word) : 23, word);
    }
}

static void second_part(int count, int rounds, double seconds, double ratios[2], int *best)
{
    static double sums[MOST_COMMS][1 << 12];
    double begin = MPI_Wtime(), least = 0;
    int slices = 0;
    while (slices < 1 << 12 && goes_on(begin, seconds)) {
        for (int i = 0; i < count; i++) {
            int which = (i + slices) % count;
            sums[which][slices] = slice(which, rounds);
        }
        slices++;
    }
    ratios[0] = mean(sums[1], slices) / mean(sums[0], slices);
    for (int which = 0; which < count; which++) {
        double its = mean(sums[which], slices);
        if (which != 1 && (least == 0 || its < least)) {
            least = its;
            *best = which ? which - 1 : 0;
        }
    }
    ratios[1] = mean(sums[1], slices) / least;
}

int main(int argc, char **argv)
{
    double ratios[2] = {0, 0};
    int slices = 0, most = 0, best = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 6) {
        fprintf(stderr, "usage: tune_table KIND OPERATIONS WORK LEARN AFTER [ALGORITHMS...]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kind = argv[1];
    parse(argv[2]);
    work = atol(argv[3]);
    for (int i = 0; i < number; i++)
        most = operations[i].bytes > most ? operations[i].bytes : most;
    out = calloc(size, most + 8);
    in = calloc(size, most + 8);
    comms[0] = communicator("off", "", &infos[0]);
    comms[1] = communicator("on", "", &infos[1]);
    int count = 2, rounds = rounds_of_slice();
    double begin = MPI_Wtime();
    while (slices < MOST_SLICES && goes_on(begin, atof(argv[4]))) {
        int first = slices % 2;
        times[first][slices] = slice(first, rounds);
        times[!first][slices] = slice(!first, rounds);
        slices++;
    }
    for (int i = 6; i < argc && count < MOST_COMMS; i++, count++)
        comms[count] = communicator("off", argv[i], &infos[count]);
    if (atof(argv[5]) > 0)
        second_part(count, rounds, atof(argv[5]), ratios, &best);
    int half = slices / 2;
    if (rank == 0)
        printf("%.4f %.4f %.4f %.4f %d\n", mean(times[1], slices) / mean(times[0], slices),
               mean(times[1] + half, slices - half) / mean(times[0] + half, slices - half), ratios[0], ratios[1],
               best);
    for (int i = 0; i < count; i++) {
        MPI_Comm_free(&comms[i]);
        MPI_Info_free(&infos[i]);
    }
    free(out);
    free(in);
    return MPI_Finalize();
}
