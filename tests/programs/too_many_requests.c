/* A request beyond the limit is refused with MPI_ERR_NO_MEM. The program goes on. The key wrap_after has that
 * happen early. */
#include "check.h"

enum { MOST = 1 << 20 };

int main(int argc, char **argv)
{
    static MPI_Request requests[MOST];
    int count = 0, code = MPI_SUCCESS, class, got, sent = 3;
    MPI_Request persistent = MPI_REQUEST_NULL, generalised = MPI_REQUEST_NULL;
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < 2; round++) {
        for (count = 0; count < MOST; count++)
            if ((code = MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[count])))
                break;
        MPI_Error_class(code, &class);
        CHECK_EQUAL(class, MPI_ERR_NO_MEM);
        CHECK(count >= 65536 && count < MOST);
        MPI_Error_class(MPI_Recv_init(&got, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &persistent), &class);
        CHECK_EQUAL(class, MPI_ERR_NO_MEM);
        MPI_Error_class(MPI_Ibarrier(MPI_COMM_WORLD, &persistent), &class);
        CHECK_EQUAL(class, MPI_ERR_NO_MEM);
        MPI_Error_class(MPI_Grequest_start(NULL, NULL, NULL, NULL, &generalised), &class);
        CHECK_EQUAL(class, MPI_ERR_NO_MEM);
        /* Blocking calls, which need no request, still work. */
        for (int i = 0; i < 100; i++)
            MPI_Sendrecv(&sent, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, 3);
        for (int i = 0; i < count; i++)
            MPI_Send(&sent, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return check_end();
}
