/* Numbers of 16 bits by the name that C has for them: sent, duplicated, and found again in the duplicate. */
#include "check.h"

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
    return check_end();
}
