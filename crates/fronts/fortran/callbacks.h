/* Functions of the program, in Fortran, which the library calls.
 *
 * What has an extra state (attributes, generalised requests) gets a context in its place. Operators and
 * error handlers have none: they are made under a dialect of their own (crates/abi/src/dialect.rs), whose
 * callers get the program's function and handles of the standard ABI. */

extern struct {
    uint64_t version;
    void (*speak)(const void *dialect);
} tutti_interface;

/* Handles of the standard ABI as integers of Fortran, and its error codes in this ABI. */
#if defined TUTTI_MPICH || defined TUTTI_OPENMPI
int tutti_fortran_datatype(void *standard);
int tutti_fortran_comm(void *standard);
int tutti_fortran_file(void *standard);
int tutti_fortran_win(void *standard);
int tutti_fortran_session(void *standard);
int tutti_fortran_error(int standard);
#else
#define tutti_fortran_datatype(handle) F(Type, handle)
#define tutti_fortran_comm(handle) F(Comm, handle)
#define tutti_fortran_file(handle) F(File, handle)
#define tutti_fortran_win(handle) F(Win, handle)
#define tutti_fortran_session(handle) F(Session, handle)
#define tutti_fortran_error(code) (code)
#endif

static void never(void)
{
    fputs("tutti: a callback of Fortran was called as another\n", stderr);
    abort();
}

static void call_MPI_User_function(uintptr_t function, void *in, void *inout, int *len, void **datatype)
{
    integer number = tutti_fortran_datatype(*datatype);
    ((void (*)(void *, void *, integer *, integer *))function)(in, inout, len, &number);
}

static void call_MPI_User_function_c(uintptr_t function, void *in, void *inout, MPI_Count *len, void **datatype)
{
    integer number = tutti_fortran_datatype(*datatype);
    ((void (*)(void *, void *, MPI_Count *, integer *))function)(in, inout, len, &number);
}

#define ERRHANDLER_CALLER(Kind, kind) \
    static void call_MPI_##Kind##_errhandler_function(uintptr_t function, void **object, int *code) \
    { \
        integer number = tutti_fortran_##kind(*object), error = tutti_fortran_error(*code); \
        ((void (*)(integer *, integer *))function)(&number, &error); \
    }
ERRHANDLER_CALLER(Comm, comm)
ERRHANDLER_CALLER(File, file)
ERRHANDLER_CALLER(Win, win)
ERRHANDLER_CALLER(Session, session)

#define OP_CREATE(lower, upper, Name) \
    void pmpi_##lower##_(void *function, integer *commute, integer *op, integer *ierror) \
    { \
        OPTIONAL \
        MPI_Op made = 0; \
        tutti_interface.speak(&FORTRAN); \
        *ierror = PMPI_##Name(function, *commute & 1, &made); \
        tutti_interface.speak(NULL); \
        if (*ierror == 0) \
            *op = F(Op, made); \
    } \
    NAMES(lower, upper, (void *function, integer *commute, integer *op, integer *ierror))
OP_CREATE(op_create, OP_CREATE, Op_create)
OP_CREATE(op_create_c, OP_CREATE_C, Op_create_c)

