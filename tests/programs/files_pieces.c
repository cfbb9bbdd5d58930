/* Writers side by side, none of whose bytes another one writes: whoever reads a block, changes it and writes
 * it back loses the bytes of the others. files_pieces FILE PIECES
 *
 * Each rank has every n-th piece of 100 bytes. They are written at the same time: by all through views; by
 * rank 0 through a view and by the others piece by piece; by the two halves of the ranks, each collectively
 * and with an exchange of data, knowing nothing of the other half. */
#include "check.h"

enum { PIECE = 100, AT_A_TIME = 4000 };
static const char *name;
static unsigned char *data;

/* Returns a byte of a piece. No two neighbours are alike. */
static unsigned char byte_of(long piece, int rank, int byte, int round)
{
    return (unsigned char)(1 + (piece * 31 + rank * 7 + byte + round * 13) % 255);
}

static MPI_File open_file(MPI_Comm comm, const char *exchange)
{
    MPI_File file;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", exchange);
    MPI_Info_set(info, "cb_buffer_size", "65536");
    CHECK_EQUAL(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), MPI_SUCCESS);
    MPI_Info_free(&info);
    return file;
}

static void see_own(MPI_File file, long first)
{
    MPI_Datatype piece, every;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * check_size, &every);
    MPI_Type_commit(&every);
    MPI_Offset place = ((MPI_Offset)first * check_size + check_rank) * PIECE;
    CHECK_EQUAL(MPI_File_set_view(file, place, MPI_BYTE, every, "native", MPI_INFO_NULL), MPI_SUCCESS);
    MPI_Type_free(&every);
    MPI_Type_free(&piece);
}

/* Checks that everything is in the file: rank 0 compares the data of all ranks. */
static long lost(long first, int pieces, int round)
{
    long missing = 0;
    size_t bytes = (size_t)pieces * (size_t)check_size * PIECE;
    unsigned char *all = check_memory(bytes);
    MPI_File file;
    MPI_Status status;
    int count = -1;
    CHECK_EQUAL(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_SUCCESS);
    MPI_File_read_at(file, (MPI_Offset)first * check_size * PIECE, all, (int)bytes, MPI_BYTE, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, bytes);
    for (size_t at = 0; at < bytes; at++) {
        size_t piece = at / PIECE;
        int rank = (int)(piece % (size_t)check_size);
        long number = first + (long)(piece / (size_t)check_size);
        missing += all[at] != byte_of(number, rank, (int)(at % PIECE), round);
    }
    MPI_File_close(&file);
    free(all);
    return missing;
}

static void write_pieces(MPI_File file, int way, int pieces)
{
    MPI_Status status;
    int count = -1;
    if (way == 1 && check_rank > 0) {
        /* Only the view of rank 0 has gaps. The other ranks see every byte after their first piece. */
        for (int i = 0; i < pieces; i++) {
            MPI_Offset place = (MPI_Offset)i * check_size * PIECE;
            unsigned char *own = data + (size_t)i * PIECE;
            CHECK_EQUAL(MPI_File_write_at(file, place, own, PIECE, MPI_BYTE, &status), MPI_SUCCESS);
        }
        return;
    }
    if (way == 2)
        CHECK_EQUAL(MPI_File_write_at_all(file, 0, data, pieces * PIECE, MPI_BYTE, &status), MPI_SUCCESS);
    else
        CHECK_EQUAL(MPI_File_write_at(file, 0, data, pieces * PIECE, MPI_BYTE, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, pieces * PIECE);
}

static void round_of(int way, long first, int pieces)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    long missing = 0;
    if (way == 2)
        MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &comm);
    for (int i = 0; i < pieces; i++)
        for (int byte = 0; byte < PIECE; byte++)
            data[(size_t)i * PIECE + (size_t)byte] = byte_of(first + i, check_rank, byte, way);
    MPI_File file = open_file(comm, way == 2 ? "enable" : "automatic");
    if (way == 1 && check_rank > 0) {
        MPI_Offset place = ((MPI_Offset)first * check_size + check_rank) * PIECE;
        CHECK_EQUAL(MPI_File_set_view(file, place, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_SUCCESS);
    } else {
        see_own(file, first);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    write_pieces(file, way, pieces);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&file);
    if (way == 2)
        MPI_Comm_free(&comm);
    if (check_rank == 0)
        missing = lost(first, pieces, way);
    CHECK_EQUAL(missing, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    name = argv[1];
    long pieces = argc > 2 ? atol(argv[2]) : AT_A_TIME;
    data = check_memory((size_t)AT_A_TIME * PIECE);
    for (int way = 0; way < 3; way++) {
        if (check_rank == 0)
            MPI_File_delete(name, MPI_INFO_NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        for (long first = 0; first < pieces && !check_failures; first += AT_A_TIME)
            round_of(way, first, (int)(pieces - first < AT_A_TIME ? pieces - first : AT_A_TIME));
    }
    if (check_rank == 0)
        CHECK_EQUAL(MPI_File_delete(name, MPI_INFO_NULL), MPI_SUCCESS);
    free(data);
    return check_end();
}
