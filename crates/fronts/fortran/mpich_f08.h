/* MPICH's module mpi_f08, for programs that were compiled with it (libmpifort.so.12).
 *
 * Subroutines without a buffer are those of Fortran 77 by other names, mpi_comm_rank_f08_ for mpi_comm_rank_;
 * with large counts mpi_type_size_f08_large_. Those with a buffer, mpi_send_f08ts_, get an array of any rank
 * as gfortran describes it, perhaps a section that does not lie together. generated/mpich_f08.h has one for
 * each: a section goes as one element of a datatype that is made for the call. The names of MPICH 4 are
 * meant. */

/* Descriptor by which gfortran passes an array of assumed rank (libgfortran.h, since version 9). */
struct array {
    char *base;
    size_t offset, element;
    int version;
    signed char rank, type;
    short attribute;
    ptrdiff_t span;
    struct {
        ptrdiff_t stride, lower, upper;
    } dimensions[15];
};

static ptrdiff_t extent(const struct array *array, int dimension)
{
    ptrdiff_t extent = array->dimensions[dimension].upper - array->dimensions[dimension].lower + 1;
    return extent < 0 ? 0 : extent;
}

/* Whether its elements lie together, or nothing is known of its end (an array of assumed size). */
static int lies_together(const struct array *array)
{
    ptrdiff_t expected = 1;
    if (array->rank > 0 && array->span != (ptrdiff_t)array->element)
        return extent(array, 0) <= 1 && array->rank == 1;
    for (int i = 0; i < array->rank; i++) {
        ptrdiff_t length = extent(array, i);
        if (length == 0)
            return 1;
        if (length > 1 && array->dimensions[i].stride != expected)
            return 0;
        expected *= length;
    }
    return 1;
}

static void refuse_section(const char *why)
{
    fprintf(stderr, "tutti: an array section that does not lie together, in a program of MPICH's mpi_f08: %s\n", why);
    abort();
}

/* The address of data that have to lie together: nothing says of what type they are, or they are reduced. */
static void *base_of(const struct array *array)
{
    if (!lies_together(array))
        refuse_section("this call takes none; copy it to an array");
    return array->base;
}

/* A buffer: its address, and the count and datatype that stand for a section. */
struct section {
    void *base;
    integer one, type;
    MPI_Count many;
    int is_made;
};
#define TYPE_OF(section, given) ((section).is_made ? &(section).type : (given))
#define COUNT_OF(section, field, given) ((section).is_made ? &(section).field : (given))

/* The datatype of `count` elements of an array, in the order of Fortran. */
static MPI_Datatype type_of_section(const struct array *array, MPI_Count count, MPI_Datatype element)
{
    MPI_Datatype made = element, next;
    MPI_Count all = 1;
    for (int i = 0; i < array->rank; i++)
        all *= extent(array, i);
    if (count == all) {
        for (int i = 0; i < array->rank; i++) {
            MPI_Aint stride = array->dimensions[i].stride * array->span;
            PMPI_Type_create_hvector((int)extent(array, i), 1, stride, made, &next);
            if (i > 0)
                PMPI_Type_free(&made);
            made = next;
        }
        return made;
    }
    if (count > all)
        refuse_section("it has fewer elements than the call says");
    MPI_Aint *places = room(NULL, 0, (int)count + 1, sizeof *places);
    ptrdiff_t index[15] = {0};
    for (MPI_Count at = 0; at < count; at++) {
        places[at] = 0;
        for (int i = 0; i < array->rank; i++)
            places[at] += index[i] * array->dimensions[i].stride * array->span;
        for (int i = 0; i < array->rank && ++index[i] == extent(array, i); i++)
            index[i] = 0;
    }
    PMPI_Type_create_hindexed_block((int)count, 1, places, element, &made);
    free(places);
    return made;
}

static struct section section_of(const struct array *array, MPI_Count count, const integer *type)
{
    struct section section = {.base = array->base};
    if (count <= 0 || lies_together(array))
        return section;
    MPI_Datatype given = C(Type, *type), element = given;
    int bytes = 0;
    PMPI_Type_size(given, &bytes);
    if (bytes <= 0 || array->element % bytes != 0 || count * bytes % (MPI_Count)array->element != 0)
        refuse_section("the datatype is larger than its elements");
    int each = (int)(array->element / bytes);
    if (each > 1)
        PMPI_Type_contiguous(each, given, &element);
    MPI_Datatype made = type_of_section(array, count / each, element);
    if (each > 1)
        PMPI_Type_free(&element);
    PMPI_Type_commit(&made);
    section.type = F(Type, made);
    section.one = 1;
    section.many = 1;
    section.is_made = 1;
    return section;
}

static void release(struct section *section)
{
    if (section->is_made) {
        MPI_Datatype made = C(Type, section->type);
        PMPI_Type_free(&made);
    }
}

#include "generated/mpich_f08.h"

/* Subroutines that the tables do not tell. */
#define WITH_BUFFER(name, parameters, as, arguments) \
    void pmpir_##name##_ parameters \
    { \
        as arguments; \
    } \
    void mpi_##name##_ parameters ALIAS("pmpir_" #name "_");