#define CREATE_ERRHANDLER(Kind, kind, KIND) \
    void pmpi_##kind##_create_errhandler_(void *function, integer *errhandler, integer *ierror) \
    { \
        OPTIONAL \
        MPI_Errhandler made = 0; \
        tutti_interface.speak(&FORTRAN); \
        *ierror = PMPI_##Kind##_create_errhandler(function, &made); \
        tutti_interface.speak(NULL); \
        if (*ierror == 0) \
            *errhandler = F(Errhandler, made); \
    } \
    NAMES(kind##_create_errhandler, KIND##_CREATE_ERRHANDLER, (void *function, integer *errhandler, integer *ierror))
CREATE_ERRHANDLER(Comm, comm, COMM)
CREATE_ERRHANDLER(File, file, FILE)
CREATE_ERRHANDLER(Win, win, WIN)
CREATE_ERRHANDLER(Session, session, SESSION)

void pmpi_errhandler_create_(void *function, integer *errhandler, integer *ierror)
{
    OPTIONAL
    pmpi_comm_create_errhandler_(function, errhandler, ierror);
}
NAMES(errhandler_create, ERRHANDLER_CREATE, (void *function, integer *errhandler, integer *ierror))

/* A key's functions and extra state. It lives as long as the process: objects may have the attribute when
 * the key is freed. */
struct key {
    void *copy, *delete;
    MPI_Aint state;
    /* Of MPI-1: attributes and the state are default integers. */
    int is_short;
};

static struct key *key_of(void *copy, void *delete, MPI_Aint state, int is_short)
{
    struct key *key = room(NULL, 0, 1, sizeof *key);
    *key = (struct key){copy, delete, state, is_short};
    return key;
}

/* An attribute of Fortran is an address of its value to C (MPI-5 section 19.3.7), and what C has set is an
 * address to Fortran. So values of Fortran are words, in blocks by which they are known; as C may have the
 * address for as long as it likes, they stay. */
enum { WORDS = 1020 };
struct words {
    struct words *next;
    size_t used;
    MPI_Aint words[WORDS];
};
static struct words *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static void *word_of(MPI_Aint value)
{
    pthread_mutex_lock(&blocks_lock);
    if (!blocks || blocks->used == WORDS) {
        struct words *block = room(NULL, 0, 1, sizeof *block);
        block->next = blocks;
        block->used = 0;
        blocks = block;
    }
    MPI_Aint *word = &blocks->words[blocks->used++];
    *word = value;
    pthread_mutex_unlock(&blocks_lock);
    return word;
}

static MPI_Aint value_of(void *found)
{
    int is_word = 0;
    pthread_mutex_lock(&blocks_lock);
    for (struct words *block = blocks; block && !is_word; block = block->next)
        is_word = found >= (void *)block->words && found < (void *)(block->words + WORDS);
    pthread_mutex_unlock(&blocks_lock);
    return is_word ? *(MPI_Aint *)found : (MPI_Aint)found;
}

/* Functions that MPI predefines for keys: they do nothing, or copy. They are called like a program's own. */
static int copy_value(struct key *key, integer object, int keyval, void *in, void *out, int *flag)
{
    integer number = keyval, truth = 0, error = 0;
    if (key->is_short) {
        integer state = (integer)key->state, value = (integer)value_of(in), copy = 0;
        ((void (*)(integer *, integer *, integer *, integer *, integer *, integer *, integer *))key->copy)(
            &object, &number, &state, &value, &copy, &truth, &error);
        *(void **)out = word_of(copy);
    } else {
        MPI_Aint state = key->state, value = value_of(in), copy = 0;
        ((void (*)(integer *, integer *, MPI_Aint *, MPI_Aint *, MPI_Aint *, integer *, integer *))key->copy)(
            &object, &number, &state, &value, &copy, &truth, &error);
        *(void **)out = word_of(copy);
    }
    *flag = truth & 1;
    return error;
}

static int delete_value(struct key *key, integer object, int keyval, void *value)
{
    integer number = keyval, error = 0;
    if (key->is_short) {
        integer state = (integer)key->state, given = (integer)value_of(value);
        ((void (*)(integer *, integer *, integer *, integer *, integer *))key->delete)(&object, &number, &given, &state, &error);
    } else {
        MPI_Aint state = key->state, given = value_of(value);
        ((void (*)(integer *, integer *, MPI_Aint *, MPI_Aint *, integer *))key->delete)(&object, &number, &given, &state, &error);
    }
    return error;
}

#define KEYS(Kind, kind, KIND, type) \
    static int kind##_copy(type object, int keyval, void *state, void *in, void *out, int *flag) \
    { \
        return copy_value(state, F(Kind, object), keyval, in, out, flag); \
    } \
    static int kind##_delete(type object, int keyval, void *value, void *state) \
    { \
        return delete_value(state, F(Kind, object), keyval, value); \
    } \
    void pmpi_##kind##_create_keyval_(void *copy, void *delete, integer *keyval, MPI_Aint *state, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Kind##_create_keyval(kind##_copy, kind##_delete, keyval, key_of(copy, delete, *state, 0)); \
    } \
    NAMES(kind##_create_keyval, KIND##_CREATE_KEYVAL, \
          (void *copy, void *delete, integer *keyval, MPI_Aint *state, integer *ierror)) \
    void pmpi_##kind##_set_attr_(integer *object, integer *keyval, MPI_Aint *value, integer *ierror) \
    { \
        OPTIONAL \
        *ierror = PMPI_##Kind##_set_attr(C(Kind, *object), *keyval, word_of(*value)); \
    } \
    NAMES(kind##_set_attr, KIND##_SET_ATTR, (integer *object, integer *keyval, MPI_Aint *value, integer *ierror)) \
    void pmpi_##kind##_get_attr_(integer *object, integer *keyval, MPI_Aint *value, integer *flag, integer *ierror) \
    { \
        OPTIONAL \
        void *found = NULL; \
        *ierror = PMPI_##Kind##_get_attr(C(Kind, *object), KEY(*keyval), &found, flag); \
        if (*ierror == 0 && *flag) \
            *value = read_##kind(KEY(*keyval), found); \
    } \
    NAMES(kind##_get_attr, KIND##_GET_ATTR, \
          (integer *object, integer *keyval, MPI_Aint *value, integer *flag, integer *ierror))

/* C gets an address of what is predefined, Fortran the value (MPI-5 section 19.3.7). */
static MPI_Aint read_comm(int keyval, void *found)
{
    int is_ours = keyval == TAG_UB || keyval == HOST || keyval == IO || keyval == WTIME_IS_GLOBAL || keyval == APPNUM || keyval == LAST_CODE ||
                  keyval == UNIVERSE_SIZE;
    return is_ours ? *(int *)found : value_of(found);
}

static MPI_Aint read_type(int keyval, void *found)
{
    (void)keyval;
    return value_of(found);
}

static MPI_Aint read_win(int keyval, void *found)
{
    if (keyval == WIN_SIZE)
        return *(MPI_Aint *)found;
    return keyval == WIN_DISP_UNIT || keyval == WIN_FLAVOR || keyval == WIN_MODEL ? *(int *)found : value_of(found);
}

KEYS(Comm, comm, COMM, MPI_Comm)
KEYS(Type, type, TYPE, MPI_Datatype)
KEYS(Win, win, WIN, MPI_Win)

void pmpi_keyval_create_(void *copy, void *delete, integer *keyval, integer *state, integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Comm_create_keyval(comm_copy, comm_delete, keyval, key_of(copy, delete, *state, 1));
}
NAMES(keyval_create, KEYVAL_CREATE, (void *copy, void *delete, integer *keyval, integer *state, integer *ierror))

void pmpi_attr_put_(integer *comm, integer *keyval, integer *value, integer *ierror)
{
    OPTIONAL
    *ierror = PMPI_Comm_set_attr(C(Comm, *comm), *keyval, word_of(*value));
}
NAMES(attr_put, ATTR_PUT, (integer *comm, integer *keyval, integer *value, integer *ierror))

void pmpi_attr_get_(integer *comm, integer *keyval, integer *value, integer *flag, integer *ierror)
{
    OPTIONAL
    MPI_Aint found = *value;
    pmpi_comm_get_attr_(comm, keyval, &found, flag, ierror);
    *value = (integer)found;
}
NAMES(attr_get, ATTR_GET, (integer *comm, integer *keyval, integer *value, integer *flag, integer *ierror))

#define COPIES(prefix, PREFIX, value_type) \
    void prefix##null_copy_fn_(integer *o, integer *k, value_type *s, value_type *in, value_type *out, integer *flag, integer *ierror) \
    { \
        (void)o, (void)k, (void)s, (void)in, (void)out; \
        *flag = *ierror = 0; \
    } \
    void prefix##null_delete_fn_(integer *o, integer *k, value_type *value, value_type *s, integer *ierror) \
    { \
        (void)o, (void)k, (void)value, (void)s; \
        *ierror = 0; \
    } \
    void prefix##dup_fn_(integer *o, integer *k, value_type *s, value_type *in, value_type *out, integer *flag, integer *ierror) \
    { \
        (void)o, (void)k, (void)s; \
        *out = *in; \
        *flag = 1; \
        *ierror = 0; \
    }
COPIES(mpi_, MPI_, integer)
COPIES(mpi_comm_, MPI_COMM_, MPI_Aint)
COPIES(mpi_type_, MPI_TYPE_, MPI_Aint)
COPIES(mpi_win_, MPI_WIN_, MPI_Aint)

void mpi_conversion_fn_null_(void)
{
    never();
}

void mpi_conversion_fn_null_c_(void)
{
    never();
}

/* A representation of data in files, which lives as long as the process. */
struct representation {
    void *read, *write, *extent;
    MPI_Aint state;
};

static int file_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    struct representation *made = state;
    integer number = F(Type, datatype), error = 0;
    ((void (*)(integer *, MPI_Aint *, MPI_Aint *, integer *))made->extent)(&number, extent, &made->state, &error);
    return error;
}

