/* Sends bytes that were never written, for a tool that checks sent data. It also sends and reduces other
 * data, on which the tool must not report anything. */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Datatype column, ends;
    int lengths[] = { 1, 1 }, places[] = { 0, 3 };
    check_begin(&argc, &argv);
    int *numbers = malloc(4 * sizeof *numbers), partner = check_rank ^ 1, sum = 0;
    numbers[0] = numbers[3] = 7;
    MPI_Type_indexed(2, lengths, places, MPI_INT, &ends);
    MPI_Type_vector(2, 1, 2, MPI_INT, &column);
    MPI_Type_commit(&ends);
    MPI_Type_commit(&column);
    if (check_rank == 0) {
        MPI_Send(numbers, 1, ends, partner, 1, MPI_COMM_WORLD);
        MPI_Send(numbers, 1, column, partner, 2, MPI_COMM_WORLD); /* the third was never written */
    } else {
        MPI_Recv(numbers, 1, ends, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(numbers[0] == 7 && numbers[3] == 7);
        MPI_Recv(numbers, 1, column, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(numbers[0], 7);
    }
    MPI_Allreduce(&numbers[0], &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, 14);
    MPI_Type_free(&ends);
    MPI_Type_free(&column);
    free(numbers);
    return check_end();
}
