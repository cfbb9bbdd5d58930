/* Input and output (MPI-5, chapter 14). Argument: a folder for files. */
#include "rows.h"
#include <unistd.h>

static MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
static char path[512], own[540];

static MPI_File opened(MPI_Comm comm, int amode, MPI_Info info)
{
    MPI_File file = MPI_FILE_NULL;
    MPI_File_open(comm, comm == self ? own : path, amode, info, &file);
    return file;
}

static void opening(void)
{
    MPI_File file = MPI_FILE_NULL, null = MPI_FILE_NULL;
    int amode;
    MPI_Group group, all;
    MPI_Offset size;
    REFUSED("14.2.1", "open of what is not there", MPI_File_open(self, own, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    REFUSED("14.2.1", "open without access", MPI_File_open(self, own, MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED("14.2.1", "open for two kinds of access", MPI_File_open(self, own, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED("14.2.1", "create of a file to read alone", MPI_File_open(self, own, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED("14.2.1", "exclusive open of a file to read alone", MPI_File_open(self, own, MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED("14.2.1", "sequential open for reading and writing", MPI_File_open(self, own, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    REFUSED("14.2.1", "open on MPI_COMM_NULL", MPI_File_open(MPI_COMM_NULL, own, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_COMM);
    REFUSED("14.2.3", "delete of what is not there", MPI_File_delete(own, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    ALLOWED("14.2.1", "create", MPI_File_open(self, own, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &file));
    REFUSED("14.2.1", "create of what is there", MPI_File_open(self, own, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &null), MPI_ERR_FILE_EXISTS);
    MPI_File_get_amode(file, &amode);
    ROW("14.2.7", "access mode", amode, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    MPI_File_get_group(file, &group);
    MPI_Comm_group(self, &all);
    MPI_Group_compare(group, all, &amode);
    ROW("14.2.7", "group", amode, MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    MPI_File_set_size(file, 1000);
    MPI_File_get_size(file, &size);
    ROW("14.2.6", "size", size, 1000);
    REFUSED("14.2.4", "a negative size", MPI_File_set_size(file, -1), MPI_ERR_ARG);
    MPI_File_preallocate(file, 500);
    MPI_File_get_size(file, &size);
    ROW("14.2.5", "preallocate does not shorten", size, 1000);
    MPI_File_close(&file);
    HOLDS("14.2.2", "a closed file is null", file == MPI_FILE_NULL);
    REFUSED("14.2.2", "close of MPI_FILE_NULL", MPI_File_close(&file), MPI_ERR_FILE);
    file = opened(self, MPI_MODE_RDONLY, MPI_INFO_NULL);
    REFUSED("14.2.4", "size of a file to read alone", MPI_File_set_size(file, 5), MPI_ERR_READ_ONLY);
    REFUSED("14.4", "write to a file to read alone", MPI_File_write(file, &amode, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    MPI_File_close(&file);
    file = opened(self, MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    REFUSED("14.4", "read of a file to write alone", MPI_File_read(file, &amode, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    MPI_File_close(&file);
    HOLDS("14.2.1", "MPI_MODE_DELETE_ON_CLOSE", access(own, F_OK) != 0);
}

static void views(void)
{
    MPI_File file = opened(self, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    MPI_Offset disp = -1, at;
    MPI_Datatype etype, filetype, strided, bytes;
    char datarep[MPI_MAX_DATAREP_STRING];
    int x[4] = {1, 2, 3, 4}, n, combiner[4];
    MPI_Status status;
    MPI_Aint extent;
    MPI_File_get_view(file, &disp, &etype, &filetype, datarep);
    HOLDS("14.3", "the view of a new file", disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE);
    TEXT("14.3", "its representation", datarep, "native");
    MPI_Type_vector(2, 1, 2, MPI_INT, &strided);
    MPI_Type_commit(&strided);
    REFUSED("14.3", "a negative displacement", MPI_File_set_view(file, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    REFUSED("14.3", "MPI_DISPLACEMENT_CURRENT for a file that is not sequential", MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    REFUSED("14.5", "a representation that is not known", MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nonsense", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    REFUSED("14.3", "an etype of MPI_DATATYPE_NULL", MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    REFUSED("14.3", "a filetype of other etypes", MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    ALLOWED("14.3", "a view with gaps", MPI_File_set_view(file, 4, MPI_INT, strided, "native", MPI_INFO_NULL));
    MPI_File_write(file, x, 4, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("14.4", "count of a write", n, 4);
    MPI_File_get_position(file, &at);
    ROW("14.4.3", "the pointer counts etypes", at, 4);
    MPI_File_get_byte_offset(file, 1, &at);
    ROW("14.4.3", "byte of an offset in a view", at, 12);
    MPI_File_seek(file, -1, MPI_SEEK_CUR);
    MPI_File_get_position(file, &at);
    ROW("14.4.3", "seek from the pointer", at, 3);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &at);
    ROW("14.4.3", "seek to the end", at, 4);
    REFUSED("14.4.3", "seek below zero", MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    REFUSED("14.4.3", "seek from nowhere", MPI_File_seek(file, 0, 4711), MPI_ERR_ARG);
    REFUSED("14.4.2", "read at a negative offset", MPI_File_read_at(file, -1, x, 1, MPI_INT, &status), MPI_ERR_ARG);
    REFUSED("14.4", "read of a negative count", MPI_File_read(file, x, -1, MPI_INT, &status), MPI_ERR_COUNT);
    REFUSED("14.4", "read of MPI_DATATYPE_NULL", MPI_File_read(file, x, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    MPI_File_read_at(file, 2, x, 4, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &n);
    HOLDS("14.4", "a read beyond the end is short", n == 2 && x[0] == 3 && x[1] == 4);
    MPI_File_get_view(file, &disp, &etype, &filetype, datarep);
    MPI_Type_get_envelope(filetype, &combiner[0], &combiner[1], &combiner[2], &combiner[3]);
    HOLDS("14.3", "the view that was set", disp == 4 && etype == MPI_INT && combiner[3] == MPI_COMBINER_VECTOR);
    MPI_Type_free(&filetype);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    MPI_File_get_view(file, &disp, &etype, &filetype, datarep);
    TEXT("14.5.2", "external32", datarep, "external32");
    MPI_File_get_type_extent(file, MPI_LONG_DOUBLE, &extent);
    ROW("14.5.1", "extent of a long double in external32", extent, 16);
    x[0] = 1;
    MPI_File_write_at(file, 0, x, 1, MPI_INT, &status);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, datarep, 4, MPI_BYTE, &status);
    HOLDS("14.5.2", "is big-endian", datarep[0] == 0 && datarep[3] == 1);
    MPI_Type_contiguous(4, MPI_BYTE, &bytes);
    REFUSED("14.3", "an etype that is not committed", MPI_File_set_view(file, 0, bytes, bytes, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    MPI_Type_free(&bytes);
    MPI_Type_free(&strided);
    MPI_File_close(&file);
}

static void sequential(void)
{
    MPI_File file;
    int x = 5, fd = MPI_SUCCESS;
    MPI_Offset at;
    file = opened(self, MPI_MODE_WRONLY | MPI_MODE_CREATE | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    REFUSED("14.3", "a view of a sequential file with a displacement", MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    ALLOWED("14.3", "a view of a sequential file", MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    REFUSED("14.4.3", "seek in a sequential file", MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    REFUSED("14.4.3", "position in a sequential file", MPI_File_get_position(file, &at), MPI_ERR_UNSUPPORTED_OPERATION);
    REFUSED("14.4.2", "write at an offset of a sequential file", MPI_File_write_at(file, 0, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    REFUSED("14.4.3", "write by the own pointer of a sequential file", MPI_File_write(file, &x, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    ALLOWED("14.4.4", "write by the shared pointer", MPI_File_write_shared(file, &x, 1, MPI_INT, MPI_STATUS_IGNORE));
    (void)fd;
    MPI_File_close(&file);
}

static int failing, conversions;

static int convert(void *user, MPI_Datatype type, int count, void *bytes, MPI_Offset position, void *extra)
{
    (void)type, (void)extra;
    conversions++;
    if (failing)
        return MPI_ERR_OTHER;
    for (int i = 0; i < count; i++)
        ((int *)user)[position + i] = ~((int *)bytes)[i];
    return MPI_SUCCESS;
}

static int deconvert(void *user, MPI_Datatype type, int count, void *bytes, MPI_Offset position, void *extra)
{
    (void)type, (void)extra;
    conversions++;
    if (failing)
        return MPI_ERR_OTHER;
    for (int i = 0; i < count; i++)
        ((int *)bytes)[i] = ~((int *)user)[position + i];
    return MPI_SUCCESS;
}

static int extent_of(MPI_Datatype type, MPI_Aint *extent, void *extra)
{
    int size;
    (void)extra;
    MPI_Type_size(type, &size);
    *extent = size;
    return MPI_SUCCESS;
}

static void representations(void)
{
    MPI_File file;
    int x[2] = {7, 8};
    REFUSED("14.5.3", "a representation that is there", MPI_Register_datarep("native", convert, deconvert, extent_of, NULL), MPI_ERR_DUP_DATAREP);
    if (MPI_Register_datarep("inverse", convert, deconvert, extent_of, NULL) != MPI_SUCCESS)
        return;
    REFUSED("14.5.3", "a representation twice", MPI_Register_datarep("inverse", convert, deconvert, extent_of, NULL), MPI_ERR_DUP_DATAREP);
    file = opened(self, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    if (MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "inverse", MPI_INFO_NULL) == MPI_SUCCESS) {
        ALLOWED("14.5.3", "write with a conversion", MPI_File_write_at(file, 0, x, 2, MPI_INT, MPI_STATUS_IGNORE));
        x[0] = x[1] = 0;
        ALLOWED("14.5.3", "read with a conversion", MPI_File_read_at(file, 0, x, 2, MPI_INT, MPI_STATUS_IGNORE));
        HOLDS("14.5.3", "gives the same", x[0] == 7 && x[1] == 8 && conversions >= 2);
        failing = 1;
        REFUSED("14.5.3", "a conversion that fails in a write", MPI_File_write_at(file, 0, x, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION);
        REFUSED("14.5.3", "a conversion that fails in a read", MPI_File_read_at(file, 0, x, 2, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_CONVERSION);
        failing = 0;
    }
    MPI_File_close(&file);
}

static const char *hint(MPI_File file, const char *key)
{
    MPI_Info info = MPI_INFO_NULL;
    const char *value;
    MPI_File_get_info(file, &info);
    value = value_of(info, key);
    MPI_Info_free(&info);
    return value;
}

static void set_hint(MPI_File file, const char *key, const char *value)
{
    MPI_Info info = info_with(key, value, NULL, NULL);
    ALLOWED("14.2.8", key, MPI_File_set_info(file, info));
    MPI_Info_free(&info);
}

static void hints(void)
{
    MPI_Info info = info_with("cb_buffer_size", "8192", "no such hint", "value");
    MPI_File file = opened(world, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info);
    TEXT("14.2.8", "a hint where the file is opened", hint(file, "cb_buffer_size"), "8192");
    TEXT("14.2.8", "one that is ignored", hint(file, "no such hint"), NULL);
    set_hint(file, "cb_nodes", "1");
    TEXT("14.2.8", "a hint that is set", hint(file, "cb_nodes"), "1");
    TEXT("14.2.8", "the other stays", hint(file, "cb_buffer_size"), "8192");
    set_hint(file, "cb_buffer_size", "16384");
    TEXT("14.2.8", "is changed where it is named", hint(file, "cb_buffer_size"), "16384");
    TEXT("14.2.8", "and the first stays", hint(file, "cb_nodes"), "1");
    MPI_Info_set(info, "cb_buffer_size", "32768");
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info);
    TEXT("14.2.8", "set_view takes hints", hint(file, "cb_buffer_size"), "32768");
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    TEXT("14.2.8", "and leaves them without any", hint(file, "cb_buffer_size"), "32768");
    TEXT("14.2.8", "and without that one", hint(file, "cb_nodes"), "1");
    if (hint(file, "collective_buffering")) {
        set_hint(file, "collective_buffering", "false");
        TEXT("14.2.8", "collective_buffering", hint(file, "collective_buffering"), "false");
        set_hint(file, "collective_buffering", "true");
        TEXT("14.2.8", "and back", hint(file, "collective_buffering"), "true");
    }
    HOLDS("11.4.3", "kinds of memory of a file", has_entry(hint(file, "mpi_memory_alloc_kinds"), "mpi") && has_entry(hint(file, "mpi_memory_alloc_kinds"), "system"));
    set_hint(file, "mpi_memory_alloc_kinds", "mpi:alloc_mem");
    HOLDS("11.4.3", "which cannot change", !has_entry(hint(file, "mpi_memory_alloc_kinds"), "mpi:alloc_mem"));
    ALLOWED("14.2.8", "no hints", MPI_File_set_info(file, MPI_INFO_NULL));
    MPI_File_close(&file);
    MPI_Info_free(&info);
}

/* Arguments that all members must give alike, and pointers (14.2, 14.4). */
static void agreement(void)
{
    MPI_File file = MPI_FILE_NULL;
    MPI_Offset at, size;
    MPI_Datatype etype, filetype;
    MPI_Errhandler handler;
    MPI_Status status;
    char datarep[MPI_MAX_DATAREP_STRING];
    int x = 5, n, is_other = check_rank == check_size - 1 && check_size > 1;
    if (check_size > 1)
        REFUSED("14.2.1", "open with access modes that differ", MPI_File_open(world, path, (is_other ? MPI_MODE_WRONLY : MPI_MODE_RDWR) | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
    file = opened(world, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL);
    MPI_File_get_errhandler(file, &handler);
    HOLDS("14.7", "errors of files return by default", handler == MPI_ERRORS_RETURN);
    if (check_size > 1) {
        REFUSED("14.2.4", "sizes that differ", MPI_File_set_size(file, is_other ? 8 : 16), MPI_ERR_NOT_SAME);
        REFUSED("14.3", "representations that differ", MPI_File_set_view(file, 0, MPI_INT, MPI_INT, is_other ? "external32" : "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
        REFUSED("14.3", "extents of etypes that differ", MPI_File_set_view(file, 0, is_other ? MPI_INT : MPI_DOUBLE, is_other ? MPI_INT : MPI_DOUBLE, "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
        REFUSED("14.4.4", "offsets of seek_shared that differ", MPI_File_seek_shared(file, is_other ? 1 : 2, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
        REFUSED("14.6.1", "atomicity that differs", MPI_File_set_atomicity(file, is_other), MPI_ERR_NOT_SAME);
    }
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "internal", MPI_INFO_NULL);
    MPI_File_get_view(file, &at, &etype, &filetype, datarep);
    TEXT("14.5", "internal", datarep, "internal");
    MPI_File_write_at_all(file, check_rank, &x, 1, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(world);
    MPI_File_get_size(file, &size);
    ROW("14.2.6", "size behind a write", size, 4 * check_size);
    MPI_File_close(&file);
    file = opened(world, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL);
    MPI_File_get_position(file, &at);
    ROW("14.2.1", "MPI_MODE_APPEND: the pointer is at the end", at, 4 * check_size);
    MPI_File_get_position_shared(file, &at);
    ROW("14.2.1", "and the shared one", at, 4 * check_size);
    MPI_File_close(&file);
    file = opened(world, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    MPI_File_read_at(file, 4 * check_size, &x, 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("14.4", "a read at the end", n, 0);
    MPI_File_read_at(file, 4 * check_size - 2, &x, 1, MPI_INT, &status);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("14.4", "a part of an item", n, MPI_UNDEFINED);
    MPI_Get_count(&status, MPI_BYTE, &n);
    ROW("14.4", "in bytes", n, 2);
    MPI_File_close(&file);
    HOLDS("14.2.1", "open of a folder for writing is refused", MPI_File_open(self, "/", MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS);
    HOLDS("14.2.1", "open of no name is refused", MPI_File_open(self, "", MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS);
}

static void together(void)
{
    MPI_File file = opened(world, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL);
    int mine = check_rank + 1, got = 0, flag;
    MPI_Offset at;
    MPI_Request request;
    MPI_Status status;
    MPI_File_write_at_all(file, 4 * check_rank, &mine, 1, MPI_INT, &status);
    MPI_File_sync(file);
    MPI_Barrier(world);
    MPI_File_read_at(file, 4 * ((check_rank + 1) % check_size), &got, 1, MPI_INT, &status);
    ROW("14.4.2", "write_at_all and read_at", got, (check_rank + 1) % check_size + 1);
    MPI_Barrier(world);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_write_ordered(file, &mine, 1, MPI_INT, &status);
    MPI_File_get_position_shared(file, &at);
    ROW("14.4.4", "the shared pointer behind write_ordered", at, check_size);
    MPI_Barrier(world);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_ordered(file, &got, 1, MPI_INT, &status);
    ROW("14.4.4", "read_ordered", got, mine);
    MPI_File_iread_at(file, check_rank, &got, 1, MPI_INT, &request);
    REFUSED("14.4", "cancel of a request of a file", MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Wait(&request, &status);
    ROW("14.4.2", "iread_at", got, mine);
    ALLOWED("14.4.5", "split collective access", MPI_File_read_at_all_begin(file, check_rank, &got, 1, MPI_INT));
    REFUSED("14.4.5", "two of them at a time", MPI_File_read_all_begin(file, &got, 1, MPI_INT), MPI_ERR_OTHER);
    ALLOWED("14.4.5", "its end", MPI_File_read_at_all_end(file, &got, &status));
    REFUSED("14.4.5", "an end without a beginning", MPI_File_read_at_all_end(file, &got, &status), MPI_ERR_OTHER);
    MPI_File_set_atomicity(file, 1);
    MPI_File_get_atomicity(file, &flag);
    ROW("14.6.1", "atomicity", flag, 1);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    snprintf(path, sizeof path, "%s/together", argc > 1 ? argv[1] : "/tmp");
    snprintf(own, sizeof own, "%s/own.%d", argc > 1 ? argv[1] : "/tmp", check_rank);
    opening();
    views();
    sequential();
    representations();
    hints();
    agreement();
    together();
    return rows_end();
}
