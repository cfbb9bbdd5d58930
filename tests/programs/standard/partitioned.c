/* Partitioned point-to-point communication (MPI-5, chapter 4). */
#include "rows.h"

static MPI_Comm world = MPI_COMM_WORLD;

static void arguments(void)
{
    int data[4] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    REFUSED("4.2.1", "negative number of partitions", MPI_Psend_init(data, -1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    REFUSED("4.2.1", "negative count", MPI_Psend_init(data, 1, -1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    REFUSED("4.2.1", "a null datatype", MPI_Psend_init(data, 1, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_TYPE);
    REFUSED("4.2.1", "a rank beyond the group", MPI_Psend_init(data, 1, 1, MPI_INT, 1, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_RANK);
    REFUSED("4.2.1", "a negative tag", MPI_Psend_init(data, 1, 1, MPI_INT, 0, -3, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_TAG);
    REFUSED("4.2.1", "a null communicator", MPI_Psend_init(data, 1, 1, MPI_INT, 0, 0, MPI_COMM_NULL, MPI_INFO_NULL, &request), MPI_ERR_COMM);
    REFUSED("4.2.1", "receive from MPI_ANY_SOURCE", MPI_Precv_init(data, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_RANK);
    REFUSED("4.2.1", "receive with MPI_ANY_TAG", MPI_Precv_init(data, 1, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF, MPI_INFO_NULL, &request), MPI_ERR_TAG);
    REFUSED("4.2.2", "Pready of a null request", MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    REFUSED("4.2.2", "Pready_range of a null request", MPI_Pready_range(0, 0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    REFUSED("4.2.2", "Pready_list of a null request", MPI_Pready_list(1, data, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
}

static void transfer(void)
{
    enum { PARTS = 4, EACH = 3 };
    int out[PARTS * EACH] = {0}, in[PARTS * EACH], flag, right = (check_rank + 1) % check_size;
    int left = (check_rank + check_size - 1) % check_size, list[] = {3, 2};
    MPI_Request send, receive, other;
    MPI_Status status;
    ALLOWED("4.2.1", "Psend_init", MPI_Psend_init(out, PARTS, EACH, MPI_INT, right, 9, world, MPI_INFO_NULL, &send));
    ALLOWED("4.2.1", "Precv_init with other partitions", MPI_Precv_init(in, PARTS / 2, 2 * EACH, MPI_INT, left, 9, world, MPI_INFO_NULL, &receive));
    REFUSED("4.2.2", "Pready of an inactive request", MPI_Pready(0, send), MPI_ERR_REQUEST);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PARTS * EACH; i++)
            out[i] = 100 * check_rank + i + round, in[i] = -1;
        MPI_Start(&receive);
        MPI_Start(&send);
        REFUSED("4.2.2", "Pready of a receive", MPI_Pready(0, receive), MPI_ERR_REQUEST);
        REFUSED("4.2.2", "Parrived of a send", MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
        REFUSED("4.2.2", "Pready beyond the partitions", MPI_Pready(PARTS, send), MPI_ERR_ARG);
        REFUSED("4.2.2", "Pready of a negative partition", MPI_Pready(-1, send), MPI_ERR_ARG);
        REFUSED("4.2.2", "Pready_range the wrong way round", MPI_Pready_range(1, 0, send), MPI_ERR_ARG);
        ALLOWED("4.2.2", "Pready", MPI_Pready(0, send));
        REFUSED("4.2.2", "Pready of a partition that is ready", MPI_Pready(0, send), MPI_ERR_ARG);
        ALLOWED("4.2.2", "Pready_range", MPI_Pready_range(1, 1, send));
        flag = 0;
        while (!flag)
            MPI_Parrived(receive, 0, &flag);
        ROW("4.2.2", "the first partition has arrived", in[2 * EACH - 1], 100 * left + 2 * EACH - 1 + round);
        MPI_Test(&send, &flag, MPI_STATUS_IGNORE);
        ROW("4.2", "a send with partitions that are not ready is not over", flag, 0);
        ALLOWED("4.2.2", "Pready_list", MPI_Pready_list(2, list, send));
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, &status);
        ROW("4.2", "source of the message", status.MPI_SOURCE, left);
        ROW("4.2", "tag of the message", status.MPI_TAG, 9);
        ROW("4.2", "the last item", in[PARTS * EACH - 1], 100 * left + PARTS * EACH - 1 + round);
        MPI_Parrived(receive, 1, &flag);
        ROW("4.2.2", "Parrived of an inactive request", flag, 1);
    }
    MPI_Parrived(MPI_REQUEST_NULL, 0, &flag);
    ROW("4.2.2", "Parrived of a null request", flag, 1);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    ALLOWED("4.2.1", "Psend_init to nobody", MPI_Psend_init(out, PARTS, EACH, MPI_INT, MPI_PROC_NULL, 0, world, MPI_INFO_NULL, &other));
    MPI_Start(&other);
    ALLOWED("4.2.2", "its partitions", MPI_Pready_range(0, PARTS - 1, other));
    ALLOWED("4.2", "its end", MPI_Wait(&other, MPI_STATUS_IGNORE));
    MPI_Request_free(&other);
    MPI_Precv_init(in, PARTS, EACH, MPI_INT, MPI_PROC_NULL, 0, world, MPI_INFO_NULL, &other);
    MPI_Start(&other);
    MPI_Wait(&other, &status);
    ROW("3.11", "source of a receive from nobody", status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Request_free(&other);
    ALLOWED("4.2.1", "no items of MPI_DATATYPE_NULL", MPI_Psend_init(NULL, 1, 0, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, world, MPI_INFO_NULL, &other));
    MPI_Request_free(&other);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    arguments();
    transfer();
    return rows_end();
}
