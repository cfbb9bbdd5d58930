/* Point-to-point communication (MPI-5, chapter 3). */
#include "rows.h"

static MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;
static int right, left;

/* Arguments that are wrong, with the class of each. */
static void arguments(void)
{
    int data[4] = {0}, n, flag;
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    MPI_Datatype fresh;
    MPI_Type_contiguous(2, MPI_INT, &fresh);
    REFUSED("3.2.2", "send of a negative count", MPI_Send(data, -1, MPI_INT, 0, 0, self), MPI_ERR_COUNT);
    REFUSED("3.2.2", "send of MPI_DATATYPE_NULL", MPI_Send(data, 1, MPI_DATATYPE_NULL, 0, 0, self), MPI_ERR_TYPE);
    REFUSED("5.1.9", "send of a type that is not committed", MPI_Send(data, 1, fresh, 0, 0, self), MPI_ERR_TYPE);
    REFUSED("3.2.3", "send to a rank below zero", MPI_Send(data, 1, MPI_INT, -7, 0, self), MPI_ERR_RANK);
    REFUSED("3.2.3", "send to a rank beyond the group", MPI_Send(data, 1, MPI_INT, 1, 0, self), MPI_ERR_RANK);
    REFUSED("3.2.3", "send to MPI_ANY_SOURCE", MPI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, self), MPI_ERR_RANK);
    REFUSED("3.2.3", "send with a negative tag", MPI_Send(data, 1, MPI_INT, 0, -5, self), MPI_ERR_TAG);
    REFUSED("3.2.3", "send with MPI_ANY_TAG", MPI_Send(data, 1, MPI_INT, 0, MPI_ANY_TAG, self), MPI_ERR_TAG);
    REFUSED("3.2.3", "send on MPI_COMM_NULL", MPI_Send(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    REFUSED("3.2.2", "send of no memory", MPI_Send(NULL, 1, MPI_INT, 0, 0, self), MPI_ERR_BUFFER);
    REFUSED("3.2.4", "receive of a negative count", MPI_Recv(data, -1, MPI_INT, 0, 0, self, &status), MPI_ERR_COUNT);
    REFUSED("3.2.4", "receive from a rank beyond the group", MPI_Recv(data, 1, MPI_INT, 1, 0, self, &status), MPI_ERR_RANK);
    REFUSED("3.2.4", "receive with a negative tag", MPI_Recv(data, 1, MPI_INT, 0, -9, self, &status), MPI_ERR_TAG);
    REFUSED("3.2.4", "receive of MPI_DATATYPE_NULL", MPI_Recv(data, 1, MPI_DATATYPE_NULL, 0, 0, self, &status), MPI_ERR_TYPE);
    REFUSED("3.7.2", "Isend to a rank beyond the group", MPI_Isend(data, 1, MPI_INT, 1, 0, self, &request), MPI_ERR_RANK);
    REFUSED("3.7.2", "Irecv of a negative count", MPI_Irecv(data, -2, MPI_INT, 0, 0, self, &request), MPI_ERR_COUNT);
    REFUSED("3.8.1", "probe of a rank beyond the group", MPI_Iprobe(4711, 0, self, &flag, &status), MPI_ERR_RANK);
    REFUSED("3.8.1", "probe with a negative tag", MPI_Iprobe(0, -9, self, &flag, &status), MPI_ERR_TAG);
    REFUSED("3.8.2", "matched probe on MPI_COMM_NULL", MPI_Improbe(0, 0, MPI_COMM_NULL, &flag, &message, &status), MPI_ERR_COMM);
    REFUSED("3.9", "persistent send with a negative tag", MPI_Send_init(data, 1, MPI_INT, 0, -5, self, &request), MPI_ERR_TAG);
    REFUSED("3.9", "persistent receive of a negative count", MPI_Recv_init(data, -1, MPI_INT, 0, 0, self, &request), MPI_ERR_COUNT);
    REFUSED("3.10", "Sendrecv with a negative count", MPI_Sendrecv(data, -1, MPI_INT, 0, 0, data + 2, 1, MPI_INT, 0, 0, self, &status), MPI_ERR_COUNT);
    REFUSED("3.10", "Sendrecv_replace to a rank beyond the group", MPI_Sendrecv_replace(data, 1, MPI_INT, 3000, 0, 0, 0, self, &status), MPI_ERR_RANK);
    REFUSED("3.7.3", "wait for a request that is none", MPI_Wait(&(MPI_Request){(MPI_Request)data}, &status), MPI_ERR_REQUEST);
    request = MPI_REQUEST_NULL;
    REFUSED("3.7.3", "free of MPI_REQUEST_NULL", MPI_Request_free(&request), MPI_ERR_REQUEST);
    REFUSED("3.9", "start of MPI_REQUEST_NULL", MPI_Start(&request), MPI_ERR_REQUEST);
    REFUSED("3.8.4", "cancel of MPI_REQUEST_NULL", MPI_Cancel(&request), MPI_ERR_REQUEST);
    memset(&status, 0, sizeof status);
    REFUSED("3.2.5", "count of MPI_DATATYPE_NULL", MPI_Get_count(&status, MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE);
    MPI_Type_free(&fresh);
}

/* MPI_DATATYPE_NULL with no items, as the other implementation of the standard ABI takes it. */
static void null_datatype(void)
{
    MPI_Datatype none = MPI_DATATYPE_NULL;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Message message = MPI_MESSAGE_NO_PROC;
    int n;
    ALLOWED("3.2.2", "Isend of no items of MPI_DATATYPE_NULL", MPI_Isend(NULL, 0, none, 0, 1, self, &requests[0]));
    ALLOWED("3.2.4", "Recv of no items of MPI_DATATYPE_NULL", MPI_Recv(NULL, 0, none, 0, 1, self, &status));
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("3.2.5", "count of a message of no items", n, 0);
    ALLOWED("3.10", "Sendrecv of no items of MPI_DATATYPE_NULL", MPI_Sendrecv(NULL, 0, none, 0, 1, NULL, 0, none, 0, 1, self, &status));
    ALLOWED("3.10", "Sendrecv_replace of no items of MPI_DATATYPE_NULL", MPI_Sendrecv_replace(NULL, 0, none, 0, 1, 0, 1, self, &status));
    ALLOWED("3.9", "Send_init of no items of MPI_DATATYPE_NULL", MPI_Send_init(NULL, 0, none, 0, 1, self, &requests[0]));
    ALLOWED("3.9", "Recv_init of no items of MPI_DATATYPE_NULL", MPI_Recv_init(NULL, 0, none, 0, 1, self, &requests[1]));
    ALLOWED("3.9", "both are started", MPI_Startall(2, requests));
    ALLOWED("3.7.5", "and complete", MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    ALLOWED("3.8.3", "Mrecv of no items of MPI_DATATYPE_NULL", MPI_Mrecv(NULL, 0, none, &message, &status));
    HOLDS("3.8.3", "the message handle is null afterwards", message == MPI_MESSAGE_NULL);
}

/* MPI_PROC_NULL (3.11). */
static void nobody(void)
{
    int data = 7, n, flag = 0;
    MPI_Status status = {.MPI_SOURCE = 5, .MPI_TAG = 5};
    MPI_Request request;
    MPI_Message message;
    ALLOWED("3.11", "send to nobody", MPI_Send(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
    ALLOWED("3.11", "synchronous send to nobody", MPI_Ssend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
    ALLOWED("3.11", "ready send to nobody", MPI_Rsend(&data, 1, MPI_INT, MPI_PROC_NULL, 0, world));
    ALLOWED("3.11", "receive from nobody", MPI_Recv(&data, 1, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, world, &status));
    ROW("3.11", "source of that", status.MPI_SOURCE, MPI_PROC_NULL);
    ROW("3.11", "tag of that", status.MPI_TAG, MPI_ANY_TAG);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("3.11", "count of that", n, 0);
    ROW("3.11", "the buffer stays", data, 7);
    MPI_Irecv(&data, 1, MPI_INT, MPI_PROC_NULL, 3, world, &request);
    MPI_Test(&request, &flag, &status);
    ROW("3.11", "Irecv from nobody is complete at once", flag, 1);
    ROW("3.11", "its source", status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Iprobe(MPI_PROC_NULL, 3, world, &flag, &status);
    ROW("3.8.1", "probe of nobody finds something", flag, 1);
    ROW("3.8.1", "from nobody", status.MPI_SOURCE, MPI_PROC_NULL);
    ROW("3.8.1", "with any tag", status.MPI_TAG, MPI_ANY_TAG);
    MPI_Mprobe(MPI_PROC_NULL, 3, world, &message, &status);
    HOLDS("3.8.2", "matched probe of nobody gives MPI_MESSAGE_NO_PROC", message == MPI_MESSAGE_NO_PROC);
    ROW("3.8.2", "from nobody", status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Imrecv(&data, 1, MPI_INT, &message, &request);
    HOLDS("3.8.3", "Imrecv makes the handle null", message == MPI_MESSAGE_NULL);
    MPI_Wait(&request, &status);
    ROW("3.8.3", "its source is nobody", status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Isend(&data, 1, MPI_INT, MPI_PROC_NULL, 3, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS("3.7.3", "a request is null after MPI_Wait", request == MPI_REQUEST_NULL);
    MPI_Sendrecv(&data, 1, MPI_INT, MPI_PROC_NULL, 1, &n, 1, MPI_INT, MPI_PROC_NULL, 1, world, &status);
    ROW("3.11", "Sendrecv with nobody", status.MPI_SOURCE, MPI_PROC_NULL);
}

static int is_empty(const MPI_Status *status)
{
    int n, flag;
    MPI_Get_count(status, MPI_INT, &n);
    MPI_Test_cancelled(status, &flag);
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && status->MPI_ERROR == MPI_SUCCESS && n == 0 && !flag;
}

/* Requests that are null or inactive (3.7.3). */
static void empty_requests(void)
{
    MPI_Request nulls[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL}, idle;
    MPI_Status status, statuses[3];
    int data = 0, flag = 0, index = 5, count = 5, indices[3];
#define SOIL (memset(&status, 0x55, sizeof status), memset(statuses, 0x55, sizeof statuses))
    SOIL;
    ALLOWED("3.7.3", "wait for a null request", MPI_Wait(&nulls[0], &status));
    HOLDS("3.7.3", "gives the empty status", is_empty(&status));
    SOIL;
    ALLOWED("3.7.3", "test of a null request", MPI_Test(&nulls[0], &flag, &status));
    HOLDS("3.7.3", "is true with the empty status", flag && is_empty(&status));
    SOIL;
    MPI_Waitany(3, nulls, &index, &status);
    ROW("3.7.5", "Waitany of null requests", index, MPI_UNDEFINED);
    HOLDS("3.7.5", "has the empty status", is_empty(&status));
    SOIL;
    MPI_Testany(3, nulls, &index, &flag, &status);
    HOLDS("3.7.5", "Testany of null requests is true", flag && index == MPI_UNDEFINED && is_empty(&status));
    SOIL;
    MPI_Waitall(3, nulls, statuses);
    HOLDS("3.7.5", "Waitall of null requests has empty statuses", is_empty(&statuses[0]) && is_empty(&statuses[2]));
    SOIL;
    MPI_Testall(3, nulls, &flag, statuses);
    HOLDS("3.7.5", "Testall of null requests is true", flag && is_empty(&statuses[1]));
    MPI_Waitsome(3, nulls, &count, indices, statuses);
    ROW("3.7.5", "Waitsome of null requests", count, MPI_UNDEFINED);
    count = 5;
    MPI_Testsome(3, nulls, &count, indices, statuses);
    ROW("3.7.5", "Testsome of null requests", count, MPI_UNDEFINED);
    ALLOWED("3.7.5", "Waitall of nothing", MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE);
    ROW("3.7.5", "Testall of nothing", flag, 1);
    MPI_Testany(0, NULL, &index, &flag, &status);
    HOLDS("3.7.5", "Testany of nothing", flag && index == MPI_UNDEFINED);
    MPI_Waitany(0, NULL, &index, &status);
    ROW("3.7.5", "Waitany of nothing", index, MPI_UNDEFINED);
    SOIL;
    MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status);
    HOLDS("3.7.6", "get_status of a null request", flag && is_empty(&status));
    SOIL;
    MPI_Request_get_status_any(3, nulls, &index, &flag, &status);
    HOLDS("3.7.6", "get_status_any of null requests", flag && index == MPI_UNDEFINED && is_empty(&status));
    SOIL;
    MPI_Request_get_status_all(3, nulls, &flag, statuses);
    HOLDS("3.7.6", "get_status_all of null requests", flag && is_empty(&statuses[2]));
    MPI_Request_get_status_some(3, nulls, &count, indices, statuses);
    ROW("3.7.6", "get_status_some of null requests", count, MPI_UNDEFINED);

    MPI_Recv_init(&data, 1, MPI_INT, 0, 0, self, &idle);
    SOIL;
    MPI_Wait(&idle, &status);
    HOLDS("3.7.3", "wait for an inactive request", is_empty(&status) && idle != MPI_REQUEST_NULL);
    SOIL;
    MPI_Test(&idle, &flag, &status);
    HOLDS("3.7.3", "test of an inactive request", flag && is_empty(&status));
    MPI_Waitany(1, &idle, &index, &status);
    ROW("3.7.5", "Waitany of an inactive request", index, MPI_UNDEFINED);
    MPI_Waitsome(1, &idle, &count, indices, statuses);
    ROW("3.7.5", "Waitsome of an inactive request", count, MPI_UNDEFINED);
    SOIL;
    MPI_Request_get_status(idle, &flag, &status);
    HOLDS("3.7.6", "get_status of an inactive request", flag && is_empty(&status));
    MPI_Start(&idle);
    REFUSED("3.9", "start of an active request", MPI_Start(&idle), MPI_ERR_REQUEST);
    MPI_Send(&data, 1, MPI_INT, 0, 0, self);
    MPI_Wait(&idle, &status);
    HOLDS("3.9", "a persistent request stays", idle != MPI_REQUEST_NULL);
    MPI_Request_free(&idle);
    HOLDS("3.7.3", "a freed request is null", idle == MPI_REQUEST_NULL);
}

/* Messages to oneself: statuses, truncation, order, probes. */
static void messages(void)
{
    int out[8] = {1, 2, 3, 4, 5, 6, 7, 8}, in[8] = {0}, n, flag, index, count, indices[2];
    MPI_Count large;
    MPI_Status status, statuses[2];
    MPI_Request requests[2];
    MPI_Message message;
    char buffer[4 * MPI_BSEND_OVERHEAD + 256];
    void *detached;
    MPI_Isend(out, 3, MPI_INT, 0, 11, self, &requests[0]);
    status.MPI_ERROR = 4711;
    MPI_Recv(in, 8, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, self, &status);
    ROW("3.2.5", "source of a message", status.MPI_SOURCE, 0);
    ROW("3.2.5", "tag of a message", status.MPI_TAG, 11);
    ROW("3.2.5", "MPI_ERROR is not touched by a call for one", status.MPI_ERROR, 4711);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("3.2.5", "count of a message", n, 3);
    MPI_Get_count_c(&status, MPI_INT, &large);
    ROW("3.2.5", "large count of a message", large, 3);
    MPI_Get_count(&status, MPI_DOUBLE, &n);
    ROW("3.2.5", "count in a type that does not fit", n, MPI_UNDEFINED);
    MPI_Status_get_source(&status, &n);
    ROW("3.2.5", "source by its function", n, 0);
    MPI_Status_get_tag(&status, &n);
    ROW("3.2.5", "tag by its function", n, 11);
    status.MPI_ERROR = MPI_ERR_TAG;
    MPI_Status_get_error(&status, &n);
    ROW("3.2.5", "error by its function", n, MPI_ERR_TAG);
    HOLDS("3.2.4", "a shorter message leaves the rest", in[2] == 3 && in[3] == 0);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    MPI_Isend(out, 4, MPI_INT, 0, 1, self, &requests[0]);
    REFUSED("3.2.4", "receive of a longer message", MPI_Recv(in, 2, MPI_INT, 0, 1, self, &status), MPI_ERR_TRUNCATE);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    MPI_Isend(out, 4, MPI_INT, 0, 1, self, &requests[0]);
    MPI_Irecv(in, 2, MPI_INT, 0, 1, self, &requests[1]);
    REFUSED("3.7.5", "Waitall with one truncated message", MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    ROW("3.7.5", "MPI_ERROR of the send", statuses[0].MPI_ERROR, MPI_SUCCESS);
    REFUSED("3.7.5", "MPI_ERROR of the receive", statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE);

    MPI_Isend(out, 2, MPI_INT, 0, 1, self, &requests[0]);
    MPI_Isend(out + 2, 2, MPI_INT, 0, 1, self, &requests[1]);
    MPI_Recv(in, 2, MPI_INT, 0, 1, self, &status);
    ROW("3.5", "messages do not overtake", in[0], 1);
    MPI_Recv(in, 2, MPI_INT, 0, MPI_ANY_TAG, self, &status);
    ROW("3.5", "the second one", in[0], 3);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    MPI_Isend(out, 5, MPI_INT, 0, 2, self, &requests[0]);
    MPI_Probe(MPI_ANY_SOURCE, 2, self, &status);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("3.8.1", "count of a probe", n, 5);
    MPI_Iprobe(0, 3, self, &flag, MPI_STATUS_IGNORE);
    ROW("3.8.1", "no message of another tag", flag, 0);
    MPI_Mprobe(0, 2, self, &message, &status);
    MPI_Iprobe(0, 2, self, &flag, MPI_STATUS_IGNORE);
    ROW("3.8.2", "a matched message is not found again", flag, 0);
    ALLOWED("3.8.3", "matched receive", MPI_Mrecv(in, 8, MPI_INT, &message, &status));
    HOLDS("3.8.3", "makes the message null", message == MPI_MESSAGE_NULL && in[4] == 5);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);

    MPI_Irecv(in, 8, MPI_INT, 0, 77, self, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], &status);
    MPI_Test_cancelled(&status, &flag);
    ROW("3.8.4", "a receive without a message is cancelled", flag, 1);
    MPI_Send_init(out, 1, MPI_INT, 0, 5, self, &requests[0]);
    MPI_Recv_init(in, 1, MPI_INT, 0, 5, self, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitsome(2, requests, &count, indices, statuses);
    HOLDS("3.7.5", "Waitsome of two requests that complete", count >= 1 && count <= 2);
    if (count == 1)
        MPI_Wait(&requests[1 - indices[0]], MPI_STATUS_IGNORE);
    MPI_Start(&requests[1]);
    MPI_Cancel(&requests[1]);
    MPI_Wait(&requests[1], &status);
    MPI_Test_cancelled(&status, &flag);
    ROW("3.8.4", "an active persistent receive is cancelled", flag, 1);
    MPI_Startall(2, requests);
    MPI_Waitany(2, requests, &index, &status);
    HOLDS("3.7.5", "Waitany takes one", index == 0 || index == 1);
    MPI_Wait(&requests[1 - index], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    ALLOWED("3.6", "attach a buffer", MPI_Buffer_attach(buffer, sizeof buffer));
    REFUSED("3.6", "attach a second one", MPI_Buffer_attach(buffer, sizeof buffer), MPI_ERR_BUFFER);
    ALLOWED("3.4", "buffered send", MPI_Bsend(out, 8, MPI_INT, 0, 3, self));
    MPI_Recv(in, 8, MPI_INT, 0, 3, self, &status);
    ROW("3.4", "arrives", in[7], 8);
    REFUSED("3.6", "buffered send of more than fits", MPI_Bsend(buffer, sizeof buffer, MPI_BYTE, 0, 3, self), MPI_ERR_BUFFER);
    MPI_Buffer_flush();
    MPI_Buffer_detach(&detached, &n);
    HOLDS("3.6", "detach gives address and size", detached == buffer && n == (int)sizeof buffer);
    ALLOWED("3.6", "a communicator's own buffer", MPI_Comm_attach_buffer(self, buffer, sizeof buffer));
    MPI_Bsend(out, 1, MPI_INT, 0, 3, self);
    MPI_Recv(in, 1, MPI_INT, 0, 3, self, MPI_STATUS_IGNORE);
    MPI_Comm_flush_buffer(self);
    MPI_Comm_detach_buffer(self, &detached, &n);
    HOLDS("3.6", "its address and size", detached == buffer && n == (int)sizeof buffer);
    ALLOWED("3.6", "MPI_BUFFER_AUTOMATIC", MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
    MPI_Bsend(out, 8, MPI_INT, 0, 3, self);
    MPI_Recv(in, 8, MPI_INT, 0, 3, self, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&detached, &n);
    HOLDS("3.6", "is what detach gives", detached == MPI_BUFFER_AUTOMATIC && n == 0);
}

/* Buffers of communicators and of the process, flushed in both ways (3.6). */
static void buffers(void)
{
    char buffer[2048], other[2048];
    int x = 4, y = 0, n;
    MPI_Count large;
    void *detached;
    MPI_Request request;
    MPI_Comm comm;
    MPI_Comm_dup(self, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    REFUSED("3.6", "buffered send without a buffer", MPI_Bsend(&x, 1, MPI_INT, 0, 1, comm), MPI_ERR_BUFFER);
    ALLOWED("3.6", "a buffer of the communicator", MPI_Comm_attach_buffer(comm, buffer, sizeof buffer));
    REFUSED("3.6", "a second one for it", MPI_Comm_attach_buffer(comm, other, sizeof other), MPI_ERR_BUFFER);
    ALLOWED("3.6", "one of the process beside it", MPI_Buffer_attach_c(other, sizeof other));
    MPI_Bsend(&x, 1, MPI_INT, 0, 1, comm);
    MPI_Recv(&y, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    ROW("3.6", "sent by it", y, 4);
    ALLOWED("3.6", "iflush of the communicator's buffer", MPI_Comm_iflush_buffer(comm, &request));
    ALLOWED("3.6", "which ends", MPI_Wait(&request, MPI_STATUS_IGNORE));
    ALLOWED("3.6", "iflush of the process's buffer", MPI_Buffer_iflush(&request));
    ALLOWED("3.6", "which ends too", MPI_Wait(&request, MPI_STATUS_IGNORE));
    ALLOWED("3.6", "flush of the communicator's buffer", MPI_Comm_flush_buffer(comm));
    MPI_Comm_detach_buffer_c(comm, &detached, &large);
    HOLDS("3.6", "detach with a large count", detached == buffer && large == sizeof buffer);
    MPI_Buffer_detach(&detached, &n);
    HOLDS("3.6", "the process's is its own", detached == other && n == (int)sizeof other);
    ALLOWED("3.6", "MPI_BUFFER_AUTOMATIC for a communicator", MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0));
    ALLOWED("3.4", "buffered send by it", MPI_Bsend(&x, 1, MPI_INT, 0, 1, comm));
    MPI_Recv(&y, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(comm, &detached, &n);
    HOLDS("3.6", "is what detach gives", detached == MPI_BUFFER_AUTOMATIC && n == 0);
    MPI_Comm_attach_buffer(comm, buffer, sizeof buffer);
    MPI_Bsend_init(&x, 1, MPI_INT, 0, 2, comm, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Recv(&y, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);
    ROW("3.9", "persistent buffered send", y, 4);
    MPI_Request_free(&request);
    MPI_Comm_detach_buffer(comm, &detached, &n);
    MPI_Comm_free(&comm);
}

/* Absolute addresses, types with gaps, no bytes (3.2, 5.1.5). */
static void places(void)
{
    int out[6] = {1, 2, 3, 4, 5, 6}, in[6] = {0}, n;
    MPI_Aint at[2];
    MPI_Datatype absolute, gaps;
    MPI_Status status;
    MPI_Request request;
    MPI_Get_address(&out[1], &at[0]);
    MPI_Get_address(&out[4], &at[1]);
    MPI_Type_create_hindexed_block(2, 1, at, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    MPI_Type_vector(2, 1, 3, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    MPI_Isend(MPI_BOTTOM, 1, absolute, 0, 1, self, &request);
    MPI_Recv(in, 1, gaps, 0, 1, self, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS("5.1.5", "from MPI_BOTTOM into a type with gaps", in[0] == 2 && in[3] == 5 && in[1] == 0);
    MPI_Get_count(&status, gaps, &n);
    ROW("3.2.5", "count of it", n, 1);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("3.2.5", "count of its parts", n, 2);
    MPI_Isend(out, 0, MPI_INT, 0, 1, self, &request);
    MPI_Recv(in, 6, MPI_INT, 0, 1, self, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Get_count(&status, gaps, &n);
    ROW("3.2.5", "count of an empty message", n, 0);
    MPI_Type_free(&absolute);
    MPI_Type_free(&gaps);
}

/* Messages round the ring of all ranks. */
static void ring(void)
{
    int out = check_rank, in = -1, value = check_rank;
    MPI_Status status;
    MPI_Request requests[2];
    MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, world, &status);
    ROW("3.10", "Sendrecv in a ring", in, left);
    ROW("3.10", "its source", status.MPI_SOURCE, left);
    MPI_Sendrecv_replace(&value, 1, MPI_INT, right, 2, left, 2, world, &status);
    ROW("3.10", "Sendrecv_replace in a ring", value, left);
    in = -1;
    MPI_Isendrecv(&out, 1, MPI_INT, right, 3, &in, 1, MPI_INT, left, 3, world, &requests[0]);
    MPI_Wait(&requests[0], &status);
    HOLDS("3.10", "Isendrecv in a ring", in == left && status.MPI_SOURCE == left);
    value = check_rank;
    MPI_Isendrecv_replace(&value, 1, MPI_INT, right, 4, left, 4, world, &requests[0]);
    MPI_Wait(&requests[0], &status);
    HOLDS("3.10", "Isendrecv_replace in a ring", value == left && status.MPI_TAG == 4);
    MPI_Irecv(&in, 1, MPI_INT, left, 5, world, &requests[0]);
    MPI_Issend(&out, 1, MPI_INT, right, 5, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    ROW("3.4", "synchronous send", in, left);
    MPI_Irecv(&in, 1, MPI_INT, left, 6, world, &requests[0]);
    MPI_Barrier(world);
    MPI_Irsend(&out, 1, MPI_INT, right, 6, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    ROW("3.4", "ready send", in, left);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    right = (check_rank + 1) % check_size;
    left = (check_rank + check_size - 1) % check_size;
    arguments();
    null_datatype();
    nobody();
    empty_requests();
    messages();
    buffers();
    places();
    ring();
    return rows_end();
}
