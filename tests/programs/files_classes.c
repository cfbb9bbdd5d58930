/* Error classes of mistakes with files: each mistake has its class, and all ranks get the same one in
 * collective calls. Also counts at the end of a file, and unusual names.
 * usage: files_classes DIRECTORY */
#include "check.h"

#include <unistd.h>

static char name[4096];

static const char *at(const char *directory, const char *rest)
{
    snprintf(name, sizeof name, "%s/%s", directory, rest);
    return name;
}

/* A collective call gave this class, here and at all ranks. */
#define TOGETHER(call, wanted)                                                                           \
    do {                                                                                                 \
        int code_ = (call), own_ = MPI_SUCCESS, range_[2];                                               \
        if (code_ != MPI_SUCCESS)                                                                        \
            MPI_Error_class(code_, &own_);                                                               \
        range_[0] = own_, range_[1] = -own_;                                                             \
        MPI_Allreduce(MPI_IN_PLACE, range_, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);                        \
        if (own_ != (wanted) || range_[0] != -range_[1])                                                 \
            check_say(__FILE__, __LINE__, "%s gives %d, not %s; on all ranks %d to %d", #call, own_,      \
                      #wanted, -range_[1], range_[0]);                                                   \
    } while (0)

static void opens(const char *path, int amode, int wanted)
{
    MPI_File file = MPI_FILE_NULL;
    int code = MPI_File_open(MPI_COMM_WORLD, path, amode, MPI_INFO_NULL, &file);
    TOGETHER(code, wanted);
    if (code == MPI_SUCCESS)
        MPI_File_close(&file);
    else
        CHECK(file == MPI_FILE_NULL);
}

static void opening(const char *directory)
{
    const int rdwr = MPI_MODE_CREATE | MPI_MODE_RDWR;
    char longest[400];
    memset(longest, 'q', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    opens(at(directory, "none"), MPI_MODE_RDONLY, MPI_ERR_NO_SUCH_FILE);
    opens(at(directory, "no/dir/f"), rdwr, MPI_ERR_NO_SUCH_FILE);
    opens(directory, MPI_MODE_RDWR, MPI_ERR_BAD_FILE);
    opens(directory, MPI_MODE_RDONLY, MPI_ERR_BAD_FILE);
    opens("", rdwr, MPI_ERR_BAD_FILE);
    opens(at(directory, longest), rdwr, MPI_ERR_BAD_FILE);
    opens(at(directory, "ex"), rdwr, MPI_SUCCESS);
    opens(at(directory, "ex"), rdwr | MPI_MODE_EXCL, MPI_ERR_FILE_EXISTS);
    opens(at(directory, "ex/below"), rdwr, MPI_ERR_BAD_FILE);
    opens(at(directory, "ex"), MPI_MODE_CREATE | MPI_MODE_RDONLY, MPI_ERR_AMODE);
    opens(at(directory, "ex"), MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL, MPI_ERR_AMODE);
    opens(at(directory, "ex"), MPI_MODE_CREATE, MPI_ERR_AMODE);
    opens(at(directory, "ex"), MPI_MODE_RDWR | MPI_MODE_RDONLY, MPI_ERR_AMODE);
    if (check_size > 1) {
        opens(at(directory, "ex"), check_rank ? MPI_MODE_RDONLY : MPI_MODE_RDWR, MPI_ERR_NOT_SAME);
        /* Only one rank passes a wrong argument. */
        opens(at(directory, "ex"), check_rank == check_size - 1 ? MPI_MODE_CREATE : rdwr, MPI_ERR_AMODE);
    }
    /* The right to write is refused; to root it is not. */
    if (geteuid() != 0)
        opens("/etc/passwd", MPI_MODE_RDWR, MPI_ERR_ACCESS);
}

static void accessing(const char *directory)
{
    MPI_File file;
    MPI_Datatype back;
    MPI_Status status;
    int lengths[2] = {1, 1}, places[2] = {4, 0};
    char data[100] = "";
    at(directory, "ex");
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
    int code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nonsense", MPI_INFO_NULL);
    TOGETHER(code, MPI_ERR_UNSUPPORTED_DATAREP);
    TOGETHER(MPI_File_set_view(file, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    TOGETHER(MPI_File_set_view(file, -1, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &back);
    MPI_Type_commit(&back);
    /* The same class as in other libraries. Programs compare it. */
    TOGETHER(MPI_File_set_view(file, 0, MPI_INT, back, "native", MPI_INFO_NULL), MPI_ERR_IO);
    MPI_Type_free(&back);
    TOGETHER(MPI_File_write_at_all(file, check_rank ? 0 : -1, data, 1, MPI_BYTE, &status), MPI_ERR_ARG);
    TOGETHER(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    TOGETHER(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    TOGETHER(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, -5, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_write_at(file, -1, data, 1, MPI_BYTE, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_read_at(file, 0, data, -1, MPI_BYTE, &status), MPI_ERR_COUNT);
    MPI_File_close(&file);
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_SUCCESS);
    TOGETHER(MPI_File_write_at_all(file, 0, data, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    TOGETHER(MPI_File_set_size(file, 1), MPI_ERR_READ_ONLY);
    TOGETHER(MPI_File_preallocate(file, 1), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write_at(file, 0, data, 1, MPI_BYTE, &status), MPI_ERR_READ_ONLY);
    MPI_File_close(&file);
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_SUCCESS);
    TOGETHER(MPI_File_read_at_all(file, 0, data, 1, MPI_BYTE, &status), MPI_ERR_ACCESS);
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        CHECK_EQUAL(MPI_File_delete(name, MPI_INFO_NULL), MPI_SUCCESS);
        CHECK_CLASS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
        CHECK_CLASS(MPI_File_delete(directory, MPI_INFO_NULL), MPI_ERR_BAD_FILE);
    }
}

/* Tests a full device, in collective calls and in calls of one rank. */
static void full(void)
{
    MPI_File file;
    MPI_Status status;
    char data[64] = "";
    if (access("/dev/full", W_OK) != 0)
        return;
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, "/dev/full", MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_SUCCESS);
    CHECK_CLASS(MPI_File_write_at(file, 0, data, 64, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    TOGETHER(MPI_File_write_at_all(file, 0, data, 64, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    TOGETHER(MPI_File_write_at_all(file, 0, data, check_rank ? 0 : 64, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    TOGETHER(MPI_File_write_ordered(file, data, 64, MPI_BYTE, &status), MPI_ERR_NO_SPACE);
    MPI_File_close(&file);
}

static void counted(int code, MPI_Status *status, int wanted)
{
    int count = -1;
    CHECK_EQUAL(code, MPI_SUCCESS);
    MPI_Get_count(status, MPI_BYTE, &count);
    CHECK_EQUAL(count, wanted);
}

/* Reads that reach beyond the end say how much there was, however they read. */
static void ends(const char *directory, const char *exchange)
{
    MPI_File file;
    MPI_Info info;
    MPI_Request request;
    MPI_Status status;
    MPI_Datatype piece, every;
    char data[200] = "";
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_read", exchange);
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, at(directory, "ends"), amode, info, &file), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_set_size(file, 100), MPI_SUCCESS);
    for (int from = 95; from <= 105; from += 5) {
        const int there = from < 100 ? 100 - from : 0;
        counted(MPI_File_read_at(file, from, data, 50, MPI_BYTE, &status), &status, there);
        counted(MPI_File_read_at_all(file, from, data, 50, MPI_BYTE, &status), &status, there);
        /* One rank is beyond the end, the others are not. */
        const int place = check_rank ? 0 : from, mine = check_rank ? 50 : there;
        counted(MPI_File_read_at_all(file, place, data, 50, MPI_BYTE, &status), &status, mine);
        CHECK_EQUAL(MPI_File_iread_at_all(file, from, data, 50, MPI_BYTE, &request), MPI_SUCCESS);
        counted(MPI_Wait(&request, &status), &status, there);
        CHECK_EQUAL(MPI_File_seek(file, from, MPI_SEEK_SET), MPI_SUCCESS);
        CHECK_EQUAL(MPI_File_read_all_begin(file, data, 50, MPI_BYTE), MPI_SUCCESS);
        counted(MPI_File_read_all_end(file, data, &status), &status, there);
    }
    /* Every n-th piece of 3 bytes: the end lies within a piece of one rank. */
    MPI_Type_contiguous(3, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, 3 * check_size, &every);
    MPI_Type_commit(&every);
    CHECK_EQUAL(MPI_File_set_view(file, 3 * check_rank, MPI_BYTE, every, "native", info), MPI_SUCCESS);
    int mine = 0;
    for (int byte = 0; byte < 100; byte++)
        mine += byte / 3 % check_size == check_rank;
    counted(MPI_File_read_at_all(file, 0, data, 150, MPI_BYTE, &status), &status, mine);
    counted(MPI_File_read_at(file, 1, data, 150, MPI_BYTE, &status), &status, mine - 1);
    MPI_File_close(&file);
    MPI_Type_free(&every);
    MPI_Type_free(&piece);
    MPI_Info_free(&info);
}

static void names(const char *directory)
{
    const char *odd[] = {"a\nb", " ", "-n", "a'b\"c", "\\n", "caf\xc3\xa9", "%s%n", "*"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        MPI_File file;
        MPI_Status status;
        char data[4] = "abc", back[4] = "";
        const int amode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR;
        at(directory, odd[i]);
        CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, amode, MPI_INFO_NULL, &file), MPI_SUCCESS);
        CHECK_EQUAL(MPI_File_write_at_all(file, 4 * check_rank, data, 4, MPI_BYTE, &status), MPI_SUCCESS);
        CHECK_EQUAL(MPI_File_read_at_all(file, 4 * check_rank, back, 4, MPI_BYTE, &status), MPI_SUCCESS);
        CHECK(!memcmp(data, back, 4));
        MPI_File_close(&file);
        CHECK(strncmp(name, "tutti:", 6) == 0 || access(name, F_OK) == 0);
        MPI_Barrier(MPI_COMM_WORLD);
        if (check_rank == 0)
            CHECK_EQUAL(MPI_File_delete(name, MPI_INFO_NULL), MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    const char *directory = argc > 1 ? argv[1] : "/tmp";
    /* Names of io-servers are not names of the system: there are no directories, and other lengths. */
    if (strncmp(directory, "tutti:", 6) != 0) {
        opening(directory);
        accessing(directory);
        full();
    }
    ends(directory, "automatic");
    ends(directory, "enable");
    names(directory);
    return check_end();
}
