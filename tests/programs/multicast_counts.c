/* Operations that some ranks can repeat as they did them before while others cannot. All members must count
 * the same for them, because they agree on multicast by these counts. Addresses to send from and to receive
 * at are equal where a rank has nothing to give. An operation behind a request is outstanding at some ranks
 * while others have completed it. usage: multicast_counts ROUNDS */
#include "check.h"

enum { BLOCK = 700, BYTES = 1 << 16 };

static unsigned char all[64 * BLOCK], mine[BLOCK], data[BYTES], later[BYTES];

static void allgatherv(int round)
{
    int counts[64], places[64], silent = round / 3 % check_size;
    for (int i = 0; i < check_size; i++)
        counts[i] = i == silent ? 0 : BLOCK, places[i] = i * BLOCK;
    memset(mine, check_rank + round, BLOCK);
    if (check_rank == silent)
        MPI_Allgatherv(all, 0, MPI_BYTE, all, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    else
        MPI_Allgatherv(mine, BLOCK, MPI_BYTE, all, counts, places, MPI_BYTE, MPI_COMM_WORLD);
    for (int i = 0; i < check_size; i++)
        if (i != silent)
            CHECK_EQUAL(all[i * BLOCK + BLOCK - 1], (unsigned char)(i + round));
}

int main(int argc, char **argv)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int rounds = argc > 1 ? atoi(argv[1]) : 400;

    check_begin(&argc, &argv);
    for (int round = 0; round < rounds; round++) {
        int root = round % check_size;
        allgatherv(round);
        memset(data, check_rank == root ? round : -1, BYTES);
        MPI_Bcast(data, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
        CHECK_EQUAL(data[BYTES - 1], (unsigned char)round);
        MPI_Bcast(check_rank % 2 ? data : NULL, 0, MPI_BYTE, root, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        memset(later, check_rank == root ? round : -1, BYTES);
        MPI_Ibcast(later, BYTES, MPI_BYTE, root, MPI_COMM_WORLD, &request);
        if (check_rank % 2)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Bcast(data, BYTES, MPI_BYTE, root, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return check_end();
}
