/* Buffering by the library itself (MPI 4.1): for the process, and for one communicator. */
#include "check.h"

enum { MESSAGES = 50, COUNT = 3000 };

static void exchange(MPI_Comm comm)
{
    static int data[COUNT];
    int other = check_rank ^ 1;
    if (other >= check_size)
        return;
    for (int i = 0; i < MESSAGES; i++) {
        for (int j = 0; j < COUNT; j++)
            data[j] = check_rank + i + j;
        MPI_Bsend(data, COUNT, MPI_INT, other, i, comm);
    }
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Recv(data, COUNT, MPI_INT, other, i, comm, MPI_STATUS_IGNORE);
        CHECK_EQUAL(data[0], other + i);
        CHECK_EQUAL(data[COUNT - 1], other + i + COUNT - 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Request request;
    void *back = NULL;
    int size;
    check_begin(&argc, &argv);
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    exchange(MPI_COMM_WORLD);
    MPI_Buffer_flush();
    MPI_Buffer_iflush(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&back, &size);
    CHECK(back == MPI_BUFFER_AUTOMATIC);

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
    exchange(comm);
    MPI_Comm_flush_buffer(comm);
    MPI_Comm_detach_buffer(comm, &back, &size);
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    MPI_Comm_free(&comm);
    return check_end();
}
