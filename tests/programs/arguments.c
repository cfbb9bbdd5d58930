/* A table of calls with one wrong argument each: the class, and an error string that names the function, the
 * argument and the rank.
 *
 * usage: arguments [unchecked]      unchecked: what takes time is not looked at; otherwise check_arguments of TUTTI_DEBUG
 */
#include "check.h"

static int unchecked;

/* `call` is the text of the call. `said` is the text that the error string must contain besides the
 * function's name. */
static void bad(const char *file, int line, const char *call, int code, int wanted, const char *said)
{
    char text[MPI_MAX_ERROR_STRING] = "", name[64] = "", rank[32];
    int class = MPI_SUCCESS, length = 0;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (class != wanted) {
        check_say(file, line, "%s gives class %d, not %d", call, class, wanted);
        return;
    }
    sscanf(call, "%63[A-Za-z0-9_]", name);
    snprintf(rank, sizeof rank, "rank %d", check_rank);
    MPI_Error_string(code, text, &length);
    if (!strstr(text, name) || !strstr(text, said) || !strstr(text, rank))
        check_say(file, line, "%s says \"%s\", which does not name %s, \"%s\" and %s", call, text, name, said, rank);
}

#define BAD(call, class, said) bad(__FILE__, __LINE__, #call, call, class, said)

/* Arguments of the calls, right and wrong. */
static int data[16], more[16], n, one = 1, flag, zeros[64], ones[64], minus[64], far[64];
static MPI_Aint aint;
static MPI_Count count;
static void *pointer;
static char text[1024];
static MPI_Comm world, made, freed;
static MPI_Datatype raw, raws[64], type;
static MPI_Session session;
static MPI_Group group, part;
static MPI_Request request, null_request = MPI_REQUEST_NULL;
static MPI_Message message, null_message = MPI_MESSAGE_NULL;
static MPI_Info info;
static MPI_Op op;
static MPI_Status status;
static MPI_Errhandler handler;

