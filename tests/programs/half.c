/* Numbers of 16 bits by the name that C has for them: sent, duplicated, and found again in the duplicate.
 * Sums of bfloat16 where the header has it. */
#include "check.h"
#if defined(TUTTI_EXTENSIONS)
#include <mpi-ext.h>
#endif

#if defined(MPIX_C_FLOAT16)
#define HALF MPIX_C_FLOAT16
#elif defined(OMPI_MPI_H)
extern struct ompi_predefined_datatype_t ompi_mpi_short_float;
#define HALF ((MPI_Datatype)(void *)&ompi_mpi_short_float)
#else
#define HALF MPI_REAL2
#endif

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Datatype half = HALF, copy, inner;
    int size, integers, addresses, datatypes, combiner;
    MPI_Type_size(half, &size);
    CHECK_EQUAL(size, 2);
    MPI_Type_dup(half, &copy);
    MPI_Type_get_envelope(copy, &integers, &addresses, &datatypes, &combiner);
    CHECK_EQUAL(combiner, MPI_COMBINER_DUP);
    MPI_Type_get_contents(copy, 0, 0, 1, NULL, NULL, &inner);
    CHECK(inner == half);
    unsigned short sent[3] = {0x3c00, 0xbc00, (unsigned short)check_rank}, got[3] = {0};
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Sendrecv(sent, 3, half, right, 1, got, 3, copy, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got[0], 0x3c00);
    CHECK_EQUAL(got[2], left);
    MPI_Type_free(&copy);
#if defined(MPIX_BFLOAT16)
    /* 1 of each rank, and the largest of 1 and -2. */
    unsigned short one = 0x3f80, two[] = {0x3f80, 0xc000}, most = 0, sum = 0;
    static const unsigned short sums[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0, 0x40e0, 0x4100};
    MPI_Type_size(MPIX_BFLOAT16, &size);
    CHECK_EQUAL(size, 2);
    MPI_Allreduce(&one, &sum, 1, MPIX_BFLOAT16, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, sums[check_size]);
    MPI_Allreduce(&two[check_rank % 2], &most, 1, MPIX_BFLOAT16, MPI_MAX, MPI_COMM_WORLD);
    CHECK_EQUAL(most, 0x3f80);
#endif
    return check_end();
}
