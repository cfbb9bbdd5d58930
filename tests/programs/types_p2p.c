/* Derived types between ranks at sizes of every protocol, with different types at both ends. */
#include "check.h"

static void transfer(int rows, int columns, int step)
{
    size_t items = (size_t)rows * (size_t)columns;
    int *matrix = check_memory(items * sizeof(int)), *in = check_memory(items * sizeof(int));
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size, got = -1;
    int taken = columns / step;
    MPI_Datatype column, some;
    MPI_Status status;
    MPI_Request requests[2];
    /* All columns whose number is a multiple of step, column by column: a transposition on the fly. */
    MPI_Type_vector(rows, 1, columns, MPI_INT, &column);
    MPI_Type_create_hvector(taken, 1, step * (MPI_Aint)sizeof(int), column, &some);
    MPI_Type_commit(&some);
    for (size_t i = 0; i < items; i++)
        matrix[i] = (int)i + check_rank;
    memset(in, 0xff, items * sizeof(int));
    MPI_Irecv(in, rows * taken, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(matrix, 1, some, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], &status);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_INT, &got);
    CHECK_EQUAL(got, rows * taken);
    long wrong = 0;
    for (int c = 0; c < taken; c++)
        for (int r = 0; r < rows; r++)
            wrong += in[c * rows + r] != r * columns + c * step + left;
    CHECK_EQUAL(wrong, 0);

    /* And back into columns. */
    for (int i = 0; i < rows * taken; i++)
        in[i] = i - check_rank;
    memset(matrix, 0xff, items * sizeof(int));
    MPI_Irecv(matrix, 1, some, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Send(in, rows * taken, MPI_INT, right, 0, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++) {
            int inside = c % step == 0 && c / step < taken;
            wrong += matrix[r * columns + c] != (inside ? c / step * rows + r - left : -1);
        }
    CHECK_EQUAL(wrong, 0);
    MPI_Type_free(&some);
    MPI_Type_free(&column);
    free(matrix);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    transfer(3, 4, 1);
    transfer(20, 30, 2);
    transfer(100, 100, 1);
    transfer(300, 500, 3);
    transfer(1000, 1000, 1);
    transfer(1, 100000, 2);
    return check_end();
}
