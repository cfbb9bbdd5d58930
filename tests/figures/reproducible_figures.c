/* Times of MPI_Allreduce with sums that are rounded once beside ordinary ones, in turn in one run. Prints the
 * median of each in microseconds and the median of the rounds' ratios. */
#include "check.h"

enum { ROUNDS = 31, MOST = 131072 };

static double operands[MOST], result[MOST];

static int compare(const void *one, const void *two)
{
    double difference = *(const double *)one - *(const double *)two;
    return (difference > 0) - (difference < 0);
}

/* Returns the greatest time of all ranks for an operation, in microseconds. */
static double time_of(int count, int times, MPI_Comm comm)
{
    for (int warm = 0; warm <= times / 10; warm++)
        MPI_Allreduce(operands, result, count, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Barrier(comm);
    double begun = MPI_Wtime(), spent, most;
    for (int number = 0; number < times; number++)
        MPI_Allreduce(operands, result, count, MPI_DOUBLE, MPI_SUM, comm);
    spent = (MPI_Wtime() - begun) / times * 1e6;
    MPI_Allreduce(&spent, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 16, 128, 1024, 16384, MOST};
    check_begin(&argc, &argv);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "tutti_reproducible", "true");
    MPI_Comm comms[2];
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comms[1]);
    for (int place = 0; place < MOST; place++)
        operands[place] = (double)((place * 2654435761u + (unsigned)check_rank * 40503u) % 100003) / 7 - 5000;
    for (int number = 0; number < 6; number++) {
        double times[2][ROUNDS], ratios[ROUNDS];
        int count = counts[number], each = count < 1024 ? 2000 : count < 20000 ? 200 : 40;
        for (int round = 0; round < ROUNDS; round++) {
            for (int mode = 0; mode < 2; mode++)
                times[mode][round] = time_of(count, each, comms[mode]);
            ratios[round] = times[1][round] / times[0][round];
        }
        qsort(times[0], ROUNDS, sizeof(double), compare);
        qsort(times[1], ROUNDS, sizeof(double), compare);
        qsort(ratios, ROUNDS, sizeof(double), compare);
        if (check_rank == 0)
            printf("%d ranks, %d bytes: %.2f and %.2f us, ratio %.2f\n", check_size, 8 * count,
                   times[0][ROUNDS / 2], times[1][ROUNDS / 2], ratios[ROUNDS / 2]);
    }
    MPI_Info_free(&info);
    MPI_Comm_free(&comms[0]);
    MPI_Comm_free(&comms[1]);
    return check_end();
}
