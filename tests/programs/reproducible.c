/* Sums that are rounded once: the bits are those of the real sum, whatever the order of ranks, the form of
 * the call and the algorithm. The argument "setting" tests TUTTI_DETERMINISTIC=bits; otherwise a hint is
 * set. */
#include "check.h"
#include <math.h>
#include <mpi-ext.h>

#define MOST 200000

static double mine[MOST], result[MOST];

static unsigned long long state;

static unsigned long long draw(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 2685821657736338717ULL;
}

/* Returns operand `place` of `rank`: an integer of 50 bits times 2^0 to 2^59. Sums have 128 bits at most. */
static double operand(int rank, int place)
{
    state = (unsigned long long)rank * 1000003 + (unsigned long long)place * 7919 + 88172645463325252ULL;
    draw();
    long long mantissa = (long long)(draw() >> 14) - (1LL << 49);
    return ldexp((double)mantissa, (int)(draw() % (place % 3 == 0 ? 60 : 4)));
}

__extension__ typedef __int128 wide;

/* The exact sum of the operands of ranks below `end`, rounded once by the conversion. */
static double expected(int end, int place)
{
    wide sum = 0;
    for (int rank = 0; rank < end; rank++)
        sum += (wide)operand(rank, place);
    return (double)sum;
}

static void compare(const char *what, const double *got, int count, int first, int end)
{
    for (int place = 0; place < count; place++) {
        double wanted = expected(end, first + place);
        if (memcmp(&got[place], &wanted, sizeof wanted) != 0) {
            const char *text = "%s of %d: element %d is %a, not %a";
            check_say(__FILE__, __LINE__, text, what, count, place, got[place], wanted);
            return;
        }
    }
}

