/* Open MPI's module mpi_f08, for programs that were compiled with it (libmpi_usempif08.so.40).
 *
 * Its subroutines are those of Fortran 77 by other names, mpi_send_f08_ for mpi_send_: a handle is a type of
 * one integer, a status one of the same integers, and an error code that is left out a null pointer. NAMES
 * gives those names. Here is what else the modules mpi_f08 and mpi have as symbols: predefined handles as
 * variables, comparisons, MPI_Sizeof for every type and rank, and names of extensions that the standard has
 * taken over. */

/* A predefined handle: the variable that a program uses, and the constant of the module. */
#define HANDLE(variable, constant, number) \
    integer ompi_f08_mpi_##variable = number; \
    const integer __mpi_f08_types_MOD_mpi_##constant = number;
#include "generated/openmpi_handles.h"

/* Datatypes that the standard does not have. The library reports them as invalid. */
HANDLE(2complex, 2complex, 26)
HANDLE(2double_complex, 2double_complex, 27)
HANDLE(cxx_complex, cxx_complex, 55)
HANDLE(logical16, logical16, 77)

#define HANDLE_TYPE(kind, hash) \
    TYPE(mpi_f08_types, kind, hash, 1) \
    integer __mpi_f08_types_MOD_ompi_##kind##_op_eq(const integer *one, const integer *other) \
    { \
        return *one == *other; \
    } \
    integer __mpi_f08_types_MOD_ompi_##kind##_op_ne(const integer *one, const integer *other) \
    { \
        return *one != *other; \
    }
HANDLE_TYPE(comm, 73600949)
HANDLE_TYPE(datatype, 86896269)
HANDLE_TYPE(errhandler, 15118478)
HANDLE_TYPE(file, 70760613)
HANDLE_TYPE(group, 20619574)
HANDLE_TYPE(info, 53436151)
HANDLE_TYPE(message, 90857150)
HANDLE_TYPE(op, 68037098)
HANDLE_TYPE(request, 92555974)
HANDLE_TYPE(session, 41464269)
HANDLE_TYPE(win, 58701395)
TYPE(mpi_f08_types, status, 3872507, STATUS_WORDS)

SAME(ompi_buffer_detach_f08, "pmpi_buffer_detach_cptr_")
SAME(pompi_buffer_detach_f08, "pmpi_buffer_detach_cptr_")

/* MPI_Sizeof: a subroutine for each type and rank. Of characters it is that of one. */
#define SIZE(type, rank) \
    SAME(mpi_sizeof_##type##_##rank##_, "tutti_sizeof_" #type) \
    SAME(pmpi_sizeof_##type##_##rank##_, "tutti_sizeof_" #type)
#define SIZES(type, bytes) \
    __attribute__((visibility("hidden"))) void tutti_sizeof_##type(const void *x, integer *size, integer *ierror) \
    { \
        OPTIONAL \
        (void)x; \
        *size = bytes; \
        *ierror = 0; \
    } \
    SIZE(type, scalar) SIZE(type, r1) SIZE(type, r2) SIZE(type, r3) SIZE(type, r4) SIZE(type, r5) SIZE(type, r6) SIZE(type, r7) \
    SIZE(type, r8) SIZE(type, r9) SIZE(type, r10) SIZE(type, r11) SIZE(type, r12) SIZE(type, r13) SIZE(type, r14) SIZE(type, r15)
SIZES(character, 1)
SIZES(logical, 4)
SIZES(int8, 1)
SIZES(int16, 2)
SIZES(int32, 4)
SIZES(int64, 8)
SIZES(real16, 2)
SIZES(real32, 4)
SIZES(real64, 8)
SIZES(real128, 16)
SIZES(complex32, 8)
SIZES(complex64, 16)
SIZES(complex128, 32)

/* Persistent collectives as Open MPI had them before MPI 4.0. */
#define EXTENSION(lower, upper) \
    SAME(mpix_##lower##_, "pmpi_" #lower "_") \
    SAME(mpix_##lower##__, "pmpi_" #lower "_") \
    SAME(mpix_##lower, "pmpi_" #lower "_") \
    SAME(MPIX_##upper, "pmpi_" #lower "_") \
    SAME(mpix_##lower##_f08_, "pmpi_" #lower "_") \
    SAME(pmpix_##lower##_, "pmpi_" #lower "_") \
    SAME(pmpix_##lower##__, "pmpi_" #lower "_") \
    SAME(pmpix_##lower, "pmpi_" #lower "_") \
    SAME(PMPIX_##upper, "pmpi_" #lower "_") \
    SAME(pmpix_##lower##_f08_, "pmpi_" #lower "_")
EXTENSION(allgather_init, ALLGATHER_INIT)
EXTENSION(allgatherv_init, ALLGATHERV_INIT)
EXTENSION(allreduce_init, ALLREDUCE_INIT)
EXTENSION(alltoall_init, ALLTOALL_INIT)
EXTENSION(alltoallv_init, ALLTOALLV_INIT)
EXTENSION(alltoallw_init, ALLTOALLW_INIT)
EXTENSION(barrier_init, BARRIER_INIT)
EXTENSION(bcast_init, BCAST_INIT)
EXTENSION(exscan_init, EXSCAN_INIT)
EXTENSION(gather_init, GATHER_INIT)
EXTENSION(gatherv_init, GATHERV_INIT)
EXTENSION(neighbor_allgather_init, NEIGHBOR_ALLGATHER_INIT)
EXTENSION(neighbor_allgatherv_init, NEIGHBOR_ALLGATHERV_INIT)
EXTENSION(neighbor_alltoall_init, NEIGHBOR_ALLTOALL_INIT)
EXTENSION(neighbor_alltoallv_init, NEIGHBOR_ALLTOALLV_INIT)
EXTENSION(neighbor_alltoallw_init, NEIGHBOR_ALLTOALLW_INIT)
EXTENSION(reduce_init, REDUCE_INIT)
EXTENSION(reduce_scatter_block_init, REDUCE_SCATTER_BLOCK_INIT)
EXTENSION(reduce_scatter_init, REDUCE_SCATTER_INIT)
EXTENSION(scan_init, SCAN_INIT)
EXTENSION(scatter_init, SCATTER_INIT)
EXTENSION(scatterv_init, SCATTERV_INIT)
