/* Functions that are different in Fortran: arguments of main, addresses as results, strings with lengths,
 * arrays whose length another call knows, and what MPI-3 has removed. */

void pmpi_init_(integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Init(NULL, NULL);
}
NAMES(init, INIT, (integer *ierror))

void pmpi_init_thread_(integer *required, integer *provided, integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Init_thread(NULL, NULL, *required, provided);
}
NAMES(init_thread, INIT_THREAD, (integer *required, integer *provided, integer *ierror))

void pmpi_pcontrol_(integer *level, integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Pcontrol(*level);
}
NAMES(pcontrol, PCONTROL, (integer *level, integer *ierror))

#define VALUE(type, lower, upper, parameters, value) \
    type pmpi_##lower##_ parameters \
    { \
        return value; \
    } \
    NAMES_F08(type, lower, parameters) \
    type pmpi_##lower##__ parameters ALIAS("pmpi_" #lower "_"); \
    type pmpi_##lower parameters ALIAS("pmpi_" #lower "_"); \
    type PMPI_##upper parameters ALIAS("pmpi_" #lower "_"); \
    type mpi_##lower##_ parameters ALIAS("pmpi_" #lower "_"); \
    type mpi_##lower##__ parameters ALIAS("pmpi_" #lower "_"); \
    type mpi_##lower parameters ALIAS("pmpi_" #lower "_"); \
    type MPI_##upper parameters ALIAS("pmpi_" #lower "_");
VALUE(double, wtime, WTIME, (void), PMPI_Wtime())
VALUE(double, wtick, WTICK, (void), PMPI_Wtick())
VALUE(MPI_Aint, aint_add, AINT_ADD, (MPI_Aint * base, MPI_Aint *displacement), *base + *displacement)
VALUE(MPI_Aint, aint_diff, AINT_DIFF, (MPI_Aint * one, MPI_Aint *other), *one - *other)

void pmpi_get_address_(void *location, MPI_Aint *address, integer *ierror)
{
    OPTIONAL
    *address = (MPI_Aint)data_at(location);
    *ierror = 0;
}
NAMES(get_address, GET_ADDRESS, (void *location, MPI_Aint *address, integer *ierror))

void pmpi_cart_sub_(integer *comm, integer *remain, integer *newcomm, integer *ierror)
{
    OPTIONAL
    int dimensions = 0, kept[DIMENSIONS];
    MPI_Comm made = 0;
    *ierror = PMPI_Cartdim_get(C(Comm, *comm), &dimensions);
    if (*ierror != 0)
        return;
    truths(remain, dimensions, kept);
    *ierror = PMPI_Cart_sub(C(Comm, *comm), kept, &made);
    if (*ierror == 0)
        *newcomm = F(Comm, made);
}
NAMES(cart_sub, CART_SUB, (integer *comm, integer *remain, integer *newcomm, integer *ierror))