static void messages(void)
{
    BAD(MPI_Send(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Send(data, 1, MPI_INT, 0, 0, freed), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Send(data, 1, MPI_INT, 0, 0, (MPI_Comm)MPI_INT), MPI_ERR_COMM, "argument comm is a datatype");
    BAD(MPI_Send(data, -1, MPI_INT, 0, 0, world), MPI_ERR_COUNT, "argument count");
    BAD(MPI_Send_c(data, -1, MPI_INT, 0, 0, world), MPI_ERR_COUNT, "argument count");
    BAD(MPI_Send(data, 1, MPI_DATATYPE_NULL, 0, 0, world), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Send(data, 1, raw, 0, 0, world), MPI_ERR_TYPE, "not committed");
    BAD(MPI_Send(data, 1, MPI_INT, check_size, 0, world), MPI_ERR_RANK, "argument dest");
    BAD(MPI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, world), MPI_ERR_RANK, "argument dest");
    BAD(MPI_Send(data, 1, MPI_INT, 0, -1, world), MPI_ERR_TAG, "argument tag");
    BAD(MPI_Send(NULL, 1, MPI_INT, 0, 0, world), MPI_ERR_BUFFER, "argument buf");
    BAD(MPI_Bsend(data, -1, MPI_INT, 0, 0, world), MPI_ERR_COUNT, "argument count");
    BAD(MPI_Ssend(data, 1, MPI_INT, -7, 0, world), MPI_ERR_RANK, "argument dest");
    BAD(MPI_Rsend(data, 1, MPI_INT, 0, -7, world), MPI_ERR_TAG, "argument tag");
    BAD(MPI_Recv(data, -1, MPI_INT, 0, 0, world, &status), MPI_ERR_COUNT, "argument count");
    BAD(MPI_Recv(data, 1, MPI_INT, check_size, 0, world, &status), MPI_ERR_RANK, "argument source");
    BAD(MPI_Recv(data, 1, MPI_INT, 0, -9, world, &status), MPI_ERR_TAG, "argument tag");
    BAD(MPI_Recv(data, 1, (MPI_Datatype)MPI_SUM, 0, 0, world, &status), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Isend(data, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Isend(data, 1, MPI_INT, 0, 0, world, NULL), MPI_ERR_ARG, "argument request");
    BAD(MPI_Irecv(data, 1, MPI_INT, 0, 0, world, NULL), MPI_ERR_ARG, "argument request");
    BAD(MPI_Irecv(data, -3, MPI_INT, 0, 0, world, &request), MPI_ERR_COUNT, "argument count");
    BAD(MPI_Send_init(data, 1, MPI_INT, 0, 0, world, NULL), MPI_ERR_ARG, "argument request");
    BAD(MPI_Recv_init(data, 1, MPI_INT, -9, 0, world, &request), MPI_ERR_RANK, "argument source");
    BAD(MPI_Sendrecv(data, 1, MPI_INT, check_size, 0, more, 1, MPI_INT, 0, 0, world, &status), MPI_ERR_RANK, "argument dest");
    BAD(MPI_Sendrecv(data, 1, MPI_INT, 0, 0, more, 1, MPI_INT, check_size, 0, world, &status), MPI_ERR_RANK, "argument source");
    BAD(MPI_Sendrecv(data, 1, MPI_INT, 0, 0, more, 1, MPI_DATATYPE_NULL, 0, 0, world, &status), MPI_ERR_TYPE, "argument recvtype");
    BAD(MPI_Sendrecv_replace(data, 1, MPI_INT, 0, -1, 0, 0, world, &status), MPI_ERR_TAG, "tag");
    BAD(MPI_Probe(check_size, 0, world, &status), MPI_ERR_RANK, "argument source");
    BAD(MPI_Iprobe(0, -9, world, &flag, &status), MPI_ERR_TAG, "argument tag");
    BAD(MPI_Mprobe(0, 0, MPI_COMM_NULL, &message, &status), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Mprobe(0, 0, world, NULL, &status), MPI_ERR_ARG, "argument message");
    BAD(MPI_Improbe(-8, 0, world, &flag, &message, &status), MPI_ERR_RANK, "argument source");
    BAD(MPI_Mrecv(data, 1, MPI_INT, &null_message, &status), MPI_ERR_REQUEST, "argument message");
    BAD(MPI_Imrecv(data, 1, MPI_INT, &null_message, &request), MPI_ERR_REQUEST, "argument message");
    BAD(MPI_Psend_init(data, -1, 1, MPI_INT, 0, 0, world, MPI_INFO_NULL, &request), MPI_ERR_COUNT, "argument partitions");
    BAD(MPI_Psend_init(data, 1, 1, MPI_INT, 0, 0, world, (MPI_Info)MPI_INT, &request), MPI_ERR_INFO, "argument info");
    BAD(MPI_Precv_init(data, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, MPI_INFO_NULL, &request), MPI_ERR_RANK, "argument source");
    BAD(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Pready_range(0, 1, MPI_REQUEST_NULL), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Pready_list(1, zeros, MPI_REQUEST_NULL), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Parrived(MPI_REQUEST_NULL, 0, NULL), MPI_ERR_ARG, "argument flag");
    BAD(MPI_Buffer_attach(data, -1), MPI_ERR_ARG, "argument size");
    BAD(MPI_Buffer_attach(NULL, 8), MPI_ERR_BUFFER, "argument buffer");
    BAD(MPI_Buffer_detach(&pointer, &n), MPI_ERR_BUFFER, "attached");
    BAD(MPI_Bsend(data, 1, MPI_INT, 0, 0, world), MPI_ERR_BUFFER, "MPI_Buffer_attach");
    BAD(MPI_Comm_attach_buffer(MPI_COMM_NULL, data, 1), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_flush_buffer(MPI_COMM_NULL), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Session_attach_buffer(MPI_SESSION_NULL, data, 1), MPI_ERR_SESSION, "argument session");
    BAD(MPI_Get_count(NULL, MPI_INT, &n), MPI_ERR_ARG, "argument status");
    BAD(MPI_Get_count(&status, MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Get_elements_c(&status, MPI_DATATYPE_NULL, &count), MPI_ERR_TYPE, "argument datatype");
}

static void requests(void)
{
    BAD(MPI_Wait(&(MPI_Request){(MPI_Request)MPI_INT}, &status), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Wait(NULL, &status), MPI_ERR_ARG, "argument request");
    BAD(MPI_Test(&null_request, NULL, &status), MPI_ERR_ARG, "argument flag");
    BAD(MPI_Waitany(-1, &null_request, &n, &status), MPI_ERR_ARG, "array_of_requests");
    BAD(MPI_Waitany(1, NULL, &n, &status), MPI_ERR_ARG, "array_of_requests");
    BAD(MPI_Waitany(1, &null_request, NULL, &status), MPI_ERR_ARG, "ind");
    BAD(MPI_Waitall(-1, &null_request, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "array_of_requests");
    BAD(MPI_Waitsome(1, &null_request, NULL, &n, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "argument outcount");
    BAD(MPI_Testany(1, &(MPI_Request){(MPI_Request)MPI_SUM}, &n, &flag, &status), MPI_ERR_REQUEST, "array_of_requests");
    BAD(MPI_Testall(1, &null_request, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "argument flag");
    BAD(MPI_Testsome(-2, &null_request, &n, &n, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "array_of_requests");
    BAD(MPI_Request_free(&null_request), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Cancel(&null_request), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Start(&null_request), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Startall(1, &null_request), MPI_ERR_REQUEST, "array_of_requests");
    BAD(MPI_Startall(-1, &null_request), MPI_ERR_ARG, "array_of_requests");
    BAD(MPI_Request_get_status((MPI_Request)MPI_COMM_SELF, &flag, &status), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Request_get_status_any(-1, &null_request, &n, &flag, &status), MPI_ERR_ARG, "array_of_requests");
    BAD(MPI_Request_get_status_all(1, &null_request, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "argument flag");
    BAD(MPI_Request_get_status_some(1, &null_request, NULL, &n, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "argument outcount");
    BAD(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST, "argument request");
    BAD(MPI_Grequest_start(NULL, NULL, NULL, NULL, &request), MPI_ERR_ARG, "callback");
    BAD(MPI_Status_set_cancelled(MPI_STATUS_IGNORE, 1), MPI_ERR_ARG, "argument status");
    BAD(MPI_Status_set_elements(MPI_STATUS_IGNORE, MPI_INT, 1), MPI_ERR_ARG, "argument status");
    BAD(MPI_Status_set_elements(&status, MPI_DATATYPE_NULL, 1), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Test_cancelled(MPI_STATUS_IGNORE, &flag), MPI_ERR_ARG, "argument status");
    BAD(MPI_Status_get_source(MPI_STATUS_IGNORE, &n), MPI_ERR_ARG, "argument status");
}

static void collectives(void)
{
    BAD(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Ibarrier(world, NULL), MPI_ERR_ARG, "argument request");
    BAD(MPI_Bcast(data, 1, MPI_INT, check_size, world), MPI_ERR_ROOT, "argument root");
    BAD(MPI_Bcast(data, 1, MPI_INT, MPI_ROOT, world), MPI_ERR_ROOT, "argument root");
    BAD(MPI_Bcast(data, -1, MPI_INT, 0, world), MPI_ERR_COUNT, "count");
    BAD(MPI_Bcast(data, 1, raw, 0, world), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Gather(data, 1, MPI_INT, more, 1, MPI_INT, -1, world), MPI_ERR_ROOT, "argument root");
    BAD(MPI_Gather(data, 1, MPI_DATATYPE_NULL, more, 1, MPI_INT, 0, world), MPI_ERR_TYPE, "argument sendtype");
    BAD(MPI_Scatter(data, 1, MPI_INT, more, -1, MPI_INT, 0, world), MPI_ERR_COUNT, "argument recvcount is -1");
    BAD(MPI_Scatterv(data, zeros, zeros, MPI_INT, more, 0, MPI_DATATYPE_NULL, 0, world), MPI_ERR_TYPE, "argument recvtype");
    BAD(MPI_Gatherv(data, 0, MPI_DATATYPE_NULL, more, zeros, zeros, MPI_INT, 0, world), MPI_ERR_TYPE, "argument sendtype");
    BAD(MPI_Allgather(data, 1, MPI_INT, more, 1, MPI_DATATYPE_NULL, world), MPI_ERR_TYPE, "argument recvtype");
    BAD(MPI_Allgatherv(data, 0, MPI_INT, more, minus, zeros, MPI_INT, world), MPI_ERR_COUNT, "argument recvcounts");
    BAD(MPI_Allgatherv(data, 0, MPI_INT, more, NULL, zeros, MPI_INT, world), MPI_ERR_ARG, "argument recvcounts");
    BAD(MPI_Alltoall(data, -1, MPI_INT, more, 1, MPI_INT, world), MPI_ERR_COUNT, "count");
    BAD(MPI_Alltoallv(data, zeros, zeros, MPI_INT, more, zeros, NULL, MPI_INT, world), MPI_ERR_ARG, "argument rdispls");
    BAD(MPI_Allgatherv(data, 0, MPI_INT, more, zeros, zeros, raw, world), MPI_ERR_TYPE, "argument recvtype is not committed");
    BAD(MPI_Alltoallw(data, zeros, zeros, raws, more, zeros, zeros, raws, world), MPI_ERR_TYPE, "argument sendtypes");
    BAD(MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, world), MPI_ERR_BUFFER, "argument recvbuf is MPI_IN_PLACE");
    BAD(MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, world), MPI_ERR_BUFFER, "MPI_IN_PLACE");
    BAD(MPI_Allgather(NULL, 1, MPI_INT, more, 1, MPI_INT, world), MPI_ERR_BUFFER, "argument sendbuf is a null pointer");
    if (unchecked) {
        CHECK_CLASS(MPI_Allgatherv(data, 1, MPI_INT, more, ones, zeros, MPI_INT, world), MPI_SUCCESS);
    } else {
        BAD(MPI_Alltoall(data, 8, MPI_INT, data + 1, 8, MPI_INT, world), MPI_ERR_BUFFER, "sendbuf and recvbuf overlap");
        BAD(MPI_Allreduce(data, data + 1, 2, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER, "sendbuf and recvbuf overlap");
        if (check_size > 1)
            BAD(MPI_Allgatherv(data, 1, MPI_INT, more, ones, zeros, MPI_INT, world), MPI_ERR_BUFFER, "blocks 0 and 1 of argument recvbuf");
    }
    BAD(MPI_Neighbor_allgather(data, 1, MPI_INT, more, 1, MPI_INT, world), MPI_ERR_TOPOLOGY, "argument comm");
    BAD(MPI_Reduce(data, more, 1, MPI_INT, MPI_OP_NULL, 0, world), MPI_ERR_OP, "argument op");
    BAD(MPI_Reduce(data, more, 1, MPI_INT, MPI_SUM, check_size, world), MPI_ERR_ROOT, "argument root");
    BAD(MPI_Allreduce(data, more, 1, MPI_INT, (MPI_Op)MPI_INT, world), MPI_ERR_OP, "argument op is a datatype");
    BAD(MPI_Allreduce(data, data, 1, MPI_INT, MPI_SUM, world), MPI_ERR_BUFFER, "sendbuf and recvbuf");
    BAD(MPI_Allreduce(data, more, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "count");
    BAD(MPI_Reduce_scatter(data, more, minus, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "count");
    BAD(MPI_Reduce_scatter_block(data, more, -1, MPI_INT, MPI_SUM, world), MPI_ERR_COUNT, "count");
    BAD(MPI_Scan(data, more, 1, MPI_DATATYPE_NULL, MPI_SUM, world), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Exscan(data, more, 1, MPI_INT, MPI_OP_NULL, world), MPI_ERR_OP, "argument op");
    BAD(MPI_Iallreduce(data, more, 1, MPI_INT, MPI_SUM, world, NULL), MPI_ERR_ARG, "argument request");
    BAD(MPI_Ibcast(data, 1, MPI_INT, -1, world, &request), MPI_ERR_ROOT, "argument root");
    BAD(MPI_Bcast_init(data, 1, MPI_INT, -1, world, MPI_INFO_NULL, &request), MPI_ERR_ROOT, "argument root");
    BAD(MPI_Reduce_local(data, more, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT, "count");
    BAD(MPI_Reduce_local(data, more, 1, MPI_INT, MPI_OP_NULL), MPI_ERR_OP, "argument op");
    BAD(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG, "null");
    BAD(MPI_Op_free(&(MPI_Op){MPI_MAX}), MPI_ERR_OP, "argument op");
    BAD(MPI_Op_commutative(MPI_OP_NULL, &flag), MPI_ERR_OP, "argument op");
}

static void datatypes(void)
{
    BAD(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    BAD(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE, "argument oldtype");
    BAD(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG, "argument newtype");
    BAD(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG, "blocklength");
    BAD(MPI_Type_create_hvector(-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    BAD(MPI_Type_indexed(1, minus, zeros, MPI_INT, &type), MPI_ERR_ARG, "blocklength");
    BAD(MPI_Type_indexed(1, NULL, zeros, MPI_INT, &type), MPI_ERR_ARG, "array_of_blocklengths");
    BAD(MPI_Type_create_indexed_block(1, 1, NULL, MPI_INT, &type), MPI_ERR_ARG, "array_of_displacements");
    BAD(MPI_Type_create_struct(1, zeros, &aint, &(MPI_Datatype){MPI_DATATYPE_NULL}, &type), MPI_ERR_TYPE, "array_of_types");
    BAD(MPI_Type_create_resized(MPI_DATATYPE_NULL, 0, 8, &type), MPI_ERR_TYPE, "argument oldtype");
    BAD(MPI_Type_create_subarray(1, (int[]){4}, (int[]){5}, (int[]){0}, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "subsizes");
    BAD(MPI_Type_create_subarray(1, (int[]){4}, (int[]){2}, (int[]){0}, 99, MPI_INT, &type), MPI_ERR_ARG, "order");
    BAD(MPI_Type_dup(MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE, "argument oldtype");
    BAD(MPI_Type_commit(&(MPI_Datatype){MPI_DATATYPE_NULL}), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_commit(NULL), MPI_ERR_ARG, "argument datatype");
    BAD(MPI_Type_free(&(MPI_Datatype){MPI_INT}), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_size(MPI_DATATYPE_NULL, &n), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_size(MPI_INT, NULL), MPI_ERR_ARG, "argument size");
    BAD(MPI_Type_get_extent(MPI_DATATYPE_NULL, &aint, &aint), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_get_true_extent(MPI_DATATYPE_NULL, &aint, &aint), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_get_envelope(MPI_DATATYPE_NULL, &n, &n, &n, &n), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_set_name(MPI_DATATYPE_NULL, "x"), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Type_create_f90_integer(-1, &type), MPI_ERR_ARG, "argument r");
    BAD(MPI_Type_create_f90_integer(99, &type), MPI_ERR_ARG, "argument r");
    BAD(MPI_Type_create_f90_real(-1, MPI_UNDEFINED, &type), MPI_ERR_ARG, "arguments p and r");
    BAD(MPI_Type_create_f90_complex(MPI_UNDEFINED, MPI_UNDEFINED, &type), MPI_ERR_ARG, "arguments p and r");
    BAD(MPI_Type_match_size(99, 4, &type), MPI_ERR_ARG, "typeclass");
    BAD(MPI_Type_create_darray(0, 0, 1, &one, &one, &one, &one, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "argument array_of_distribs");
    BAD(MPI_Type_get_attr(MPI_INT, MPI_KEYVAL_INVALID, &pointer, &flag), MPI_ERR_KEYVAL, "keyval");
    BAD(MPI_Get_address(data, NULL), MPI_ERR_ARG, "argument address");
    BAD(MPI_Pack(data, 1, MPI_INT, more, 2, &n, world), MPI_ERR_TRUNCATE, "argument outbuf");
    BAD(MPI_Pack(data, -1, MPI_INT, more, 64, &n, world), MPI_ERR_COUNT, "count");
    BAD(MPI_Pack_size(1, MPI_DATATYPE_NULL, world, &n), MPI_ERR_TYPE, "argument datatype");
    BAD(MPI_Unpack(data, 2, &n, more, 1, MPI_INT, world), MPI_ERR_TRUNCATE, "argument inbuf");
    BAD(MPI_Pack_external("internal", data, 1, MPI_INT, more, 64, &aint), MPI_ERR_ARG, "datarep");
}

static void communicators(void)
{
    BAD(MPI_Comm_size(MPI_COMM_NULL, &n), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_rank(world, NULL), MPI_ERR_ARG, "argument rank");
    BAD(MPI_Comm_compare(world, MPI_COMM_NULL, &n), MPI_ERR_COMM, "argument comm2");
    BAD(MPI_Comm_dup(MPI_COMM_NULL, &made), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_dup(world, NULL), MPI_ERR_ARG, "argument newcomm");
    BAD(MPI_Comm_idup(world, &made, NULL), MPI_ERR_ARG, "argument request");
    BAD(MPI_Comm_dup_with_info(world, (MPI_Info)MPI_INT, &made), MPI_ERR_INFO, "argument info");
    BAD(MPI_Comm_create(world, MPI_GROUP_NULL, &made), MPI_ERR_GROUP, "argument group");
    BAD(MPI_Comm_create_group(world, group, -1, &made), MPI_ERR_TAG, "argument tag");
    BAD(MPI_Comm_split(world, -3, 0, &made), MPI_ERR_ARG, "argument color");
    BAD(MPI_Comm_split_type(world, 4711, 0, MPI_INFO_NULL, &made), MPI_ERR_ARG, "argument split_type");
    BAD(MPI_Comm_free(&(MPI_Comm){MPI_COMM_NULL}), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_disconnect(&(MPI_Comm){MPI_COMM_NULL}), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_remote_size(world, &n), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_remote_group(world, &part), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_group(MPI_COMM_NULL, &part), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_set_name(MPI_COMM_NULL, "x"), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_set_info(MPI_COMM_NULL, info), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_set_errhandler(world, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER, "argument errhandler");
    BAD(MPI_Comm_call_errhandler(MPI_COMM_NULL, 1), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Comm_call_errhandler(world, 1234567), MPI_ERR_ARG, "errorcode");
    BAD(MPI_Comm_set_attr(world, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL, "keyval");
    BAD(MPI_Comm_delete_attr(world, 123456), MPI_ERR_KEYVAL, "keyval");
    BAD(MPI_Comm_free_keyval(&(int){MPI_TAG_UB}), MPI_ERR_KEYVAL, "keyval");
    BAD(MPI_Intercomm_create(world, check_size, world, 0, 1, &made), MPI_ERR_RANK, "argument local_leader");
    BAD(MPI_Intercomm_merge(world, 0, &made), MPI_ERR_COMM, "argument intercomm");
    BAD(MPI_Topo_test(MPI_COMM_NULL, &n), MPI_ERR_COMM, "argument comm");
    BAD(MPI_Dims_create(7, 1, (int[]){2}), MPI_ERR_DIMS, "dims");
    BAD(MPI_Cart_create(world, -1, zeros, zeros, 0, &made), MPI_ERR_DIMS, "argument ndims");
    BAD(MPI_Cart_rank(world, zeros, &n), MPI_ERR_TOPOLOGY, "argument comm");
    BAD(MPI_Graphdims_get(world, &n, &n), MPI_ERR_TOPOLOGY, "argument comm");
}

static void groups_and_infos(void)
{
    BAD(MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP, "argument group");
    BAD(MPI_Group_rank((MPI_Group)MPI_INT, &n), MPI_ERR_GROUP, "argument group");
    BAD(MPI_Group_incl(group, 1, far, &part), MPI_ERR_RANK, "argument ranks");
    BAD(MPI_Group_incl(group, -1, zeros, &part), MPI_ERR_ARG, "ranks");
    BAD(MPI_Group_excl(group, 1, minus, &part), MPI_ERR_RANK, "argument ranks");
    BAD(MPI_Group_range_incl(group, 1, (int[][3]){{0, 0, 0}}, &part), MPI_ERR_ARG, "ranges");
    BAD(MPI_Group_translate_ranks(group, 1, far, group, &n), MPI_ERR_RANK, "argument ranks1");
    BAD(MPI_Group_union(group, MPI_GROUP_NULL, &part), MPI_ERR_GROUP, "argument group2");
    BAD(MPI_Group_compare(MPI_GROUP_NULL, group, &n), MPI_ERR_GROUP, "argument group1");
    BAD(MPI_Group_free(&(MPI_Group){MPI_GROUP_NULL}), MPI_ERR_GROUP, "argument group");
    BAD(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO, "argument info");
    BAD(MPI_Info_set(info, NULL, "b"), MPI_ERR_ARG, "argument key");
    BAD(MPI_Info_set(info, "", "b"), MPI_ERR_INFO_KEY, "key");
    BAD(MPI_Info_delete(info, "nothing"), MPI_ERR_INFO_NOKEY, "key");
    BAD(MPI_Info_get_nthkey(info, 5, text), MPI_ERR_ARG, "argument n");
    BAD(MPI_Info_free(&(MPI_Info){MPI_INFO_NULL}), MPI_ERR_INFO, "argument info");
    BAD(MPI_Info_dup(MPI_INFO_NULL, &info), MPI_ERR_INFO, "argument info");
    BAD(MPI_Comm_create_errhandler(NULL, &handler), MPI_ERR_ARG, "null pointer");
    BAD(MPI_Errhandler_free(&(MPI_Errhandler){MPI_ERRHANDLER_NULL}), MPI_ERR_ERRHANDLER, "argument errhandler");
    BAD(MPI_Error_class(123456, &n), MPI_ERR_ARG, "123456");
    BAD(MPI_Error_class(1, NULL), MPI_ERR_ARG, "argument errorclass");
    BAD(MPI_Add_error_code(-1, &n), MPI_ERR_ARG, "errorclass");
    BAD(MPI_Add_error_string(MPI_ERR_ARG, "x"), MPI_ERR_ARG, "standard");
    BAD(MPI_Remove_error_class(MPI_ERR_ARG), MPI_ERR_ARG, "standard");
    BAD(MPI_Remove_error_code(123456), MPI_ERR_ARG, "123456");
    BAD(MPI_Remove_error_string(123456), MPI_ERR_ARG, "123456");
    BAD(MPI_Alloc_mem(-1, MPI_INFO_NULL, &pointer), MPI_ERR_ARG, "argument size");
    BAD(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &pointer), MPI_ERR_NO_MEM, "argument size");
    BAD(MPI_Init_thread(NULL, NULL, 99, &n), MPI_ERR_ARG, "argument required");
    BAD(MPI_Get_processor_name(text, NULL), MPI_ERR_ARG, "argument resultlen");
    BAD(MPI_Get_version(NULL, &n), MPI_ERR_ARG, "argument version");
    BAD(MPI_Abi_get_version(&n, NULL), MPI_ERR_ARG, "argument abi_minor");
    BAD(MPI_Abi_set_fortran_info(info), MPI_ERR_ABI, "Fortran");
    BAD(MPI_Abi_get_fortran_booleans(3, data, more, &flag), MPI_ERR_ARG, "argument logical_size");
    BAD(MPI_Session_finalize(&(MPI_Session){MPI_SESSION_NULL}), MPI_ERR_SESSION, "argument session");
    BAD(MPI_Session_get_num_psets(MPI_SESSION_NULL, MPI_INFO_NULL, &n), MPI_ERR_SESSION, "argument session");
    BAD(MPI_Session_get_num_psets(session, (MPI_Info)MPI_INT, &n), MPI_ERR_INFO, "argument info");
    BAD(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &n, text), MPI_ERR_ARG, "argument n");
    BAD(MPI_Session_get_pset_info(session, "no such", &info), MPI_ERR_ARG, "process set");
    BAD(MPI_Group_from_session_pset(session, NULL, &part), MPI_ERR_ARG, "argument pset_name");
    BAD(MPI_Comm_create_from_group(MPI_GROUP_NULL, "tag", MPI_INFO_NULL, MPI_ERRORS_RETURN, &made), MPI_ERR_GROUP, "argument group");
    BAD(MPI_Comm_create_from_group(group, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &made), MPI_ERR_ARG, "argument stringtag");
    BAD(MPI_Session_get_errhandler(MPI_SESSION_NULL, &handler), MPI_ERR_SESSION, "argument session");
    BAD(MPI_Win_free(&(MPI_Win){MPI_WIN_NULL}), MPI_ERR_WIN, "argument win");
    BAD(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN, "argument win");
    BAD(MPI_Win_create(data, -1, 1, MPI_INFO_NULL, world, &(MPI_Win){MPI_WIN_NULL}), MPI_ERR_SIZE, "argument size");
    BAD(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN, "argument win");
    BAD(MPI_Close_port(NULL), MPI_ERR_ARG, "argument port_name");
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    unchecked = argc > 1 && !strcmp(argv[1], "unchecked");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_dup(MPI_COMM_SELF, &made);
    freed = made;
    MPI_Comm_free(&made);
    MPI_Comm_group(world, &group);
    MPI_Info_create(&info);
    MPI_Type_contiguous(2, MPI_INT, &raw);
    for (int i = 0; i < 64; i++)
        minus[i] = -1, ones[i] = 1, far[i] = check_size, raws[i] = raw;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    messages();
    requests();
    collectives();
    datatypes();
    communicators();
    groups_and_infos();
    /* And all is well still. */
    int total = 0;
    CHECK_CLASS(MPI_Allreduce(&check_rank, &total, 1, MPI_INT, MPI_SUM, world), MPI_SUCCESS);
    CHECK_EQUAL(total, check_size * (check_size - 1) / 2);
    MPI_Session_finalize(&session);
    MPI_Type_free(&raw);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
    MPI_Comm_free(&world);
    return check_end();
}
