/* The Fortran 77 layer of Tutti: MPI's subroutines as Fortran calls them (mpif.h and the module mpi), over
 * the C functions of an ABI.
 *
 * Most are generated (generated/layer.h). Here is what an argument of Fortran is in C, the few functions
 * that are different in Fortran, and the callbacks. Compiled once for each ABI (abi.h) by
 * scripts/fortran.sh: libmpifort_abi.so.1, libmpi_mpifh.so.40, libmpifort.so.12. Names have the forms of
 * gfortran, flang and ifx (mpi_send_), of g77 (mpi_send__), of IBM (mpi_send) and of Cray (MPI_SEND). */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

enum { DIMENSIONS = 32, FEW = 32, LONGEST = 8200 };

/* In mpi_f08 the error code may be left out, which is a null pointer. */
#define OPTIONAL \
    integer ignored; \
    ierror = ierror ? ierror : &ignored;
#define ALIAS(of) __attribute__((weak, alias(of)))
/* In programs that were compiled with the mpi_f08 of others names have an end of their own (openmpi_f08.h,
 * mpich_f08.h). */
#if defined TUTTI_OPENMPI
#define NAMES_F08(type, lower, parameters) \
    type pmpi_##lower##_f08_ parameters ALIAS("pmpi_" #lower "_"); \
    type mpi_##lower##_f08_ parameters ALIAS("pmpi_" #lower "_");
#elif defined TUTTI_MPICH
#define NAMES_F08(type, lower, parameters) \
    type pmpir_##lower##_f08_ parameters ALIAS("pmpi_" #lower "_"); \
    type mpi_##lower##_f08_ parameters ALIAS("pmpi_" #lower "_");
#else
#define NAMES_F08(type, lower, parameters)
#endif
#define NAMES(lower, upper, parameters) \
    NAMES_F08(void, lower, parameters) \
    void pmpi_##lower##__ parameters ALIAS("pmpi_" #lower "_"); \
    void pmpi_##lower parameters ALIAS("pmpi_" #lower "_"); \
    void PMPI_##upper parameters ALIAS("pmpi_" #lower "_"); \
    void mpi_##lower##_ parameters ALIAS("pmpi_" #lower "_"); \
    void mpi_##lower##__ parameters ALIAS("pmpi_" #lower "_"); \
    void mpi_##lower parameters ALIAS("pmpi_" #lower "_"); \
    void MPI_##upper parameters ALIAS("pmpi_" #lower "_");

/* Names that Fortran gives in place of data, as common blocks: a program has its own copy, to which the
 * loader binds ours. */
#ifdef TUTTI_MPICH
struct private1 { integer bottom, in_place, status_ignore[STATUS_WORDS]; } mpipriv1_;
struct private2 { integer statuses_ignore[STATUS_WORDS], errcodes_ignore[1]; } mpipriv2_;
struct privatec { char argvs_null, argv_null; } mpiprivc_;
integer mpifcmb5_, mpifcmb9_;
/* The same in mpi_f08. */
integer MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE, MPIR_F08_MPI_STATUS_IGNORE_OBJ[STATUS_WORDS], MPIR_F08_MPI_STATUSES_IGNORE_OBJ[STATUS_WORDS],
    __mpi_f08_link_constants_MOD_mpi_unweighted, __mpi_f08_link_constants_MOD_mpi_weights_empty, __mpi_f08_link_constants_MOD_mpi_errcodes_ignore;
char __mpi_f08_link_constants_MOD_mpi_argv_null, __mpi_f08_link_constants_MOD_mpi_argvs_null;
#define IS_F08(given, name) || (void *)(given) == (void *)&name
#define PLACE_BOTTOM ((void *)&mpipriv1_.bottom)
#define PLACE_IN_PLACE ((void *)&mpipriv1_.in_place)
#define PLACE_STATUS (mpipriv1_.status_ignore)
#define PLACE_STATUSES (mpipriv2_.statuses_ignore)
#define PLACE_ERRCODES (mpipriv2_.errcodes_ignore)
#define PLACE_UNWEIGHTED (&mpifcmb5_)
#define PLACE_EMPTY (&mpifcmb9_)
#define PLACE_ARGV (&mpiprivc_.argv_null)
#define PLACE_ARGVS (&mpiprivc_.argvs_null)
#else
integer mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_buffer_automatic_, mpi_fortran_unweighted_, mpi_fortran_weights_empty_,
    mpi_fortran_errcodes_ignore_, mpi_fortran_status_ignore_[STATUS_WORDS], mpi_fortran_statuses_ignore_[STATUS_WORDS];
char mpi_fortran_argv_null_, mpi_fortran_argvs_null_;
#define PLACE_BOTTOM ((void *)&mpi_fortran_bottom_)
#define PLACE_IN_PLACE ((void *)&mpi_fortran_in_place_)
#define PLACE_STATUS mpi_fortran_status_ignore_
#define PLACE_STATUSES mpi_fortran_statuses_ignore_
#define PLACE_ERRCODES (&mpi_fortran_errcodes_ignore_)
#define PLACE_UNWEIGHTED (&mpi_fortran_unweighted_)
#define PLACE_EMPTY (&mpi_fortran_weights_empty_)
#define PLACE_ARGV (&mpi_fortran_argv_null_)
#define PLACE_ARGVS (&mpi_fortran_argvs_null_)
#define IS_F08(given, name)
#endif

