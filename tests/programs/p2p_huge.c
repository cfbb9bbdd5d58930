/* One message of more than 2 GiB, by the functions with large counts. Rank 0 to rank 1. */
#include "check.h"

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Count count = ((MPI_Count)1 << 31) + ((MPI_Count)100 << 20) + 5, got = 0;
    unsigned char *data = NULL;
    MPI_Status status;
    if (check_size < 2)
        return check_end();
    if (check_rank < 2)
        data = check_memory((size_t)count);
    if (check_rank == 0) {
        for (MPI_Count i = 0; i < count; i++)
            data[i] = (unsigned char)(i * 7 + (i >> 20));
        MPI_Send_c(data, count, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    } else if (check_rank == 1) {
        memset(data, 0, (size_t)count);
        MPI_Recv_c(data, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        MPI_Get_count_c(&status, MPI_BYTE, &got);
        CHECK_EQUAL(got, count);
        int small = 0;
        MPI_Get_count(&status, MPI_BYTE, &small);
        CHECK_EQUAL(small, MPI_UNDEFINED);
        MPI_Count wrong = 0;
        for (MPI_Count i = 0; i < count; i++)
            wrong += data[i] != (unsigned char)(i * 7 + (i >> 20));
        CHECK_EQUAL(wrong, 0);
    }
    free(data);
    return check_end();
}
