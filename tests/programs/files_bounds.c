/* Large numbers and lists in file accesses: counts around 2 GiB, more pieces of memory than one system call
 * takes, a view of many pieces in little memory.
 * usage: files_bounds DIRECTORY PIECES
 *
 * Memory of more than 2 GiB is one of 64 MiB that is mapped again and again; what is written goes to
 * /dev/null, what is read is a hole, so neither memory nor disk have to be large. */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t UNIT = (size_t)64 << 20;
static const long long TWO_GIB = 2147483648LL;
static char name[4096];

/* Bytes of memory that is not there as often as it seems. */
static unsigned char *mirrored(size_t bytes)
{
    int fd = memfd_create("mirrored", 0);
    if (fd < 0 || ftruncate(fd, (off_t)UNIT))
        return NULL;
    unsigned char *all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    for (size_t at = 0; at < bytes; at += UNIT)
        if (mmap(all + at, UNIT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            return NULL;
    close(fd);
    return all;
}

static MPI_File open_at(const char *path, int amode)
{
    MPI_File file = MPI_FILE_NULL;
    CHECK_EQUAL(MPI_File_open(MPI_COMM_SELF, path, amode, MPI_INFO_NULL, &file), MPI_SUCCESS);
    return file;
}

static void counts(void)
{
    unsigned char *memory = mirrored((size_t)TWO_GIB + UNIT);
    MPI_Count count = -1;
    MPI_Status status;
    int small = -1;
    CHECK(memory != NULL);
    if (!memory)
        return;
    MPI_File null = open_at("/dev/null", MPI_MODE_WRONLY);
    MPI_File holes = open_at(name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    CHECK_EQUAL(MPI_File_set_size(holes, TWO_GIB + 10), MPI_SUCCESS);
    for (int more = -1; more <= 1; more++) {
        MPI_Count bytes = TWO_GIB + more;
        CHECK_EQUAL(MPI_File_write_at_c(null, 0, memory, bytes, MPI_BYTE, &status), MPI_SUCCESS);
        MPI_Get_count_c(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, bytes);
        memory[0] = memory[bytes % (MPI_Count)UNIT] = 9;
        CHECK_EQUAL(MPI_File_read_at_c(holes, 5, memory, bytes, MPI_BYTE, &status), MPI_SUCCESS);
        MPI_Get_count_c(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, bytes);
        CHECK_EQUAL(memory[0], 0);
        /* A count that an int cannot hold. */
        MPI_Get_count(&status, MPI_BYTE, &small);
        CHECK_EQUAL(small, bytes <= INT_MAX ? (int)bytes : MPI_UNDEFINED);
    }
    CHECK_EQUAL(MPI_File_read_at(holes, 11, memory, INT_MAX, MPI_BYTE, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &small);
    CHECK_EQUAL(small, INT_MAX);
    /* Bytes on both sides of the bound, at their places. */
    unsigned char out[4] = {1, 2, 3, 4}, in[10] = {0};
    CHECK_EQUAL(MPI_File_write_at(holes, TWO_GIB - 2, out, 4, MPI_BYTE, &status), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_read_at(holes, TWO_GIB - 3, in, 10, MPI_BYTE, &status), MPI_SUCCESS);
    CHECK(!memcmp(in, "\0\1\2\3\4\0\0\0\0\0", 10));
    MPI_File_close(&null);
    MPI_File_close(&holes);
    munmap(memory, (size_t)TWO_GIB + UNIT);
    MPI_File_delete(name, MPI_INFO_NULL);
}

/* Pieces of memory for one run of the file: as many as a system call takes, one fewer, one more, and many. */
static void lists(void)
{
    enum { PIECE = 1500, MOST = 4100 };
    unsigned char *out = check_memory(2 * PIECE * MOST), *in = check_memory(2 * PIECE * MOST);
    MPI_Status status;
    MPI_File file = open_at(name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    int some[] = {1, IOV_MAX - 1, IOV_MAX, IOV_MAX + 1, 2 * IOV_MAX + 1, MOST}, count;
    for (size_t i = 0; i < 2 * PIECE * MOST; i++)
        out[i] = (unsigned char)(i % 251);
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        MPI_Datatype list;
        long wrong = 0;
        MPI_Type_vector(some[i], PIECE, 2 * PIECE, MPI_BYTE, &list);
        MPI_Type_commit(&list);
        CHECK_EQUAL(MPI_File_write_at(file, 3, out, 1, list, &status), MPI_SUCCESS);
        MPI_Get_elements(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, some[i] * PIECE);
        memset(in, 0, 2 * PIECE * MOST);
        CHECK_EQUAL(MPI_File_read_at(file, 3, in, 1, list, &status), MPI_SUCCESS);
        MPI_Get_count(&status, list, &count);
        CHECK_EQUAL(count, 1);
        for (size_t at = 0; at < 2 * PIECE * (size_t)some[i]; at++)
            wrong += in[at] != (at / PIECE % 2 ? 0 : out[at]);
        CHECK_EQUAL(wrong, 0);
        MPI_Type_free(&list);
    }
    MPI_File_close(&file);
    free(out);
    free(in);
}

/* Returns the largest memory that this process has had, in bytes. */
static long long peak(void)
{
    char line[256];
    long long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib * 1024;
}

/* A view of pieces that follow no rule: to set and to use it may take twice what it takes to describe it, and
 * what does not depend on it. */
static void irregular(int pieces)
{
    enum { FIXED = 48 << 20 };
    const long long described = 16LL * pieces;
    int *places = check_memory(sizeof(int) * (size_t)pieces);
    unsigned char *data = check_memory((size_t)pieces), *back = check_memory((size_t)pieces);
    MPI_Datatype filetype;
    MPI_Status status;
    int count = -1;
    long wrong = 0;
    for (int i = 0; i < pieces; i++) {
        places[i] = 3 * i + i % 2;
        data[i] = (unsigned char)(1 + i % 250);
        back[i] = 0;
    }
    MPI_Type_create_indexed_block(pieces, 1, places, MPI_BYTE, &filetype);
    MPI_Type_commit(&filetype);
    long long before = peak();
    MPI_File file = open_at(name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK_EQUAL(MPI_File_set_view(file, 1, MPI_BYTE, filetype, "native", MPI_INFO_NULL), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_write_all(file, data, pieces, MPI_BYTE, &status), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_read_at_all(file, 0, back, pieces, MPI_BYTE, &status), MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, pieces);
    for (int i = 0; i < pieces; i++)
        wrong += back[i] != data[i];
    CHECK_EQUAL(wrong, 0);
    long long grown = peak() - before;
    if (grown > 2 * described + FIXED)
        check_say(__FILE__, __LINE__, "a view of %d pieces takes %lld bytes", pieces, grown);
    MPI_File_close(&file);
    MPI_Type_free(&filetype);
    free(places);
    free(data);
    free(back);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    snprintf(name, sizeof name, "%s/bounds.%d", argc > 1 ? argv[1] : "/tmp", check_rank);
    irregular(argc > 2 ? atoi(argv[2]) : 1000000);
    lists();
    counts();
    return check_end();
}
