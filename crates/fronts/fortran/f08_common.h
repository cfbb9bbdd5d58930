/* Common part of the modules mpi_f08 of MPICH and Open MPI, for programs compiled with gfortran. */

/* Description of a type that gfortran uses for polymorphic variables. The number is a hash of the names of module
 * and type. */
struct type_table {
    int number;
    size_t bytes;
    const void *extends, *initial;
    void (*copy)(const integer *from, integer *to);
    void *finalise, *free;
};
#define TYPE(module, kind, hash, words) \
    integer __##module##_MOD___def_init_##module##_Mpi_##kind[words]; \
    void __##module##_MOD___copy_##module##_Mpi_##kind(const integer *from, integer *to) \
    { \
        memcpy(to, from, (words) * sizeof *to); \
    } \
    struct type_table __##module##_MOD___vtab_##module##_Mpi_##kind = { \
        hash, (words) * sizeof(integer), NULL, __##module##_MOD___def_init_##module##_Mpi_##kind, \
        __##module##_MOD___copy_##module##_Mpi_##kind, NULL, NULL};

/* Further names of one function, with the same arguments. */
#pragma GCC diagnostic ignored "-Wattribute-alias"
#define SAME(name, as) void name(void) ALIAS(as);

/* Keeps a compiler from moving accesses to a buffer. */
void pmpi_f_sync_reg_(void *buffer)
{
    (void)buffer;
}
NAMES(f_sync_reg, F_SYNC_REG, (void *buffer))

/* A status of mpi_f08 has the integers of one of mpif.h. */
#define STATUS_COPY(lower, upper) \
    void pmpi_##lower##_(const integer *from, integer *to, integer *ierror) \
    { \
        OPTIONAL \
        memcpy(to, from, STATUS_WORDS * sizeof *to); \
        *ierror = 0; \
    } \
    NAMES(lower, upper, (const integer *from, integer *to, integer *ierror))
STATUS_COPY(status_f082f, STATUS_F082F)
STATUS_COPY(status_f2f08, STATUS_F2F08)

/* Copy and delete functions that a program passes on, by the names of all compilers. */
#define CALLBACK(name, NAME) \
    SAME(pmpi_##name##_, "mpi_" #name "_") \
    SAME(pmpi_##name##__, "mpi_" #name "_") \
    SAME(pmpi_##name, "mpi_" #name "_") \
    SAME(PMPI_##NAME, "mpi_" #name "_") \
    SAME(mpi_##name##__, "mpi_" #name "_") \
    SAME(mpi_##name, "mpi_" #name "_") \
    SAME(MPI_##NAME, "mpi_" #name "_")
#define CALLBACK_F08(name, NAME) \
    CALLBACK(name, NAME) \
    SAME(__mpi_f08_callbacks_MOD_mpi_##name, "mpi_" #name "_")
CALLBACK(dup_fn, DUP_FN)
CALLBACK(null_copy_fn, NULL_COPY_FN)
CALLBACK(null_delete_fn, NULL_DELETE_FN)
CALLBACK_F08(comm_dup_fn, COMM_DUP_FN)
CALLBACK_F08(comm_null_copy_fn, COMM_NULL_COPY_FN)
CALLBACK_F08(comm_null_delete_fn, COMM_NULL_DELETE_FN)
CALLBACK_F08(type_dup_fn, TYPE_DUP_FN)
CALLBACK_F08(type_null_copy_fn, TYPE_NULL_COPY_FN)
CALLBACK_F08(type_null_delete_fn, TYPE_NULL_DELETE_FN)
CALLBACK_F08(win_dup_fn, WIN_DUP_FN)
CALLBACK_F08(win_null_copy_fn, WIN_NULL_COPY_FN)
CALLBACK_F08(win_null_delete_fn, WIN_NULL_DELETE_FN)
CALLBACK_F08(conversion_fn_null, CONVERSION_FN_NULL)
CALLBACK_F08(conversion_fn_null_c, CONVERSION_FN_NULL_C)