/* Memory: an address as result, as an integer or (with _cptr) a type(c_ptr), which are the same. */
#define BOTH(lower, upper, parameters) \
    NAMES(lower, upper, parameters) \
    NAMES(lower##_cptr, upper##_CPTR, parameters)
#define CPTR(lower, parameters) void pmpi_##lower##_cptr_ parameters ALIAS("pmpi_" #lower "_");

void pmpi_alloc_mem_(MPI_Aint *size, integer *info, void *place, integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Alloc_mem(*size, C(Info, *info), place);
}
CPTR(alloc_mem, (MPI_Aint * size, integer *info, void *place, integer *ierror))
BOTH(alloc_mem, ALLOC_MEM, (MPI_Aint * size, integer *info, void *place, integer *ierror))

void pmpi_free_mem_(void *base, integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Free_mem(base);
}
NAMES(free_mem, FREE_MEM, (void *base, integer *ierror))

/* With large counts (`_c`) units of displacements are as wide as addresses. */
#define ALLOCATE(Name, lower, upper, count) \
    void pmpi_##lower##_(MPI_Aint *size, count *unit, integer *info, integer *comm, void *place, integer *win, integer *ierror) \
    { \
        OPTIONAL \
        MPI_Win made = 0; \
        *ierror = PMPI_##Name(*size, *unit, C(Info, *info), C(Comm, *comm), place, &made); \
        if (*ierror == 0) \
            *win = F(Win, made); \
    } \
    CPTR(lower, (MPI_Aint * size, count *unit, integer *info, integer *comm, void *place, integer *win, integer *ierror)) \
    BOTH(lower, upper, (MPI_Aint * size, count *unit, integer *info, integer *comm, void *place, integer *win, integer *ierror))
ALLOCATE(Win_allocate, win_allocate, WIN_ALLOCATE, integer)
ALLOCATE(Win_allocate_c, win_allocate_c, WIN_ALLOCATE_C, MPI_Aint)
ALLOCATE(Win_allocate_shared, win_allocate_shared, WIN_ALLOCATE_SHARED, integer)
ALLOCATE(Win_allocate_shared_c, win_allocate_shared_c, WIN_ALLOCATE_SHARED_C, MPI_Aint)

#define SHARED_QUERY(Name, lower, upper, count) \
    void pmpi_##lower##_(integer *win, integer *rank, MPI_Aint *size, count *unit, void *place, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Name(C(Win, *win), *rank, size, unit, place); \
    } \
    CPTR(lower, (integer * win, integer *rank, MPI_Aint *size, count *unit, void *place, integer *ierror)) \
    BOTH(lower, upper, (integer * win, integer *rank, MPI_Aint *size, count *unit, void *place, integer *ierror))
SHARED_QUERY(Win_shared_query, win_shared_query, WIN_SHARED_QUERY, integer)
SHARED_QUERY(Win_shared_query_c, win_shared_query_c, WIN_SHARED_QUERY_C, MPI_Aint)

/* Memory for buffered sends. mpif.h does not learn its address at the end (MPI-5 section 3.6), its argument
 * is not written; mpi_f08 does, as type(c_ptr), by names of its own. */
