/* Measures the throughput of a link to and from a file.
 * usage: io_links FILE MIB ROUNDS
 *
 * Each rank has a part of the file for itself. A line a figure: its name, and a number a rank, the median of
 * all rounds: MB/s of `write` and `read` (MIB each, contiguous) and of `write-pieces` and `read-pieces`
 * (4 MiB in pieces of 256 B at half density, through a view); us of `create` (a file that is not there, by
 * one rank, until it is closed), `resize` and `size` (of which an io-server is asked once). What was read is
 * compared. */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

enum { PIECE = 256, PIECES = 16384, MOST = 1000, OFTEN = 100 };
static double times[MOST];

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(int count)
{
    qsort(times, (size_t)count, sizeof *times, ascending);
    return times[count / 2];
}

/* Prints a number of each rank on one line. */
static void show(const char *name, double own)
{
    double all[64];
    MPI_Gather(&own, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (check_rank)
        return;
    printf("%s", name);
    for (int rank = 0; rank < check_size; rank++)
        printf(" %.2f", all[rank]);
    printf("\n");
    fflush(stdout);
}

static void fill(unsigned char *data, size_t bytes, int salt)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 + i / 4096 + (size_t)check_rank * 31 + (size_t)salt);
}

static MPI_File opened(const char *name, MPI_Offset place, MPI_Datatype type)
{
    MPI_File file;
    /* Drops this host's cached pages of a file of another host. */
    int fd = open(name, O_RDONLY);
    if (fd >= 0) {
        fsync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_set_view(file, place, MPI_BYTE, type, "native", MPI_INFO_NULL), MPI_SUCCESS);
    return file;
}

/* Measures rounds of writing, then of reading, from the beginning of a view. Before each round the file is
 * opened anew, and the cache of a file system's client is dropped. */
static void rate(const char *path, const char *name, MPI_Offset place, MPI_Datatype type, size_t bytes, int rounds)
{
    unsigned char *out = check_memory(bytes), *in = check_memory(bytes);
    char both[2][64];
    snprintf(both[0], sizeof both[0], "write%s", name);
    snprintf(both[1], sizeof both[1], "read%s", name);
    fill(out, bytes, rounds);
    for (int reads = 0; reads < 2; reads++) {
        for (int round = 0; round < rounds; round++) {
            MPI_File file = opened(path, place, type);
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            int code = reads ? MPI_File_read_at(file, 0, in, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                             : MPI_File_write_at(file, 0, out, (int)bytes, MPI_BYTE, MPI_STATUS_IGNORE);
            times[round] = (double)bytes / 1e6 / (MPI_Wtime() - start);
            CHECK_EQUAL(code, MPI_SUCCESS);
            CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
        }
        show(both[reads], median(rounds));
    }
    CHECK(!memcmp(out, in, bytes));
    free(out), free(in);
}

static void pieces(const char *path, int rounds)
{
    MPI_Datatype piece, tile;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, 2 * PIECE, &tile);
    MPI_Type_commit(&tile);
    const MPI_Offset own = (MPI_Offset)check_rank * PIECES * 2 * PIECE;
    rate(path, "-pieces", own, tile, (size_t)PIECE * PIECES, rounds);
    MPI_Type_free(&tile);
    MPI_Type_free(&piece);
}

/* Measures the operations that move no data, by one rank alone. */
static void words(const char *name)
{
    char fresh[4096];
    double create = 0, resize = 0, size = 0;
    if (check_rank == 0) {
        MPI_File file;
        MPI_Offset bytes;
        for (int i = 0; i < OFTEN; i++) {
            snprintf(fresh, sizeof fresh, "%s.%d", name, i);
            double start = MPI_Wtime();
            CHECK_EQUAL(MPI_File_open(MPI_COMM_SELF, fresh, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
            CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
            times[i] = (MPI_Wtime() - start) * 1e6;
            CHECK_EQUAL(MPI_File_delete(fresh, MPI_INFO_NULL), MPI_SUCCESS);
        }
        create = median(OFTEN);
        CHECK_EQUAL(MPI_File_open(MPI_COMM_SELF, fresh, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file), MPI_SUCCESS);
        for (int i = 0; i < OFTEN; i++) {
            double start = MPI_Wtime();
            CHECK_EQUAL(MPI_File_set_size(file, 1000000 + i), MPI_SUCCESS);
            times[i] = (MPI_Wtime() - start) * 1e6;
        }
        resize = median(OFTEN);
        for (int i = 0; i < OFTEN; i++) {
            double start = MPI_Wtime();
            CHECK_EQUAL(MPI_File_get_size(file, &bytes), MPI_SUCCESS);
            times[i] = (MPI_Wtime() - start) * 1e6;
        }
        size = median(OFTEN);
        CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
    }
    show("create", create);
    show("resize", resize);
    show("size", size);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    const char *name = argc > 1 ? argv[1] : "/tmp/io_links";
    const size_t bytes = (size_t)(argc > 2 ? atoi(argv[2]) : 1) << 20;
    const int wanted = argc > 3 ? atoi(argv[3]) : 1, rounds = wanted < MOST ? wanted : MOST;
    rate(name, "", (MPI_Offset)bytes * check_rank, MPI_BYTE, bytes, rounds);
    pieces(name, rounds);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0)
        CHECK_EQUAL(MPI_File_delete(name, MPI_INFO_NULL), MPI_SUCCESS);
    words(name);
    return check_end();
}