WITH_BUFFER(free_mem_f08ts, (struct array *base, integer *ierror), pmpi_free_mem_, (base_of(base), ierror))
WITH_BUFFER(get_address_f08ts, (struct array *location, MPI_Aint *address, integer *ierror), pmpi_get_address_, (location->base, address, ierror))
WITH_BUFFER(f_sync_reg_f08ts, (struct array *buffer), pmpi_f_sync_reg_, (buffer->base))
WITH_BUFFER(buffer_attach_f08ts, (struct array *buffer, integer *size, integer *ierror), pmpi_buffer_attach_, (base_of(buffer), size, ierror))
WITH_BUFFER(buffer_attach_f08ts_large, (struct array *buffer, MPI_Count *size, integer *ierror), pmpi_buffer_attach_c_, (base_of(buffer), size, ierror))

#define LARGE(name, as) SAME(mpi_##name##_f08_large_, as) SAME(pmpir_##name##_f08_large_, as)
LARGE(buffer_detach, "pmpi_buffer_detach_c_cptr_")
LARGE(type_get_contents, "pmpi_type_get_contents_c_")
LARGE(win_allocate, "pmpi_win_allocate_c_")
LARGE(win_allocate_shared, "pmpi_win_allocate_shared_c_")
LARGE(win_shared_query, "pmpi_win_shared_query_c_")

/* Comparisons, also with integers, and conversions; types. */
#define COMPARED(module, name, as) \
    integer __##module##_MOD_##name(const integer *one, const integer *other) \
    { \
        return *one as *other; \
    }
#define CONVERTED(kind, way) \
    integer __mpi_f08_types_MOD_mpi_##kind##_##way(const integer *handle) \
    { \
        return *handle; \
    }
#define HANDLE_TYPE_F08(kind, hash) \
    TYPE(mpi_f08_types, kind, hash, 1) \
    COMPARED(mpi_f08_types, mpi_##kind##_eq, ==) \
    COMPARED(mpi_f08_types, mpi_##kind##_f08_eq_f, ==) \
    COMPARED(mpi_f08_types, mpi_##kind##_f_eq_f08, ==) \
    COMPARED(mpi_f08_types, mpi_##kind##_neq, !=) \
    COMPARED(mpi_f08_types, mpi_##kind##_f08_neq_f, !=) \
    COMPARED(mpi_f08_types, mpi_##kind##_f_neq_f08, !=) \
    CONVERTED(kind, c2f) \
    CONVERTED(kind, f2c)
#define HANDLE_TYPE(kind, hash, hash_of_mpi) \
    HANDLE_TYPE_F08(kind, hash) \
    TYPE(mpi_constants, kind, hash_of_mpi, 1) \
    COMPARED(mpi_constants, kind##eq, ==) \
    COMPARED(mpi_constants, kind##neq, !=)
HANDLE_TYPE(comm, 73600949, 41315982)
HANDLE_TYPE(datatype, 86896269, 48485222)
HANDLE_TYPE(errhandler, 15118478, 39840743)
HANDLE_TYPE(file, 70760613, 33442942)
HANDLE_TYPE(group, 20619574, 74059165)
HANDLE_TYPE(info, 53436151, 21151184)
HANDLE_TYPE(message, 90857150, 13592485)
HANDLE_TYPE(op, 68037098, 49666883)
HANDLE_TYPE(request, 92555974, 15291309)
HANDLE_TYPE(win, 58701395, 37378874)
HANDLE_TYPE_F08(session, 41464269)
TYPE(mpi_f08_types, status, 3872507, STATUS_WORDS)
TYPE(mpi_constants, status, 5819988, STATUS_WORDS)
SAME(__mpi_f08_types_MOD_mpi_status_f082f, "pmpi_status_f082f_")
SAME(__mpi_f08_types_MOD_mpi_status_f2f08, "pmpi_status_f2f08_")

/* Former names of MPI_Remove_error_class, MPI_Remove_error_code and MPI_Remove_error_string (MPI 4.1). */
#define REMOVED_ERROR(what) \
    SAME(mpi_delete_error_##what##_f08_, "pmpi_remove_error_" #what "_") \
    SAME(pmpir_delete_error_##what##_f08_, "pmpi_remove_error_" #what "_")
REMOVED_ERROR(class)
REMOVED_ERROR(code)
REMOVED_ERROR(string)

/* MPI_Sizeof of each type: in mpi_f08 of any rank, in mpi of scalars and arrays. */
#define SIZE_F08(type, bytes) \
    void __mpi_f08_types_MOD_mpi_sizeof_##type(const void *x, integer *size, integer *ierror) \
    { \
        OPTIONAL \
        (void)x; \
        *size = bytes; \
        *ierror = 0; \
    }
SIZE_F08(character, 1)
SIZE_F08(logical, 4)
SIZE_F08(xint8, 1)
SIZE_F08(xint16, 2)
SIZE_F08(xint32, 4)
SIZE_F08(xint64, 8)
SIZE_F08(xreal32, 4)
SIZE_F08(xreal64, 8)
SIZE_F08(xreal128, 16)
SIZE_F08(xcomplex32, 8)
SIZE_F08(xcomplex64, 16)
SIZE_F08(xcomplex128, 32)
#define SIZE(type, bytes) \
    void __mpi_sizeofs_MOD_mpi_sizeof_##type(const void *x, integer *size, integer *ierror) \
    { \
        OPTIONAL \
        (void)x; \
        *size = bytes; \
        *ierror = 0; \
    } \
    SAME(__mpi_sizeofs_MOD_mpi_sizeof_##type##v, "__mpi_sizeofs_MOD_mpi_sizeof_" #type)
SIZE(ch, 1)
SIZE(l, 4)
SIZE(i, 4)
SIZE(i1, 1)
SIZE(i2, 2)
SIZE(i8, 8)
SIZE(r, 4)
SIZE(d, 8)
SIZE(cx, 8)
