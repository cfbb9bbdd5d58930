/* Deprecated and removed interfaces, language bindings and the binary interface (MPI-5, chapters 16 to 20).
   */
#include "rows.h"

static void conversions(void)
{
    MPI_Request request, again;
    MPI_Datatype type;
    MPI_Comm comm;
    MPI_Info info;
    int n, flag;
    HOLDS("20.3", "MPI_COMM_WORLD", MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    HOLDS("20.3", "MPI_COMM_NULL", MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_NULL)) == MPI_COMM_NULL);
    HOLDS("20.3", "MPI_INT", MPI_Type_fromint(MPI_Type_toint(MPI_INT)) == MPI_INT);
    HOLDS("20.3", "MPI_DATATYPE_NULL", MPI_Type_fromint(MPI_Type_toint(MPI_DATATYPE_NULL)) == MPI_DATATYPE_NULL);
    HOLDS("20.3", "MPI_SUM", MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
    HOLDS("20.3", "MPI_GROUP_EMPTY", MPI_Group_fromint(MPI_Group_toint(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    HOLDS("20.3", "MPI_INFO_ENV", MPI_Info_fromint(MPI_Info_toint(MPI_INFO_ENV)) == MPI_INFO_ENV);
    HOLDS("20.3", "MPI_ERRORS_RETURN", MPI_Errhandler_fromint(MPI_Errhandler_toint(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    HOLDS("20.3", "MPI_FILE_NULL", MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
    HOLDS("20.3", "MPI_WIN_NULL", MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
    HOLDS("20.3", "MPI_REQUEST_NULL", MPI_Request_fromint(MPI_Request_toint(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    HOLDS("20.3", "MPI_MESSAGE_NO_PROC", MPI_Message_fromint(MPI_Message_toint(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    HOLDS("20.3", "MPI_SESSION_NULL", MPI_Session_fromint(MPI_Session_toint(MPI_SESSION_NULL)) == MPI_SESSION_NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    HOLDS("20.3", "a communicator of the program", MPI_Comm_fromint(MPI_Comm_toint(comm)) == comm);
    MPI_Comm_free(&comm);
    MPI_Type_contiguous(2, MPI_INT, &type);
    HOLDS("20.3", "a datatype of the program", MPI_Type_fromint(MPI_Type_toint(type)) == type);
    MPI_Type_free(&type);
    MPI_Irecv(&n, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &request);
    again = MPI_Request_fromint(MPI_Request_toint(request));
    HOLDS("20.3", "a request", again == request);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ALLOWED("20.2", "MPI_Abi_get_info", MPI_Abi_get_info(&info));
    TEXT("20.2", "bytes of an address", value_of(info, "mpi_aint_size"), "8");
    MPI_Info_free(&info);
    ALLOWED("20.2", "MPI_Abi_get_version", MPI_Abi_get_version(&n, &flag));
    ROW("20.2", "version of the ABI", n, MPI_ABI_VERSION);
}

static void deprecated(void)
{
    int key, flag, n;
    void *value;
    char memory[4];
    MPI_Comm comm;
    MPI_Count counts[2];
    MPI_Status status;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    ALLOWED("16.1", "MPI_Keyval_create", MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &key, NULL));
    MPI_Attr_put(comm, key, memory);
    MPI_Attr_get(comm, key, &value, &flag);
    HOLDS("16.1", "MPI_Attr_put and MPI_Attr_get", flag && value == memory);
    MPI_Attr_delete(comm, key);
    MPI_Attr_get(comm, key, &value, &flag);
    ROW("16.1", "MPI_Attr_delete", flag, 0);
    MPI_Keyval_free(&key);
    ROW("16.1", "MPI_Keyval_free", key, MPI_KEYVAL_INVALID);
    MPI_Comm_free(&comm);
    MPI_Type_size_x(MPI_DOUBLE, &counts[0]);
    ROW("16.4", "MPI_Type_size_x", counts[0], 8);
    MPI_Type_get_extent_x(MPI_DOUBLE, &counts[0], &counts[1]);
    HOLDS("16.4", "MPI_Type_get_extent_x", counts[0] == 0 && counts[1] == 8);
    MPI_Type_get_true_extent_x(MPI_DOUBLE, &counts[0], &counts[1]);
    HOLDS("16.4", "MPI_Type_get_true_extent_x", counts[0] == 0 && counts[1] == 8);
    MPI_Status_set_elements_x(&status, MPI_INT, 9);
    MPI_Get_elements_x(&status, MPI_INT, &counts[0]);
    ROW("16.4", "MPI_Status_set_elements_x and MPI_Get_elements_x", counts[0], 9);
    (void)n;
}

static void constants(void)
{
    HOLDS("20", "special ranks are negative and differ", MPI_ANY_SOURCE < 0 && MPI_PROC_NULL < 0 && MPI_ROOT < 0 && MPI_ANY_SOURCE != MPI_PROC_NULL && MPI_ROOT != MPI_PROC_NULL && MPI_ANY_SOURCE != MPI_ROOT);
    HOLDS("20", "a tag of any kind is negative", MPI_ANY_TAG < 0);
    ROW("9.4", "success is 0", MPI_SUCCESS, 0);
    HOLDS("9.4", "classes are positive", MPI_ERR_BUFFER > 0 && MPI_ERR_LASTCODE >= MPI_ERR_RMA_SHARED);
    HOLDS("11.2.1", "thread levels rise", MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED && MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
    HOLDS("20.3", "widths", sizeof(MPI_Aint) == sizeof(void *) && sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8 && sizeof(MPI_Status) == 32);
    HOLDS("20.3", "null handles differ from 0 in the standard ABI", MPI_COMM_NULL != (MPI_Comm)0 && MPI_REQUEST_NULL != (MPI_Request)0);
    HOLDS("12.5.5", "assertions are bits", !(MPI_MODE_NOCHECK & MPI_MODE_NOSTORE) && !(MPI_MODE_NOPUT & MPI_MODE_NOPRECEDE) && !(MPI_MODE_NOSUCCEED & MPI_MODE_NOCHECK));
    HOLDS("14.2.1", "access modes are bits", !(MPI_MODE_RDONLY & MPI_MODE_RDWR) && !(MPI_MODE_CREATE & MPI_MODE_EXCL) && !(MPI_MODE_APPEND & MPI_MODE_SEQUENTIAL));
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    conversions();
    deprecated();
    constants();
    return rows_end();
}
