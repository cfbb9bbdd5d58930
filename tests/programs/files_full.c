/* A full device: every rank gets MPI_ERR_NO_SPACE from a collective call, and acknowledged data is there.
 * usage: files_full FILE... */
#include "check.h"

enum { PIECE = 1 << 20 };
static unsigned char *data, *back;

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Pieces of 4 KiB in turn, so that every rank has some everywhere. */
static void set_view(MPI_File file)
{
    MPI_Datatype piece, tile;
    MPI_Type_contiguous(4096, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, 4096 * (MPI_Aint)check_size, &tile);
    MPI_Type_commit(&tile);
    CHECK_EQUAL(MPI_File_set_view(file, 4096 * (MPI_Offset)check_rank, MPI_BYTE, tile, "native", MPI_INFO_NULL), MPI_SUCCESS);
    MPI_Type_free(&tile);
    MPI_Type_free(&piece);
}

static void fill(const char *name, const char *exchange)
{
    MPI_File file;
    MPI_Info info;
    MPI_Status status;
    int code, count = -1;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", exchange);
    MPI_Info_set(info, "striping_unit", "65536");
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, info, &file), MPI_SUCCESS);
    MPI_Info_free(&info);
    /* Data that fits is in the file, whatever happens later. */
    memset(data, check_rank + 1, 4 * PIECE);
    CHECK_EQUAL(MPI_File_write_at_all(file, check_rank * (MPI_Offset)65536, data, 65536, MPI_BYTE, &status), MPI_SUCCESS);
    CHECK_EQUAL(class_of(MPI_File_preallocate(file, 64 << 20)), MPI_ERR_NO_SPACE);
    /* Each rank alone. */
    code = MPI_File_write_at(file, 65536 * 4 + check_rank * (MPI_Offset)(4 * PIECE), data, 4 * PIECE, MPI_BYTE, &status);
    CHECK_EQUAL(class_of(code), MPI_ERR_NO_SPACE);
    set_view(file);
    code = MPI_File_write_at_all(file, 65536, data, 4 * PIECE, MPI_BYTE, &status);
    CHECK_EQUAL(class_of(code), MPI_ERR_NO_SPACE);
    /* Only rank 0 writes much. */
    code = MPI_File_write_at_all(file, 65536, data, check_rank == 0 ? 4 * PIECE : 0, MPI_BYTE, &status);
    CHECK_EQUAL(class_of(code), MPI_ERR_NO_SPACE);
    CHECK_EQUAL(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_read_at(file, check_rank * (MPI_Offset)65536, back, 65536, MPI_BYTE, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, 65536);
    CHECK(!memcmp(back, data, 65536));
    CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int i;
    check_begin(&argc, &argv);
    data = check_memory(4 * PIECE);
    back = check_memory(PIECE);
    for (i = 1; i < argc; i++) {
        fill(argv[i], "disable");
        fill(argv[i], "enable");
    }
    free(data);
    free(back);
    return check_end();
}
