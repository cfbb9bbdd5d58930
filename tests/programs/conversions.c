/* Handles as integers, which are those of Fortran, and back; statuses; what the ABI says of itself and of
 * Fortran. */
#include "check.h"

/* Predefined and null handles are the same numbers in all languages; made ones come back as they were, and
 * freed ones as null. */
#define SAME(kind, handle)                                                                               \
    do {                                                                                                 \
        MPI_Fint number_ = MPI_##kind##_c2f(handle);                                                     \
        CHECK(MPI_##kind##_f2c(number_) == (handle));                                                    \
        CHECK_EQUAL(number_, MPI_##kind##_toint(handle));                                                \
        CHECK(MPI_##kind##_fromint(number_) == (handle));                                                \
        CHECK(PMPI_##kind##_f2c(PMPI_##kind##_c2f(handle)) == (handle));                                 \
    } while (0)

#define NUMBER(kind, handle) CHECK_EQUAL(MPI_##kind##_c2f(handle), (intptr_t)(handle))

static void predefined(void)
{
    NUMBER(Comm, MPI_COMM_WORLD);
    NUMBER(Comm, MPI_COMM_SELF);
    NUMBER(Comm, MPI_COMM_NULL);
    NUMBER(Group, MPI_GROUP_NULL);
    NUMBER(Group, MPI_GROUP_EMPTY);
    NUMBER(Type, MPI_INT);
    NUMBER(Type, MPI_DATATYPE_NULL);
    NUMBER(Type, MPI_DOUBLE_COMPLEX);
    NUMBER(Type, MPI_INTEGER4);
    NUMBER(Op, MPI_SUM);
    NUMBER(Op, MPI_OP_NULL);
    NUMBER(Op, MPI_NO_OP);
    NUMBER(Request, MPI_REQUEST_NULL);
    NUMBER(Message, MPI_MESSAGE_NULL);
    NUMBER(Message, MPI_MESSAGE_NO_PROC);
    NUMBER(Info, MPI_INFO_NULL);
    NUMBER(Info, MPI_INFO_ENV);
    NUMBER(Win, MPI_WIN_NULL);
    NUMBER(File, MPI_FILE_NULL);
    NUMBER(Session, MPI_SESSION_NULL);
    NUMBER(Errhandler, MPI_ERRHANDLER_NULL);
    NUMBER(Errhandler, MPI_ERRORS_RETURN);
    SAME(Comm, MPI_COMM_WORLD);
    SAME(Comm, MPI_COMM_NULL);
    SAME(Type, MPI_BYTE);
    SAME(Op, MPI_MAXLOC);
    SAME(Request, MPI_REQUEST_NULL);
    SAME(File, MPI_FILE_NULL);
    SAME(Message, MPI_MESSAGE_NO_PROC);
}

static void nothing(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
}

static void raise(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
}

static void made(void)
{
    static int words[4];
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request request, sent;
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Win win;
    MPI_Session session;
    MPI_Message message;
    MPI_Fint number;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_group(comm, &group);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Op_create(nothing, 1, &op);
    MPI_Irecv(words, 1, MPI_INT, 0, 1, comm, &request);
    MPI_Info_create(&info);
    MPI_Comm_create_errhandler(raise, &handler);
    MPI_Win_create(words, sizeof words, 1, MPI_INFO_NULL, comm, &win);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Isend(words + 1, 1, MPI_INT, 0, 2, comm, &sent);
    MPI_Mprobe(0, 2, comm, &message, MPI_STATUS_IGNORE);
    SAME(Comm, comm);
    SAME(Group, group);
    SAME(Type, type);
    SAME(Op, op);
    SAME(Request, request);
    SAME(Info, info);
    SAME(Errhandler, handler);
    SAME(Win, win);
    SAME(Session, session);
    SAME(Message, message);
    /* Uses the handles as Fortran would. */
    int size = 0;
    number = MPI_Type_c2f(type);
    MPI_Type_size(MPI_Type_f2c(number), &size);
    CHECK_EQUAL(size, 12);
    MPI_Mrecv(words + 2, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_free(&win);
    MPI_Type_free(&type);
    CHECK(MPI_Type_f2c(number) == MPI_DATATYPE_NULL);
    number = MPI_Comm_c2f(comm);
    MPI_Comm_free(&comm);
    CHECK(MPI_Comm_f2c(number) == MPI_COMM_NULL);
    CHECK(MPI_Comm_f2c(0x7ffffff) == MPI_COMM_NULL);
    MPI_Group_free(&group);
    MPI_Op_free(&op);
    MPI_Info_free(&info);
    MPI_Errhandler_free(&handler);
    MPI_Session_finalize(&session);
}

static void statuses(void)
{
    MPI_Fint words[MPI_F_STATUS_SIZE];
    MPI_Status status, back;
    int value = 7, copy = 0, count = 0, cancelled = 1;
    MPI_Sendrecv(&value, 1, MPI_INT, 0, 9, &copy, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &status);
    status.MPI_ERROR = MPI_ERR_OTHER;
    CHECK_EQUAL(MPI_Status_c2f(&status, words), MPI_SUCCESS);
    CHECK(words[MPI_F_SOURCE] == 0 && words[MPI_F_TAG] == 9 && words[MPI_F_ERROR] == MPI_ERR_OTHER);
    CHECK_EQUAL(sizeof words, sizeof status);
    memset(&back, 0xff, sizeof back);
    CHECK_EQUAL(MPI_Status_f2c(words, &back), MPI_SUCCESS);
    CHECK(!memcmp(&status, &back, sizeof status));
    MPI_Get_count(&back, MPI_INT, &count);
    MPI_Test_cancelled(&back, &cancelled);
    CHECK(count == 1 && !cancelled);
}

static int is(MPI_Info info, const char *key, const char *wanted)
{
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0, length = sizeof value;
    MPI_Info_get_string(info, key, &length, value, &flag);
    return flag && !strcmp(value, wanted);
}

#ifdef MPI_ABI_VERSION
static void of_the_abi(void)
{
    MPI_Info info;
    int major = 0, minor = -1, set = 0, value = 0;
    unsigned char yes[16], no[16];
    CHECK_CLASS(MPI_Abi_get_version(&major, &minor), MPI_SUCCESS);
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION);
    CHECK_CLASS(MPI_Abi_get_info(&info), MPI_SUCCESS);
    CHECK(is(info, "mpi_aint_size", "8") && is(info, "mpi_count_size", "8") && is(info, "mpi_offset_size", "8"));
    MPI_Info_free(&info);
    CHECK_CLASS(MPI_Abi_get_fortran_info(&info), MPI_SUCCESS);
    CHECK(is(info, "mpi_integer_size", "4") && is(info, "mpi_real_size", "4") && is(info, "mpi_logical_size", "4"));
    CHECK(is(info, "mpi_double_precision_size", "8") && is(info, "mpi_integer8_supported", "true"));
    CHECK_CLASS(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI); /* set already */
    MPI_Info_free(&info);
    for (int bytes = 1; bytes <= 16; bytes *= 2) {
        memset(yes, 9, sizeof yes), memset(no, 9, sizeof no);
        CHECK_CLASS(MPI_Abi_get_fortran_booleans(bytes, yes, no, &set), MPI_SUCCESS);
        CHECK(set && yes[0] == 1 && no[0] == 0 && (bytes == 16 || (yes[bytes] == 9 && no[bytes] == 9)));
    }
    CHECK_CLASS(MPI_Abi_get_fortran_booleans(3, yes, no, &set), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Abi_set_fortran_booleans(4, yes, no), MPI_ERR_ABI);
    /* Types of Fortran are there, with the sizes told. */
    MPI_Type_size(MPI_INTEGER, &value);
    CHECK_EQUAL(value, 4);
    MPI_Type_size(MPI_DOUBLE_COMPLEX, &value);
    CHECK_EQUAL(value, 16);
    CHECK(MPI_F_STATUS_SIZE == 8 && MPI_F_SOURCE == 0 && MPI_F_TAG == 1 && MPI_F_ERROR == 2);
}
#endif

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    predefined();
    made();
    statuses();
#ifdef MPI_ABI_VERSION
    of_the_abi();
#endif
    return check_end();
}