#define CONVERSION(name, way, count, number) \
    static int name(void *memory, MPI_Datatype datatype, count items, void *file, MPI_Offset position, void *state) \
    { \
        struct representation *made = state; \
        integer type = F(Type, datatype), error = 0; \
        number given = items; \
        ((void (*)(void *, integer *, number *, void *, MPI_Offset *, MPI_Aint *, integer *))made->way)( \
            memory, &type, &given, file, &position, &made->state, &error); \
        return error; \
    }
CONVERSION(read_items, read, int, integer)
CONVERSION(write_items, write, int, integer)
CONVERSION(read_items_c, read, MPI_Count, MPI_Count)
CONVERSION(write_items_c, write, MPI_Count, MPI_Count)

#define REGISTER(suffix, SUFFIX) \
    void pmpi_register_datarep##suffix##_(char *name, void *read, void *write, void *extent, MPI_Aint *state, integer *ierror, size_t l_name) \
    { \
        OPTIONAL \
        void *nothing = (void *)mpi_conversion_fn_null##suffix##_; \
        struct representation *made = room(NULL, 0, 1, sizeof *made); \
        *made = (struct representation){read, write, extent, *state}; \
        char *c_name = taken(name, l_name); \
        *ierror = PMPI_Register_datarep##suffix(c_name, read == nothing ? NULL : (void *)read_items##suffix, \
                                                write == nothing ? NULL : (void *)write_items##suffix, (void *)file_extent, made); \
        free(c_name); \
    } \
    NAMES(register_datarep##suffix, REGISTER_DATAREP##SUFFIX, \
          (char *name, void *read, void *write, void *extent, MPI_Aint *state, integer *ierror, size_t l_name))
