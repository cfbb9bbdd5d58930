/* A sync that fails is told by all ranks until the file is closed: what was lost is not there because the
 * device works again. files_sync FILE MARK
 *
 * While there is a file MARK, fdatasync fails (fail_fsync.c). */
#include "check.h"

#include <fcntl.h>
#include <unistd.h>

static void set_mark(const char *mark, int on)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0 && on)
        close(open(mark, O_CREAT | O_WRONLY, 0600));
    if (check_rank == 0 && !on)
        unlink(mark);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void write_some(MPI_File file)
{
    char data[4096];
    memset(data, check_rank, sizeof data);
    CHECK_EQUAL(MPI_File_write_at(file, 4096 * check_rank, data, 4096, MPI_BYTE, MPI_STATUS_IGNORE), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    MPI_File file;
    check_begin(&argc, &argv);
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    set_mark(argv[2], 0);
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file), MPI_SUCCESS);
    write_some(file);
    CHECK_EQUAL(MPI_File_sync(file), MPI_SUCCESS);
    write_some(file);
    set_mark(argv[2], 1);
    CHECK_CLASS(MPI_File_sync(file), MPI_ERR_IO);
    set_mark(argv[2], 0);
    CHECK_CLASS(MPI_File_sync(file), MPI_ERR_IO);
    write_some(file);
    CHECK_CLASS(MPI_File_sync(file), MPI_ERR_IO);
    CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file), MPI_SUCCESS);
    write_some(file);
    CHECK_EQUAL(MPI_File_sync(file), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
    return check_end();
}