static inline void *data_at(void *given)
{
    if (given == PLACE_IN_PLACE IS_F08(given, MPIR_F08_MPI_IN_PLACE))
        return IN_PLACE;
    return given == PLACE_BOTTOM IS_F08(given, MPIR_F08_MPI_BOTTOM) ? NULL : given;
}

static inline MPI_Status *status_of(integer *given)
{
    return given == PLACE_STATUS IS_F08(given, MPIR_F08_MPI_STATUS_IGNORE_OBJ) ? STATUS_IGNORE : (MPI_Status *)given;
}

static inline MPI_Status *statuses(integer *given)
{
    return given == PLACE_STATUSES IS_F08(given, MPIR_F08_MPI_STATUSES_IGNORE_OBJ) ? STATUS_IGNORE : (MPI_Status *)given;
}

static inline int *weights_of(integer *given)
{
    if (given == PLACE_UNWEIGHTED IS_F08(given, __mpi_f08_link_constants_MOD_mpi_unweighted))
        return MPI_UNWEIGHTED;
    return given == PLACE_EMPTY IS_F08(given, __mpi_f08_link_constants_MOD_mpi_weights_empty) ? MPI_WEIGHTS_EMPTY : given;
}

/* Truths of a LOGICAL array: the lowest bit counts for all compilers. */
static void truths(const integer *given, int count, int *taken)
{
    for (int i = 0; i < count && i < DIMENSIONS; i++)
        taken[i] = given[i] & 1;
}

/* Memory for so many elements: that at hand if it suffices. */
static void *room(void *few, size_t bytes, int count, size_t each)
{
    if (count <= 0 || (size_t)count * each <= bytes)
        return few;
    void *much = malloc((size_t)count * each);
    if (!much) {
        fputs("tutti: no memory for the handles of a Fortran call\n", stderr);
        abort();
    }
    return much;
}

/* A string of Fortran in C: without blanks at either end. */
static char *taken(const char *text, size_t length)
{
    while (length > 0 && *text == ' ')
        text++, length--;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    char *copy = room(NULL, 0, (int)length + 1, 1);
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

/* The reverse: padded with blanks. */
static void give(const char *text, char *place, size_t length)
{
    size_t count = strnlen(text, length);
    memcpy(place, text, count);
    memset(place + count, ' ', length - count);
}

static int peers(MPI_Comm comm);
static int sources(MPI_Comm comm);
static int destinations(MPI_Comm comm);
static void never(void);
static void call_MPI_User_function(uintptr_t function, void *in, void *inout, int *len, void **datatype);
static void call_MPI_User_function_c(uintptr_t function, void *in, void *inout, MPI_Count *len, void **datatype);
static void call_MPI_Comm_errhandler_function(uintptr_t function, void **object, int *code);
static void call_MPI_File_errhandler_function(uintptr_t function, void **object, int *code);
static void call_MPI_Win_errhandler_function(uintptr_t function, void **object, int *code);
static void call_MPI_Session_errhandler_function(uintptr_t function, void **object, int *code);

#include "generated/layer.h"

/* Returns the number of ranks that each member sends to in a collective operation. */
static int peers(MPI_Comm comm)
{
    int is_inter = 0, count = 0;
    PMPI_Comm_test_inter(comm, &is_inter);
    if (is_inter)
        PMPI_Comm_remote_size(comm, &count);
    else
        PMPI_Comm_size(comm, &count);
    return count;
}

static void degrees(MPI_Comm comm, int *in, int *out)
{
    int kind = -1, dimensions = 0, rank = 0, is_weighted;
    *in = *out = 0;
    PMPI_Topo_test(comm, &kind);
    if (kind == DIST_GRAPH) {
        PMPI_Dist_graph_neighbors_count(comm, in, out, &is_weighted);
    } else if (kind == CARTESIAN) {
        PMPI_Cartdim_get(comm, &dimensions);
        *in = *out = 2 * dimensions;
    } else if (kind == GRAPH) {
        PMPI_Comm_rank(comm, &rank);
        PMPI_Graph_neighbors_count(comm, rank, in);
        *out = *in;
    }
}

static int sources(MPI_Comm comm)
{
    int in, out;
    degrees(comm, &in, &out);
    return in;
}

static int destinations(MPI_Comm comm)
{
    int in, out;
    degrees(comm, &in, &out);
    return out;
}

#include "callbacks.h"
#include "differing.h"
#if defined TUTTI_OPENMPI
#include "f08_common.h"
#include "openmpi_f08.h"
#elif defined TUTTI_MPICH
#include "f08_common.h"
#include "mpich_f08.h"
#endif
