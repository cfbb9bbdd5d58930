/* mpi_removed.h: what MPI 3.0 has removed (MPI-5 section 19.3), by what has taken its place.
 *
 * For programs of MPI-1 that nobody changes any more. mpi.h includes it where TUTTI_REMOVED is defined: `mpicc -removed`, or
 * -DTUTTI_REMOVED for any compiler. Nothing of it is in the library, so a program that was compiled so runs on every library of the
 * standard ABI.
 *
 * Bounds that MPI_LB and MPI_UB have set do not stick to the types made of a type, as they did in MPI-1: they are those of
 * MPI_Type_create_resized.
 */
#ifndef TUTTI_MPI_REMOVED_H
#define TUTTI_MPI_REMOVED_H

#include <stdlib.h>

/* Markers, which only MPI_Type_struct takes. Other functions refuse them: they are no handles. */
#define MPI_LB ((MPI_Datatype)0x000002fe)
#define MPI_UB ((MPI_Datatype)0x000002ff)

/* No type has these combiners: what is made by Fortran's old functions does not come through this header. */
#define MPI_COMBINER_HVECTOR_INTEGER (-2104)
#define MPI_COMBINER_HINDEXED_INTEGER (-2106)
#define MPI_COMBINER_STRUCT_INTEGER (-2110)

typedef MPI_Comm_errhandler_function MPI_Handler_function;

/* The names of these functions and their arguments are those of MPI 2.2; arrays are not const there. */

static inline int MPI_Address(const void *location, MPI_Aint *address) { return MPI_Get_address(location, address); }

static inline int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride, MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype, newtype);
}

static inline int MPI_Type_hindexed(int count, const int *array_of_blocklengths, const MPI_Aint *array_of_displacements,
                                    MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    return MPI_Type_create_hindexed(count, array_of_blocklengths, array_of_displacements, oldtype, newtype);
}

static inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}

static inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}

static inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint lb = 0, extent = 0;
    int code = MPI_Type_get_extent(datatype, &lb, &extent);
    *displacement = lb + extent;
    return code;
}

static inline int MPI_Errhandler_create(MPI_Handler_function *function, MPI_Errhandler *errhandler)
{
    return MPI_Comm_create_errhandler(function, errhandler);
}

static inline int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return MPI_Comm_set_errhandler(comm, errhandler);
}

static inline int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return MPI_Comm_get_errhandler(comm, errhandler);
}

/* Gives a type the bounds of its markers; one that has none keeps its own. */
static inline int tutti_removed_resize(MPI_Datatype *type, const MPI_Aint *lower, const MPI_Aint *upper)
{
    MPI_Datatype plain = *type;
    MPI_Aint lb, extent, ub;
    int code = MPI_Type_get_extent(plain, &lb, &extent);
    if (code != MPI_SUCCESS) return code;
    ub = upper ? *upper : lb + extent;
    lb = lower ? *lower : lb;
    code = MPI_Type_create_resized(plain, lb, ub - lb, type);
    if (code != MPI_SUCCESS) return code;
    return MPI_Type_free(&plain);
}

static inline int MPI_Type_struct(int count, const int *array_of_blocklengths, const MPI_Aint *array_of_displacements,
                                  const MPI_Datatype *array_of_types, MPI_Datatype *newtype)
{
    int kept = 0, code, i;
    const MPI_Aint *lower = NULL, *upper = NULL;
    size_t room = count > 0 ? (size_t)count : 1;
    int *lengths = (int *)malloc(room * sizeof *lengths);
    MPI_Aint *places = (MPI_Aint *)malloc(room * sizeof *places);
    MPI_Datatype *types = (MPI_Datatype *)malloc(room * sizeof *types);
    for (i = 0; lengths && places && types && i < count; i++) {
        const MPI_Aint *place = &array_of_displacements[i];
        if (array_of_types[i] == MPI_LB) {
            if (array_of_blocklengths[i] > 0 && (!lower || *place < *lower)) lower = place;
        } else if (array_of_types[i] == MPI_UB) {
            if (array_of_blocklengths[i] > 0 && (!upper || *place > *upper)) upper = place;
        } else {
            lengths[kept] = array_of_blocklengths[i];
            places[kept] = *place;
            types[kept++] = array_of_types[i];
        }
    }
    code = MPI_ERR_NO_MEM;
    if (lengths && places && types)
        code = MPI_Type_create_struct(count < 0 ? count : kept, lengths, places, types, newtype);
    free(lengths);
    free(places);
    free(types);
    if (code == MPI_SUCCESS && (lower || upper)) code = tutti_removed_resize(newtype, lower, upper);
    return code;
}

#endif /* TUTTI_MPI_REMOVED_H */
