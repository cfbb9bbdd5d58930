/* Splits by hardware, communicators from groups without a parent, flushes that do not wait, empty
 * statuses. */
#include "check.h"

static const char KEY[] = "mpi_hw_resource_type";

/* Splits the world by this kind and resource. Returns the size of the result, or 0 for MPI_COMM_NULL. */
static int split_size(int kind, const char *key, const char *value)
{
    MPI_Comm made;
    MPI_Info info;
    int size = 0;
    MPI_Info_create(&info);
    if (key)
        MPI_Info_set(info, key, value);
    MPI_Comm_split_type(MPI_COMM_WORLD, kind, check_rank, info, &made);
    if (made != MPI_COMM_NULL) {
        MPI_Comm_size(made, &size);
        MPI_Comm_free(&made);
    }
    MPI_Info_free(&info);
    return size;
}

/* Returns the number of ranks on this rank's host. */
static int neighbours(void)
{
    MPI_Comm made;
    int size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, check_rank, MPI_INFO_NULL, &made);
    MPI_Comm_size(made, &size);
    MPI_Comm_free(&made);
    return size;
}

static void guided(void)
{
    MPI_Comm made;
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_HW_GUIDED, NULL, NULL), 0);
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_HW_GUIDED, "other", "key"), 0);
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_HW_GUIDED, KEY, "no such thing"), 0);
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_HW_GUIDED, KEY, "mpi_shared_memory"), neighbours());
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_RESOURCE_GUIDED, KEY, "mpi_shared_memory"), neighbours());
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD"), check_size);
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF"), 1);
    CHECK_EQUAL(split_size(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://NOBODY"), 0);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &made);
    CHECK(made == MPI_COMM_NULL);
}

/* Checks that every level is smaller than the one before and reports its kind. Some levels exclude this
 * rank. */
static void unguided(void)
{
    MPI_Comm levels[64] = {MPI_COMM_WORLD};
    int count = 1, size, smaller, flag, length = 64;
    char value[64];
    while (count < 64) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Comm_split_type(levels[count - 1], MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &levels[count]);
        MPI_Info_get_string(info, KEY, &length, value, &flag);
        MPI_Info_free(&info);
        CHECK_EQUAL(flag, levels[count] != MPI_COMM_NULL);
        if (levels[count] == MPI_COMM_NULL)
            break;
        MPI_Comm_size(levels[count - 1], &size);
        MPI_Comm_size(levels[count], &smaller);
        CHECK(smaller < size);
        count++;
    }
    while (--count)
        MPI_Comm_free(&levels[count]);
    MPI_Comm_split_type(MPI_COMM_WORLD, check_rank % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_HW_UNGUIDED, 0,
                        MPI_INFO_NULL, &levels[1]);
    CHECK(check_rank % 2 == 0 || levels[1] == MPI_COMM_NULL);
    if (levels[1] != MPI_COMM_NULL)
        MPI_Comm_free(&levels[1]);
}

static void resources(void)
{
    MPI_Info info;
    char value[16];
    int flag, length = 16, keys;
    MPI_Get_hw_resource_info(&info);
    MPI_Info_get_nkeys(info, &keys);
    CHECK(keys > 1);
    MPI_Info_get_string(info, "hwloc://Machine", &length, value, &flag);
    CHECK(flag && !strcmp(value, "true"));
    MPI_Info_free(&info);
}

/* Connects even and odd ranks. The leaders are the last even and the first odd rank. */
static void intercommunicator(void)
{
    MPI_Group world, groups[2];
    MPI_Comm inter, merged;
    int parity = check_rank % 2, sizes[2] = {(check_size + 1) / 2, check_size / 2}, size, remote;
    if (check_size < 2)
        return;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int side = 0; side < 2; side++) {
        int range[1][3] = {{side, side + 2 * (sizes[side] - 1), 2}};
        MPI_Group_range_incl(world, 1, range, &groups[side]);
    }
    int leaders[2] = {sizes[0] - 1, 0};
    MPI_Intercomm_create_from_groups(groups[parity], leaders[parity], groups[!parity], leaders[!parity], "halves",
                                     MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    CHECK_EQUAL(size, sizes[parity]);
    CHECK_EQUAL(remote, sizes[!parity]);
    CHECK_CLASS(MPI_Intercomm_create_from_groups(groups[parity], 99, groups[!parity], 0, "halves", MPI_INFO_NULL,
                                                 MPI_ERRORS_RETURN, &merged), MPI_ERR_RANK);
    MPI_Intercomm_merge(inter, parity, &merged);
    MPI_Comm_size(merged, &size);
    CHECK_EQUAL(size, check_size);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Group_free(&groups[0]);
    MPI_Group_free(&groups[1]);
    MPI_Group_free(&world);
}

/* Starts a flush before the message can leave: no rank receives it yet. */
static void flush(void)
{
    enum { COUNT = 1 << 20 };
    int *sent = check_memory(COUNT * sizeof(int)), *received = check_memory(COUNT * sizeof(int)), flag, size;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    void *room = check_memory(COUNT * sizeof(int) + MPI_BSEND_OVERHEAD), *back;
    MPI_Session session;
    MPI_Request request;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    /* The buffer of the session serves messages of its own communicators (MPI-5, 3.6). */
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "flush", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    MPI_Session_attach_buffer(session, room, COUNT * sizeof(int) + MPI_BSEND_OVERHEAD);
    for (int i = 0; i < COUNT; i++)
        sent[i] = check_rank + i;
    MPI_Bsend(sent, COUNT, MPI_INT, next, 5, comm);
    MPI_Session_iflush_buffer(session, &request);
    MPI_Recv(received, COUNT, MPI_INT, before, 5, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(received[COUNT - 1], before + COUNT - 1);
    MPI_Session_flush_buffer(session);
    MPI_Session_iflush_buffer(session, &request);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    CHECK(flag);
    MPI_Session_detach_buffer(session, &back, &size);
    MPI_Comm_free(&comm);
    CHECK(back == room && size == (int)(COUNT * sizeof(int)) + MPI_BSEND_OVERHEAD);
    MPI_Session_finalize(&session);
    free(room);
    free(sent);
    free(received);
}

static void check_empty(const MPI_Status *status)
{
    int count, cancelled;
    MPI_Get_count(status, MPI_INT, &count);
    MPI_Test_cancelled(status, &cancelled);
    CHECK(status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG);
    CHECK(status->MPI_ERROR == MPI_SUCCESS && count == 0 && !cancelled);
}

static void empty_statuses(void)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    int flag, index;
    memset(statuses, 1, sizeof statuses);
    MPI_Recv_init(&index, 1, MPI_INT, check_rank, 0, MPI_COMM_WORLD, &requests[1]);
    for (int which = 0; which < 2; which++) {
        memset(statuses, 1, sizeof statuses);
        MPI_Wait(&requests[which], &statuses[0]);
        check_empty(&statuses[0]);
        memset(statuses, 1, sizeof statuses);
        MPI_Request_get_status(requests[which], &flag, &statuses[0]);
        CHECK(flag);
        check_empty(&statuses[0]);
    }
    memset(statuses, 1, sizeof statuses);
    MPI_Testany(2, requests, &index, &flag, &statuses[0]);
    CHECK(flag && index == MPI_UNDEFINED);
    check_empty(&statuses[0]);
    memset(statuses, 1, sizeof statuses);
    MPI_Waitall(2, requests, statuses);
    check_empty(&statuses[0]);
    check_empty(&statuses[1]);
    MPI_Request_free(&requests[1]);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    guided();
    unguided();
    resources();
    intercommunicator();
    flush();
    empty_statuses();
    return check_end();
}
