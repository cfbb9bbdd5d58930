/* Files: pointers, views, representations, shared and ordered access, split and non-blocking forms, errors.
 * files DIRECTORY */
#include "check.h"

#include <unistd.h>

static char name[4096];
static MPI_File file;

static void open_new(int amode)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, name, amode | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_SUCCESS);
}

static void close_file(void)
{
    CHECK_CLASS(MPI_File_close(&file), MPI_SUCCESS);
    CHECK(file == MPI_FILE_NULL);
}

static int count_of(MPI_Status *status)
{
    int count = -7;
    MPI_Get_count(status, MPI_INT, &count);
    return count;
}

static void pointers(void)
{
    int out[8], in[8], i;
    MPI_Offset place, size;
    MPI_Status status;
    open_new(MPI_MODE_RDWR);
    MPI_File_set_view(file, 4 * 8 * check_rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (i = 0; i < 8; i++)
        out[i] = 100 * check_rank + i;
    CHECK_CLASS(MPI_File_write(file, out, 5, MPI_INT, &status), MPI_SUCCESS);
    CHECK_EQUAL(count_of(&status), 5);
    CHECK_CLASS(MPI_File_write(file, out + 5, 3, MPI_INT, &status), MPI_SUCCESS);
    MPI_File_get_position(file, &place);
    CHECK_EQUAL(place, 8);
    MPI_File_seek(file, -6, MPI_SEEK_CUR);
    CHECK_CLASS(MPI_File_read(file, in, 6, MPI_INT, &status), MPI_SUCCESS);
    CHECK(!memcmp(in, out + 2, 24));
    CHECK_CLASS(MPI_File_seek(file, -100, MPI_SEEK_CUR), MPI_ERR_ARG);
    MPI_File_get_byte_offset(file, 3, &place);
    CHECK_EQUAL(place, 32 * check_rank + 12);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_size(file, &size);
    CHECK_EQUAL(size, 32 * check_size);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_File_get_position(file, &place);
    CHECK_EQUAL(place, 8 * (check_size - check_rank));
    /* At the end of the file a read returns the remaining items. */
    CHECK_CLASS(MPI_File_read_at_all(file, 8 * (check_size - check_rank) - 3, in, 8, MPI_INT, &status), MPI_SUCCESS);
    CHECK_EQUAL(count_of(&status), 3);
    CHECK_CLASS(MPI_File_write_at(file, -1, out, 1, MPI_INT, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_size(file, 10), MPI_SUCCESS);
    MPI_File_get_size(file, &size);
    CHECK_EQUAL(size, 10);
    CHECK_CLASS(MPI_File_preallocate(file, 5000), MPI_SUCCESS);
    MPI_File_get_size(file, &size);
    CHECK_EQUAL(size, 5000);
    if (check_size > 1)
        CHECK_CLASS(MPI_File_set_size(file, check_rank), MPI_ERR_NOT_SAME);
    close_file();
}

/* Gives each rank every n-th block of 3 integers, and tests every way to write and to read. */
static void strided(void)
{
    enum { BLOCKS = 50, COUNT = 3 * BLOCKS };
    int out[COUNT], in[COUNT], i, way;
    MPI_Datatype vector, block;
    MPI_Status status;
    MPI_Request request;
    MPI_Type_contiguous(3, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, 12 * check_size, &vector);
    MPI_Type_commit(&vector);
    for (i = 0; i < COUNT; i++)
        out[i] = 1000 * check_rank + i;
    for (way = 0; way < 6; way++) {
        open_new(MPI_MODE_RDWR);
        MPI_File_set_view(file, 12 * check_rank, MPI_INT, vector, "native", MPI_INFO_NULL);
        switch (way) {
        case 0:
            CHECK_CLASS(MPI_File_write_all(file, out, COUNT, MPI_INT, &status), MPI_SUCCESS);
            break;
        case 1:
            CHECK_CLASS(MPI_File_write_at(file, 0, out, COUNT, MPI_INT, &status), MPI_SUCCESS);
            break;
        case 2:
            CHECK_CLASS(MPI_File_iwrite_all(file, out, COUNT, MPI_INT, &request), MPI_SUCCESS);
            MPI_Wait(&request, &status);
            break;
        case 3:
            CHECK_CLASS(MPI_File_iwrite(file, out, COUNT, MPI_INT, &request), MPI_SUCCESS);
            MPI_Wait(&request, &status);
            break;
        case 4:
            CHECK_CLASS(MPI_File_write_all_begin(file, out, COUNT, MPI_INT), MPI_SUCCESS);
            CHECK_CLASS(MPI_File_write_all_begin(file, out, COUNT, MPI_INT), MPI_ERR_OTHER);
            CHECK_CLASS(MPI_File_read_all_end(file, in, &status), MPI_ERR_OTHER);
            CHECK_CLASS(MPI_File_write_all_end(file, out, &status), MPI_SUCCESS);
            break;
        default:
            CHECK_CLASS(MPI_File_write_at_all_begin(file, 0, out, COUNT, MPI_INT), MPI_SUCCESS);
            CHECK_CLASS(MPI_File_write_at_all_end(file, out, &status), MPI_SUCCESS);
        }
        CHECK_EQUAL(count_of(&status), COUNT);
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        memset(in, 0, sizeof in);
        if (way % 2) {
            CHECK_CLASS(MPI_File_read_at_all(file, 0, in, COUNT, MPI_INT, &status), MPI_SUCCESS);
        } else {
            CHECK_CLASS(MPI_File_iread_at(file, 0, in, COUNT, MPI_INT, &request), MPI_SUCCESS);
            MPI_Wait(&request, &status);
        }
        CHECK_EQUAL(count_of(&status), COUNT);
        CHECK(!memcmp(in, out, sizeof in));
        /* The whole file, as bytes. */
        MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
        for (i = 0; i < BLOCKS * check_size; i++) {
            int three[3];
            MPI_File_read(file, three, 3, MPI_INT, &status);
            CHECK_EQUAL(three[0], 1000 * (i % check_size) + 3 * (i / check_size));
            CHECK_EQUAL(three[2], three[0] + 2);
        }
        close_file();
    }
    MPI_Type_free(&vector);
    MPI_Type_free(&block);
}

static void shared(void)
{
    enum { RECORDS = 40 };
    int i, value, seen[64] = {0}, *all = check_memory(4 * RECORDS * check_size);
    MPI_Offset place;
    MPI_Status status;
    MPI_Request request;
    open_new(MPI_MODE_RDWR);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    for (i = 0; i < RECORDS; i++) {
        if (i % 2) {
            CHECK_CLASS(MPI_File_write_shared(file, &check_rank, 1, MPI_INT, &status), MPI_SUCCESS);
        } else {
            CHECK_CLASS(MPI_File_iwrite_shared(file, &check_rank, 1, MPI_INT, &request), MPI_SUCCESS);
            MPI_Wait(&request, &status);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &place);
    CHECK_EQUAL(place, RECORDS * check_size);
    MPI_File_read_at_all(file, 0, all, RECORDS * check_size, MPI_INT, &status);
    for (i = 0; i < RECORDS * check_size; i++)
        if (all[i] >= 0 && all[i] < 64)
            seen[all[i]]++;
    for (i = 0; i < check_size; i++)
        CHECK_EQUAL(seen[i], RECORDS);
    /* In the order of ranks: rank r writes r + 1 numbers. */
    CHECK_CLASS(MPI_File_seek_shared(file, 2, MPI_SEEK_SET), MPI_SUCCESS);
    for (i = 0; i <= check_rank; i++)
        all[i] = 10 * check_rank + i;
    CHECK_CLASS(MPI_File_write_ordered(file, all, check_rank + 1, MPI_INT, &status), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_write_ordered_begin(file, all, check_rank + 1, MPI_INT), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_write_ordered_end(file, all, &status), MPI_SUCCESS);
    MPI_File_get_position_shared(file, &place);
    CHECK_EQUAL(place, 2 + check_size * (check_size + 1));
    MPI_File_read_at_all(file, 2 + check_rank * (check_rank + 1) / 2, all, check_rank + 1, MPI_INT, &status);
    for (i = 0; i <= check_rank; i++)
        CHECK_EQUAL(all[i], 10 * check_rank + i);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    CHECK_CLASS(MPI_File_read_ordered(file, &value, 1, MPI_INT, &status), MPI_SUCCESS);
    MPI_File_get_position_shared(file, &place);
    CHECK_EQUAL(place, check_size);
    close_file();
    free(all);
}

/* A number in the file has twice the bytes: itself and its complement. */
static int twice_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra)
{
    int size;
    MPI_Type_size(datatype, &size);
    *extent = 2 * size;
    ++*(int *)extra;
    return MPI_SUCCESS;
}

static int twice_write(void *user, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position, void *extra)
{
    (void)extra, (void)datatype;
    for (int i = 0; i < count; i++) {
        ((int *)filebuf)[2 * (position + i)] = ((int *)user)[position + i];
        ((int *)filebuf)[2 * (position + i) + 1] = ~((int *)user)[position + i];
    }
    return MPI_SUCCESS;
}

static int twice_read(void *user, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position, void *extra)
{
    (void)extra, (void)datatype;
    for (int i = 0; i < count; i++)
        ((int *)user)[position + i] = ((int *)filebuf)[2 * (position + i)];
    return MPI_SUCCESS;
}

static void representations(void)
{
    int out[4] = {1, 2, 3, 0x01020304}, in[4] = {0}, calls = 0;
    unsigned char bytes[16];
    long longs[2] = {-5, 7}, back[2] = {0};
    MPI_Aint extent;
    MPI_Status status;
    char datarep[MPI_MAX_DATAREP_STRING];
    MPI_Datatype etype, filetype;
    MPI_Offset disp;
    open_new(MPI_MODE_RDWR);
    CHECK_CLASS(MPI_File_set_view(file, 64 * check_rank, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_write_all(file, out, 4, MPI_INT, &status), MPI_SUCCESS);
    CHECK_EQUAL(count_of(&status), 4);
    CHECK_CLASS(MPI_File_read_at(file, 0, in, 4, MPI_INT, &status), MPI_SUCCESS);
    CHECK(!memcmp(in, out, sizeof in));
    MPI_File_get_view(file, &disp, &etype, &filetype, datarep);
    CHECK(disp == 64 * check_rank && etype == MPI_INT && filetype == MPI_INT && !strcmp(datarep, "external32"));
    MPI_File_get_type_extent(file, MPI_LONG, &extent);
    MPI_File_set_view(file, 64 * check_rank, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
    CHECK_CLASS(MPI_File_write_at(file, 2, longs, 2, MPI_LONG, &status), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_read_at(file, 2, back, 2, MPI_LONG, &status), MPI_SUCCESS);
    CHECK(back[0] == -5 && back[1] == 7);
    MPI_File_set_view(file, 64 * check_rank, MPI_BYTE, MPI_BYTE, "internal", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, bytes, 4, MPI_BYTE, &status);
    CHECK(bytes[0] == 0 && bytes[3] == 1);
    CHECK_CLASS(MPI_Register_datarep("files twice", twice_read, twice_write, twice_extent, &calls), MPI_SUCCESS);
    CHECK_CLASS(MPI_Register_datarep("files twice", twice_read, twice_write, twice_extent, &calls), MPI_ERR_DUP_DATAREP);
    CHECK_CLASS(MPI_File_set_view(file, 64 * check_rank, MPI_INT, MPI_INT, "files twice", MPI_INFO_NULL), MPI_SUCCESS);
    CHECK(calls > 0);
    MPI_File_get_type_extent(file, MPI_INT, &extent);
    CHECK_EQUAL(extent, 8);
    CHECK_CLASS(MPI_File_write_all(file, out, 4, MPI_INT, &status), MPI_SUCCESS);
    CHECK_EQUAL(count_of(&status), 4);
    memset(in, 0, sizeof in);
    CHECK_CLASS(MPI_File_read_at_all(file, 1, in, 3, MPI_INT, &status), MPI_SUCCESS);
    CHECK(in[0] == 2 && in[2] == 0x01020304);
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nonsense", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    close_file();
}

/* Tests atomic mode: records are complete, also where several ranks write the same place at the same time. */
static void atomic(void)
{
    enum { BYTES = 60000 };
    char *buffer = check_memory(BYTES);
    int flag = 0, round;
    MPI_Status status;
    MPI_Datatype vector;
    MPI_Type_vector(BYTES / 6, 3, 5, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    open_new(MPI_MODE_RDWR);
    CHECK_CLASS(MPI_File_set_atomicity(file, 1), MPI_SUCCESS);
    MPI_File_get_atomicity(file, &flag);
    CHECK(flag);
    MPI_File_set_view(file, 0, MPI_BYTE, vector, "native", MPI_INFO_NULL);
    for (round = 0; round < 10; round++) {
        int i;
        memset(buffer, 'a' + check_rank, BYTES / 2);
        CHECK_CLASS(MPI_File_write_at(file, 0, buffer, BYTES / 2, MPI_BYTE, &status), MPI_SUCCESS);
        CHECK_CLASS(MPI_File_read_at(file, 0, buffer, BYTES / 2, MPI_BYTE, &status), MPI_SUCCESS);
        for (i = 1; i < BYTES / 2 && buffer[i] == buffer[0]; i++)
            ;
        CHECK_EQUAL(i, BYTES / 2);
    }
    close_file();
    MPI_Type_free(&vector);
    free(buffer);
}

static int handled;

static void handler(MPI_File *handle, int *code, ...)
{
    (void)code;
    handled += *handle == file ? 1 : 100;
}

static void errors(void)
{
    char other[5000];
    int amode = MPI_MODE_RDWR;
    MPI_File none;
    MPI_Status status;
    MPI_Errhandler errhandler, got;
    MPI_Info info;
    snprintf(other, sizeof other, "%s.none", name);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &none), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_CREATE, MPI_INFO_NULL, &none), MPI_ERR_AMODE);
    if (check_size > 1)
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, other, check_rank ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_INFO_NULL, &none),
                    MPI_ERR_NOT_SAME);
    CHECK_CLASS(MPI_File_delete(other, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    open_new(amode);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, name, amode | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL, &none),
                MPI_ERR_FILE_EXISTS);
    MPI_File_create_errhandler(handler, &errhandler);
    MPI_File_set_errhandler(file, errhandler);
    MPI_File_get_errhandler(file, &got);
    CHECK(got != MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&got);
    MPI_Errhandler_free(&errhandler);
    CHECK_CLASS(MPI_File_write_at(file, -5, other, 1, MPI_BYTE, &status), MPI_ERR_ARG);
    CHECK_EQUAL(handled, 1);
    /* One rank passes a wrong argument: all get the same error. */
    CHECK_CLASS(MPI_File_write_at_all(file, check_rank ? 0 : -5, other, 1, MPI_BYTE, &status), MPI_ERR_ARG);
    CHECK_EQUAL(handled, 2);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_File_get_info(file, &info);
    MPI_Info_free(&info);
    close_file();
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_write_at_all(file, 0, other, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_set_size(file, 5), MPI_ERR_READ_ONLY);
    close_file();
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_read_at_all(file, 0, other, 1, MPI_BYTE, &status), MPI_ERR_ACCESS);
    close_file();
    CHECK(access(name, F_OK) != 0);
    /* A full device: one rank notices, and all get the error. */
    if (access("/dev/full", W_OK) == 0) {
        MPI_Request request;
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
        CHECK_CLASS(MPI_File_write_at_all(file, 0, other, check_rank ? 0 : 10, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
        CHECK_CLASS(MPI_File_iwrite_at_all(file, 0, other, check_rank ? 0 : 10, MPI_BYTE, &request), MPI_SUCCESS);
        CHECK_CLASS(MPI_Wait(&request, &status), MPI_ERR_NO_SPACE);
        close_file();
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    snprintf(name, sizeof name, "%s/a file\nof %d", argc > 1 ? argv[1] : "/tmp", check_size);
    pointers();
    strided();
    shared();
    representations();
    atomic();
    errors();
    return check_end();
}