REGISTER(, )
REGISTER(_c, _C)

/* A generalised request. Its functions get the program's own variable as the extra state, as in other
 * libraries, and may change it. */
struct generalised {
    void *query, *free, *cancel;
    MPI_Aint *state;
};

static int query_request(void *state, MPI_Status *status)
{
    struct generalised *request = state;
    integer error = 0;
    ((void (*)(MPI_Aint *, integer *, integer *))request->query)(request->state, (integer *)status, &error);
    return error;
}

static int free_request(void *state)
{
    struct generalised *request = state;
    integer error = 0;
    ((void (*)(MPI_Aint *, integer *))request->free)(request->state, &error);
    free(request);
    return error;
}

static int cancel_request(void *state, int complete)
{
    struct generalised *request = state;
    integer error = 0, truth = complete != 0;
    ((void (*)(MPI_Aint *, integer *, integer *))request->cancel)(request->state, &truth, &error);
    return error;
}

void pmpi_grequest_start_(void *query, void *free_, void *cancel, MPI_Aint *state, integer *request, integer *ierror)
{
    OPTIONAL
    struct generalised *made = room(NULL, 0, 1, sizeof *made);
    *made = (struct generalised){query, free_, cancel, state};
    MPI_Request handle = 0;
    *ierror = PMPI_Grequest_start(query_request, free_request, cancel_request, made, &handle);
    if (*ierror == 0)
        *request = F(Request, handle);
}
NAMES(grequest_start, GREQUEST_START, (void *query, void *free_, void *cancel, MPI_Aint *state, integer *request, integer *ierror))
