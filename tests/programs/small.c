/* Many small operations, one after the other: what a network that loses datagrams delays most. usage: small
 * [ROUNDS] */
#include "check.h"

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    check_begin(&argc, &argv);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < rounds; round++) {
        int mine = check_rank * 1000 + round, sum = 0, got = -1, said = check_rank == round % check_size ? round : -1;
        MPI_Sendrecv(&mine, 1, MPI_INT, right, 7, &got, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(got == left * 1000 + round);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK(sum == 1000 * check_size * (check_size - 1) / 2 + check_size * round);
        MPI_Bcast(&said, 1, MPI_INT, round % check_size, MPI_COMM_WORLD);
        CHECK(said == round);
        if (round % 10 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    return check_end();
}