#define BUFFER(attach, ATTACH, Attach, detach, DETACH, Detach, count) \
    void pmpi_##attach##_(void *memory, count *size, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Attach(data_at(memory), *size); \
    } \
    NAMES(attach, ATTACH, (void *memory, count *size, integer *ierror)) \
    void pmpi_##detach##_cptr_(void **place, count *size, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Detach(place, size); \
    } \
    NAMES(detach##_cptr, DETACH##_CPTR, (void **place, count *size, integer *ierror)) \
    void pmpi_##detach##_(void *place, count *size, integer *ierror) \
    { \
        OPTIONAL \
        void *address; \
        (void)place; \
        *ierror = PMPI_##Detach(&address, size); \
    } \
    NAMES(detach, DETACH, (void *place, count *size, integer *ierror))
BUFFER(buffer_attach, BUFFER_ATTACH, Buffer_attach, buffer_detach, BUFFER_DETACH, Buffer_detach, integer)
BUFFER(buffer_attach_c, BUFFER_ATTACH_C, Buffer_attach_c, buffer_detach_c, BUFFER_DETACH_C, Buffer_detach_c, MPI_Count)

#define BUFFER_OF(Kind, lower, upper, suffix, SUFFIX, count) \
    void pmpi_##lower##_attach_buffer##suffix##_(integer *object, void *memory, count *size, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Kind##_attach_buffer##suffix(C(Kind, *object), data_at(memory), *size); \
    } \
    NAMES(lower##_attach_buffer##suffix, upper##_ATTACH_BUFFER##SUFFIX, (integer * object, void *memory, count *size, integer *ierror)) \
    void pmpi_##lower##_detach_buffer##suffix##_cptr_(integer *object, void **place, count *size, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Kind##_detach_buffer##suffix(C(Kind, *object), place, size); \
    } \
    NAMES(lower##_detach_buffer##suffix##_cptr, upper##_DETACH_BUFFER##SUFFIX##_CPTR, \
          (integer * object, void **place, count *size, integer *ierror)) \
    void pmpi_##lower##_detach_buffer##suffix##_(integer *object, void *place, count *size, integer *ierror) \
    { \
        OPTIONAL \
        void *address; \
        (void)place; \
        *ierror = PMPI_##Kind##_detach_buffer##suffix(C(Kind, *object), &address, size); \
    } \
    NAMES(lower##_detach_buffer##suffix, upper##_DETACH_BUFFER##SUFFIX, (integer * object, void *place, count *size, integer *ierror))
BUFFER_OF(Comm, comm, COMM, , , integer)
BUFFER_OF(Comm, comm, COMM, _c, _C, MPI_Count)
BUFFER_OF(Session, session, SESSION, , , integer)
BUFFER_OF(Session, session, SESSION, _c, _C, MPI_Count)

void pmpi_info_get_(integer *info, char *key, integer *length, char *value, integer *flag, integer *ierror, size_t l_key, size_t l_value)
{
    OPTIONAL
    char *c_key = taken(key, l_key), c_value[LONGEST] = "";
    int most = *length < LONGEST - 1 ? *length : LONGEST - 1;
    *ierror = PMPI_Info_get(C(Info, *info), c_key, most, c_value, flag);
    free(c_key);
    if (*ierror == 0 && *flag)
        give(c_value, value, l_value);
}
NAMES(info_get, INFO_GET,
      (integer * info, char *key, integer *length, char *value, integer *flag, integer *ierror, size_t l_key, size_t l_value))

/* C counts the byte at the end, Fortran does not. */
void pmpi_info_get_string_(integer *info, char *key, integer *length, char *value, integer *flag, integer *ierror, size_t l_key, size_t l_value)
{
    OPTIONAL
    char *c_key = taken(key, l_key), c_value[LONGEST] = "";
    int asked = *length, bytes = asked < LONGEST - 1 ? asked + 1 : LONGEST;
    if (asked == 0)
        bytes = 0;
    *ierror = PMPI_Info_get_string(C(Info, *info), c_key, &bytes, c_value, flag);
    free(c_key);
    if (*ierror != 0 || !*flag)
        return;
    *length = bytes - 1;
    if (asked > 0)
        give(c_value, value, l_value);
}
NAMES(info_get_string, INFO_GET_STRING,
      (integer * info, char *key, integer *length, char *value, integer *flag, integer *ierror, size_t l_key, size_t l_value))

void pmpi_info_create_env_(integer *info, integer *ierror)
{
    OPTIONAL
    MPI_Info made = 0;
    *ierror = PMPI_Info_create_env(0, NULL, &made);
    if (*ierror == 0)
        *info = F(Info, made);
}
NAMES(info_create_env, INFO_CREATE_ENV, (integer *info, integer *ierror))

void pmpi_type_get_contents_(integer *type, integer *integers, integer *addresses, integer *types, integer *i, MPI_Aint *a, integer *d, integer *ierror)
{
    OPTIONAL
    MPI_Datatype few[FEW], *found = room(few, sizeof few, *types, sizeof *found);
    *ierror = PMPI_Type_get_contents(C(Type, *type), *integers, *addresses, *types, i, a, found);
    int combiner, of_i, of_a, of_d = 0;
    if (*ierror == 0)
        PMPI_Type_get_envelope(C(Type, *type), &of_i, &of_a, &of_d, &combiner);
    for (int at = 0; *ierror == 0 && at < of_d; at++)
        d[at] = F(Type, found[at]);
    if (found != few)
        free(found);
}
NAMES(type_get_contents, TYPE_GET_CONTENTS,
      (integer * type, integer *integers, integer *addresses, integer *types, integer *i, MPI_Aint *a, integer *d, integer *ierror))

void pmpi_type_get_contents_c_(integer *type, MPI_Count *integers, MPI_Count *addresses, MPI_Count *counts, MPI_Count *types, integer *i, MPI_Aint *a,
                               MPI_Count *c, integer *d, integer *ierror)
{
    OPTIONAL
    MPI_Datatype few[FEW], *found = room(few, sizeof few, (int)*types, sizeof *found);
    *ierror = PMPI_Type_get_contents_c(C(Type, *type), *integers, *addresses, *counts, *types, i, a, c, found);
    int combiner;
    MPI_Count of_i, of_a, of_c, of_d = 0;
    if (*ierror == 0)
        PMPI_Type_get_envelope_c(C(Type, *type), &of_i, &of_a, &of_c, &of_d, &combiner);
    for (MPI_Count at = 0; *ierror == 0 && at < of_d; at++)
        d[at] = F(Type, found[at]);
    if (found != few)
        free(found);
}
NAMES(type_get_contents_c, TYPE_GET_CONTENTS_C,
      (integer * type, MPI_Count *integers, MPI_Count *addresses, MPI_Count *counts, MPI_Count *types, integer *i, MPI_Aint *a, MPI_Count *c,
       integer *d, integer *ierror))

/* Arguments of a program: strings of one length, `step` characters apart, up to one that is blank. */
static char **arguments_of(char *argv, size_t length, size_t step)
{
    int count = 0;
    while (strspn(argv + count * step, " ") < length)
        count++;
    char **list = room(NULL, 0, count + 1, sizeof *list);
    for (int at = 0; at < count; at++)
        list[at] = taken(argv + at * step, length);
    list[count] = NULL;
    return list;
}

static void free_arguments(char **list)
{
    for (char **one = list; one && *one; one++)
        free(*one);
    free(list);
}

void pmpi_comm_spawn_(char *command, char *argv, integer *maxprocs, integer *info, integer *root, integer *comm, integer *intercomm,
                      integer *errcodes, integer *ierror, size_t l_command, size_t l_argv)
{
    OPTIONAL
    char *c_command = taken(command, l_command);
    char **list = argv == PLACE_ARGV IS_F08(argv, __mpi_f08_link_constants_MOD_mpi_argv_null) ? NULL : arguments_of(argv, l_argv, l_argv);
    MPI_Comm made = 0;
    *ierror = PMPI_Comm_spawn(c_command, list, *maxprocs, C(Info, *info), *root, C(Comm, *comm), &made,
                              errcodes == PLACE_ERRCODES IS_F08(errcodes, __mpi_f08_link_constants_MOD_mpi_errcodes_ignore) ? NULL : errcodes);
    if (*ierror == 0)
        *intercomm = F(Comm, made);
    free(c_command);
    free_arguments(list);
}
NAMES(comm_spawn, COMM_SPAWN,
      (char *command, char *argv, integer *maxprocs, integer *info, integer *root, integer *comm, integer *intercomm, integer *errcodes,
       integer *ierror, size_t l_command, size_t l_argv))

void pmpi_comm_spawn_multiple_(integer *count, char *commands, char *argvs, integer *maxprocs, integer *infos, integer *root, integer *comm,
                               integer *intercomm, integer *errcodes, integer *ierror, size_t l_command, size_t l_argv)
{
    OPTIONAL
    int programs = *count > 0 ? *count : 0;
    char **c_commands = room(NULL, 0, programs + 1, sizeof *c_commands);
    char ***lists = room(NULL, 0, programs + 1, sizeof *lists);
    MPI_Info *c_infos = room(NULL, 0, programs + 1, sizeof *c_infos);
    int has_arguments = !(argvs == PLACE_ARGVS IS_F08(argvs, __mpi_f08_link_constants_MOD_mpi_argvs_null));
    for (int at = 0; at < programs; at++) {
        c_commands[at] = taken(commands + at * l_command, l_command);
        /* argv(count, *): those of one program are `count` strings apart. */
        lists[at] = has_arguments ? arguments_of(argvs + at * l_argv, l_argv, programs * l_argv) : NULL;
        c_infos[at] = C(Info, infos[at]);
    }
    MPI_Comm made = 0;
    *ierror = PMPI_Comm_spawn_multiple(programs, c_commands, has_arguments ? lists : NULL, maxprocs, c_infos, *root, C(Comm, *comm), &made,
                                       errcodes == PLACE_ERRCODES IS_F08(errcodes, __mpi_f08_link_constants_MOD_mpi_errcodes_ignore) ? NULL : errcodes);
    if (*ierror == 0)
        *intercomm = F(Comm, made);
    for (int at = 0; at < programs; at++) {
        free(c_commands[at]);
        free_arguments(lists[at]);
    }
    free(c_commands);
    free(lists);
    free(c_infos);
}
NAMES(comm_spawn_multiple, COMM_SPAWN_MULTIPLE,
      (integer * count, char *commands, char *argvs, integer *maxprocs, integer *infos, integer *root, integer *comm, integer *intercomm,
       integer *errcodes, integer *ierror, size_t l_command, size_t l_argv))

/* Removed by MPI-3, and still in programs: addresses are default integers, as far as those go. */
void pmpi_address_(void *location, integer *address, integer *ierror)
{
    OPTIONAL
    *address = (integer)(MPI_Aint)data_at(location);
    *ierror = 0;
}
NAMES(address, ADDRESS, (void *location, integer *address, integer *ierror))

static MPI_Aint *widened(const integer *given, int count)
{
    MPI_Aint *wide = room(NULL, 0, count > 0 ? count : 1, sizeof *wide);
    for (int at = 0; at < count; at++)
        wide[at] = given[at];
    return wide;
}

void pmpi_type_struct_(integer *count, integer *lengths, integer *displacements, integer *types, integer *newtype, integer *ierror)
{
    OPTIONAL
    MPI_Aint *wide = widened(displacements, *count);
    pmpi_type_create_struct_(count, lengths, wide, types, newtype, ierror);
    free(wide);
}
NAMES(type_struct, TYPE_STRUCT,
      (integer * count, integer *lengths, integer *displacements, integer *types, integer *newtype, integer *ierror))

void pmpi_type_hindexed_(integer *count, integer *lengths, integer *displacements, integer *type, integer *newtype, integer *ierror)
{
    OPTIONAL
    MPI_Aint *wide = widened(displacements, *count);
    pmpi_type_create_hindexed_(count, lengths, wide, type, newtype, ierror);
    free(wide);
}
NAMES(type_hindexed, TYPE_HINDEXED,
      (integer * count, integer *lengths, integer *displacements, integer *type, integer *newtype, integer *ierror))

void pmpi_type_hvector_(integer *count, integer *length, integer *stride, integer *type, integer *newtype, integer *ierror)
{
    OPTIONAL
    MPI_Aint wide = *stride;
    pmpi_type_create_hvector_(count, length, &wide, type, newtype, ierror);
}
NAMES(type_hvector, TYPE_HVECTOR, (integer * count, integer *length, integer *stride, integer *type, integer *newtype, integer *ierror))

#define BOUND(lower_case, upper_case, value) \
    void pmpi_type_##lower_case##_(integer *type, integer *result, integer *ierror) \
    { \
        OPTIONAL \
        MPI_Aint lower = 0, extent = 0; \
        *ierror = PMPI_Type_get_extent(C(Type, *type), &lower, &extent); \
        *result = (integer)(value); \
    } \
    NAMES(type_##lower_case, TYPE_##upper_case, (integer * type, integer *result, integer *ierror))
BOUND(extent, EXTENT, extent)
BOUND(lb, LB, lower)
BOUND(ub, UB, lower + extent)

void pmpi_errhandler_set_(integer *comm, integer *errhandler, integer *ierror)
{
    OPTIONAL
    pmpi_comm_set_errhandler_(comm, errhandler, ierror);
}
NAMES(errhandler_set, ERRHANDLER_SET, (integer * comm, integer *errhandler, integer *ierror))

void pmpi_errhandler_get_(integer *comm, integer *errhandler, integer *ierror)
{
    OPTIONAL
    pmpi_comm_get_errhandler_(comm, errhandler, ierror);
}
NAMES(errhandler_get, ERRHANDLER_GET, (integer * comm, integer *errhandler, integer *ierror))