static void all_forms(int count, MPI_Comm comm, MPI_Info info)
{
    MPI_Request request;
    MPI_Allreduce(mine, result, count, MPI_DOUBLE, MPI_SUM, comm);
    compare("allreduce", result, count, 0, check_size);
    memcpy(result, mine, (size_t)count * sizeof *mine);
    MPI_Allreduce(MPI_IN_PLACE, result, count, MPI_DOUBLE, MPI_SUM, comm);
    compare("allreduce in place", result, count, 0, check_size);
    memset(result, 0, (size_t)count * sizeof *mine);
    MPI_Iallreduce(mine, result, count, MPI_DOUBLE, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    compare("iallreduce", result, count, 0, check_size);
    MPI_Allreduce_init(mine, result, count, MPI_DOUBLE, MPI_SUM, comm, info, &request);
    for (int start = 0; start < 3; start++) {
        memset(result, 0, (size_t)count * sizeof *mine);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        compare("allreduce_init", result, count, 0, check_size);
    }
    MPI_Request_free(&request);
    for (int root = 0; root < check_size; root += 1 + check_size / 3) {
        memcpy(result, mine, (size_t)count * sizeof *mine);
        const void *from = check_rank == root && root % 2 ? MPI_IN_PLACE : mine;
        MPI_Reduce(from, result, count, MPI_DOUBLE, MPI_SUM, root, comm);
        if (check_rank == root)
            compare("reduce", result, count, 0, check_size);
    }
    MPI_Scan(mine, result, count, MPI_DOUBLE, MPI_SUM, comm);
    compare("scan", result, count, 0, check_rank + 1);
    MPI_Exscan(mine, result, count, MPI_DOUBLE, MPI_SUM, comm);
    if (check_rank > 0)
        compare("exscan", result, count, 0, check_rank);
}

static void scattered(int block, MPI_Comm comm)
{
    if ((long long)block * check_size > MOST)
        return;
    MPI_Reduce_scatter_block(mine, result, block, MPI_DOUBLE, MPI_SUM, comm);
    compare("reduce_scatter_block", result, block, check_rank * block, check_size);
    int counts[64], first = 0, total = 0;
    for (int rank = 0; rank < check_size; rank++) {
        counts[rank] = rank % 3 == 1 ? 0 : block - rank % 2 * (block / 2);
        first += rank < check_rank ? counts[rank] : 0;
        total += counts[rank];
    }
    MPI_Reduce_scatter(mine, result, counts, MPI_DOUBLE, MPI_SUM, comm);
    compare("reduce_scatter", result, counts[check_rank], first, check_size);
    memcpy(result, mine, (size_t)total * sizeof *mine);
    MPI_Reduce_scatter(MPI_IN_PLACE, result, counts, MPI_DOUBLE, MPI_SUM, comm);
    compare("reduce_scatter in place", result, counts[check_rank], first, check_size);
}

/* Infinities, NaN, cancellation beyond 128 bits and products: the same bits with the ranks in reverse. */
static void reversed(MPI_Comm comm, MPI_Comm backwards)
{
    double special[6], there[6], back[6];
    state = (unsigned long long)check_rank + 1;
    draw();
    special[0] = check_rank == 0 ? 1e300 : check_rank == check_size - 1 ? -1e300 : 1.0 / (check_rank + 2);
    special[1] = check_rank % 2 ? INFINITY : 1.0;
    special[2] = check_rank == 1 ? NAN : check_rank;
    special[3] = -0.0;
    special[4] = ldexp((double)draw(), -1100);
    special[5] = check_rank % 3 ? 5e-324 : 1.7e308;
    for (int product = 0; product < 2; product++) {
        MPI_Op op = product ? MPI_PROD : MPI_SUM;
        MPI_Allreduce(special, there, 6, MPI_DOUBLE, op, comm);
        MPI_Allreduce(special, back, 6, MPI_DOUBLE, op, backwards);
        CHECK(memcmp(there, back, sizeof there) == 0);
    }
    float complex[4], one[4], two[4];
    for (int part = 0; part < 4; part++)
        complex[part] = (float)ldexp((double)(long long)draw(), part * 20 - 90);
    MPI_Allreduce(complex, one, 2, MPI_C_FLOAT_COMPLEX, MPI_SUM, comm);
    MPI_Allreduce(complex, two, 2, MPI_C_FLOAT_COMPLEX, MPI_SUM, backwards);
    CHECK(memcmp(one, two, sizeof one) == 0);
    /* bfloat16: 256 + 1 + 1 is 258, where adding one by one stays at 256; in float16 it is 2048 + 1 + 1. */
    unsigned short brain = check_rank == 0 ? 0x4380 : check_rank < 3 ? 0x3f80 : 0, sum;
    MPI_Allreduce(&brain, &sum, 1, MPIX_BFLOAT16, MPI_SUM, comm);
    CHECK_EQUAL(sum, check_size > 2 ? 0x4381 : 0x4380);
    unsigned short half = check_rank == 0 ? 0x6800 : check_rank < 3 ? 0x3c00 : 0;
    MPI_Allreduce(&half, &sum, 1, MPIX_C_FLOAT16, MPI_SUM, comm);
    CHECK_EQUAL(sum, check_size > 2 ? 0x6801 : 0x6800);
}

/* All values of all ranks, in two distributions and at one rank. */
static void allsum(void)
{
    enum { VALUES = 10007 };
    double here, there, alone, values[VALUES];
    state = 42;
    for (int place = 0; place < VALUES; place++) {
        values[place] = ldexp((double)(long long)draw(), (int)(draw() % 1900) - 1064 + 64);
        if (place % 2)
            values[place] = -values[place - 1] * (place % 7 ? 1 : 1.0000001);
    }
    MPIX_Allsum(values, VALUES, MPI_DOUBLE, &alone, MPI_COMM_SELF);
    int first = (int)((long long)VALUES * check_rank / check_size);
    int end = (int)((long long)VALUES * (check_rank + 1) / check_size);
    MPIX_Allsum(values + first, end - first, MPI_DOUBLE, &here, MPI_COMM_WORLD);
    int some = check_rank == 0 ? VALUES - 10 : check_rank == check_size - 1 ? 10 : 0;
    if (check_size == 1)
        some = VALUES;
    MPIX_Allsum_c(check_rank == 0 ? values : values + VALUES - 10, some, MPI_DOUBLE, &there, MPI_COMM_WORLD);
    CHECK(memcmp(&alone, &here, sizeof here) == 0 && memcmp(&alone, &there, sizeof there) == 0);
    CHECK_CLASS(MPIX_Allsum(values, 1, MPI_INT, &here, MPI_COMM_WORLD), MPI_ERR_TYPE);
    CHECK_CLASS(MPIX_Allsum(NULL, 1, MPI_DOUBLE, &here, MPI_COMM_WORLD), MPI_ERR_BUFFER);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm comm, backwards;
    MPI_Info info, used;
    MPI_Info_create(&info);
    if (argc == 1)
        MPI_Info_set(info, "tutti_reproducible", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Comm_split(comm, 0, -check_rank, &backwards);
    MPI_Comm_set_info(backwards, info);
    char value[8] = "";
    int length = sizeof value, found;
    MPI_Comm_get_info(comm, &used);
    MPI_Info_get_string(used, "tutti_reproducible", &length, value, &found);
    CHECK(found && strcmp(value, "true") == 0);
    MPI_Info_free(&used);
    for (int place = 0; place < MOST; place++)
        mine[place] = operand(check_rank, place);
    static const int counts[] = {1, 3, 100, 4099, 40000, MOST};
    for (int number = 0; number < 6; number++)
        all_forms(counts[number], comm, info);
    static const int blocks[] = {1, 2, 300, 20000};
    for (int number = 0; number < 4; number++)
        scattered(blocks[number], comm);
    reversed(comm, backwards);
    allsum();
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&backwards);
    return check_end();
}
