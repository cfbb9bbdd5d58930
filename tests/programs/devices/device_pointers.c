/* Every call that is given memory of a device returns an error that names the pointer; memory of the host
 * goes on as before.
 *
 * usage: device_pointers DRIVER reachable|apart    the driver is loaded after MPI_Init, as CUDA does
 */
#define _GNU_SOURCE
#include "../check.h"
#include <dlfcn.h>

enum { BYTES = 1 << 20 };

static char *device, *host, *managed;
static MPI_Comm comm;

/* Checks that the call returns MPI_ERR_BUFFER and a text with this address. */
static void check_refused(const char *call, int code, const char *address)
{
    char text[MPI_MAX_ERROR_STRING], wanted[32];
    int length, class = MPI_SUCCESS;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    snprintf(wanted, sizeof wanted, "%p", (const void *)address);
    if (class != MPI_ERR_BUFFER || !strstr(text, wanted) || !strstr(text, "device"))
        check_say(__FILE__, __LINE__, "%s gives class %d: %s", call, class, text);
}
#define REFUSED(call, address) check_refused(#call, call, address)

static void check_messages(int bytes)
{
    MPI_Request request;
    int right = (check_rank + 1) % check_size;
    REFUSED(MPI_Send(device, bytes, MPI_BYTE, right, 0, comm), device);
    REFUSED(MPI_Ssend(device + 8, bytes - 8, MPI_BYTE, right, 0, comm), device + 8);
    REFUSED(MPI_Isend(device, bytes, MPI_BYTE, right, 0, comm, &request), device);
    REFUSED(MPI_Recv(device, bytes, MPI_BYTE, right, 0, comm, MPI_STATUS_IGNORE), device);
    REFUSED(MPI_Irecv(device, bytes, MPI_BYTE, right, 0, comm, &request), device);
    REFUSED(MPI_Send_init(device, bytes, MPI_BYTE, right, 0, comm, &request), device);
    REFUSED(MPI_Sendrecv(device, bytes, MPI_BYTE, right, 0, host, bytes, MPI_BYTE, right, 0, comm, MPI_STATUS_IGNORE), device);
}

static void check_collectives(int count)
{
    MPI_Request request;
    REFUSED(MPI_Bcast(device, count, MPI_BYTE, 0, comm), device);
    REFUSED(MPI_Allreduce(device, host, count, MPI_UINT8_T, MPI_MAX, comm), device);
    REFUSED(MPI_Allreduce(host, device, count, MPI_UINT8_T, MPI_MAX, comm), device);
    REFUSED(MPI_Allgather(device, 8, MPI_BYTE, host, 8, MPI_BYTE, comm), device);
    REFUSED(MPI_Alltoall(host, 8, MPI_BYTE, device, 8, MPI_BYTE, comm), device);
    REFUSED(MPI_Ibcast(device, count, MPI_BYTE, 0, comm, &request), device);
}

static void check_others(void)
{
    MPI_Win window;
    MPI_Datatype absolute;
    MPI_Aint place;
    int position = 0, one = 1;
    REFUSED(MPI_Reduce_local(device, host, 8, MPI_UINT8_T, MPI_MAX), device);
    REFUSED(MPI_Pack(device, 8, MPI_BYTE, host, 8, &position, comm), device);
    REFUSED(MPI_Unpack(host, 8, &position, device, 8, MPI_BYTE, comm), device);
    REFUSED(MPI_Win_create(device, 64, 1, MPI_INFO_NULL, comm, &window), device);
    CHECK_EQUAL(MPI_Win_create(host, 64, 1, MPI_INFO_NULL, comm, &window), MPI_SUCCESS);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, window);
    REFUSED(MPI_Put(device, 8, MPI_BYTE, 0, 0, 8, MPI_BYTE, window), device);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
    MPI_Get_address(device + 16, &place);
    MPI_Type_create_hindexed(1, &one, &place, MPI_INT, &absolute);
    MPI_Type_commit(&absolute);
    REFUSED(MPI_Send(MPI_BOTTOM, 1, absolute, 0, 0, comm), device + 16);
    MPI_Type_free(&absolute);
    /* Nothing is nowhere. */
    CHECK_EQUAL(MPI_Send(device, 0, MPI_BYTE, MPI_PROC_NULL, 0, comm), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Bcast(device, 0, MPI_BYTE, 0, comm), MPI_SUCCESS);
}

static void check_host(char *memory)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    char *other = malloc(BYTES);
    for (int round = 0; round < 20; round++) {
        memset(memory, check_rank + round, BYTES);
        MPI_Sendrecv(memory, BYTES, MPI_CHAR, right, 1, other, BYTES, MPI_CHAR, left, 1, comm, MPI_STATUS_IGNORE);
        CHECK(other[0] == (char)(left + round) && other[BYTES - 1] == other[0]);
        MPI_Allreduce(memory, other, 64, MPI_UINT8_T, MPI_MAX, comm);
        CHECK_EQUAL(other[63], check_size - 1 + round);
    }
    free(other);
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    host = calloc(BYTES, 1);
    check_host(host);
    void *driver = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(driver != NULL);
    void *(*allocate)(size_t, int), *(*manage)(size_t);
    *(void **)&allocate = dlsym(driver, "fake_device");
    *(void **)&manage = dlsym(driver, "fake_managed");
    device = allocate(BYTES, !strcmp(argv[2], "reachable"));
    managed = manage(BYTES);
    check_messages(64);
    check_messages(BYTES);
    check_collectives(8);
    check_collectives(BYTES);
    check_others();
    check_host(host);
    check_host(managed);
    MPI_Comm_free(&comm);
    return check_end();
}
