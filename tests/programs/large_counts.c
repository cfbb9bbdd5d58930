/* Counts beyond 2^31 through the functions with large counts: items without bytes, types larger than any
 * memory, and displacements far apart in memory that is only reserved.
 */
#define _DEFAULT_SOURCE
#include "check.h"

#include <sys/mman.h>

static const MPI_Count MANY = (MPI_Count)3 << 31; /* 6442450944 */
static MPI_Comm world;
static MPI_Datatype nothing; /* an item without bytes */
static char buffer[8];
static int right, left;

static void messages(void)
{
    MPI_Request requests[8];
    MPI_Status status;
    MPI_Message message;
    MPI_Count got;
    int flag, small;
    MPI_Irecv_c(buffer, MANY, nothing, left, 1, world, &requests[0]);
    MPI_Isend_c(buffer, MANY, nothing, right, 1, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Issend_c(buffer, MANY, nothing, right, 2, world, &requests[0]);
    MPI_Recv_c(buffer, MANY, nothing, left, 2, world, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    CHECK_EQUAL(status.MPI_SOURCE, left);
    MPI_Sendrecv_c(buffer, MANY, nothing, right, 3, buffer, MANY, nothing, left, 3, world, &status);
    MPI_Sendrecv_replace_c(buffer, MANY, nothing, right, 4, left, 4, world, &status);
    MPI_Isend_c(buffer, MANY, nothing, right, 5, world, &requests[0]);
    MPI_Mprobe(left, 5, world, &message, &status);
    MPI_Mrecv_c(buffer, MANY, nothing, &message, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Send_init_c(buffer, MANY, nothing, right, 6, world, &requests[0]);
    MPI_Recv_init_c(buffer, MANY, nothing, left, 6, world, &requests[1]);
    MPI_Psend_init_c(buffer, 3, MANY, nothing, right, 7, world, MPI_INFO_NULL, &requests[2]);
    MPI_Precv_init_c(buffer, 2, MANY, nothing, left, 7, world, MPI_INFO_NULL, &requests[3]);
    MPI_Startall(4, requests);
    MPI_Pready_range(0, 2, requests[2]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
    MPI_Status_set_elements_c(&status, MPI_SHORT, MANY);
    MPI_Get_count_c(&status, MPI_SHORT, &got);
    CHECK_EQUAL(got, MANY);
    MPI_Get_elements_c(&status, MPI_CHAR, &got);
    CHECK_EQUAL(got, 2 * MANY);
    MPI_Get_count(&status, MPI_SHORT, &small);
    CHECK_EQUAL(small, MPI_UNDEFINED);
    MPI_Get_elements(&status, MPI_SHORT, &small);
    CHECK_EQUAL(small, MPI_UNDEFINED);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag);
}

static void collectives(void)
{
    MPI_Count *counts = check_memory(sizeof(MPI_Count) * (size_t)check_size);
    MPI_Aint *places = check_memory(sizeof(MPI_Aint) * (size_t)check_size);
    MPI_Datatype *types = check_memory(sizeof(MPI_Datatype) * (size_t)check_size);
    MPI_Request request;
    for (int i = 0; i < check_size; i++)
        counts[i] = MANY, places[i] = i * (MPI_Aint)MANY, types[i] = nothing;
    MPI_Bcast_c(buffer, MANY, nothing, 0, world);
    MPI_Gather_c(buffer, MANY, nothing, buffer + 4, MANY, nothing, 0, world);
    MPI_Scatter_c(buffer, MANY, nothing, buffer + 4, MANY, nothing, 0, world);
    MPI_Allgather_c(buffer, MANY, nothing, buffer + 4, MANY, nothing, world);
    MPI_Alltoall_c(buffer, MANY, nothing, buffer + 4, MANY, nothing, world);
    MPI_Gatherv_c(buffer, MANY, nothing, buffer + 4, counts, places, nothing, 0, world);
    MPI_Scatterv_c(buffer, counts, places, nothing, buffer + 4, MANY, nothing, 0, world);
    MPI_Allgatherv_c(buffer, MANY, nothing, buffer + 4, counts, places, nothing, world);
    MPI_Alltoallv_c(buffer, counts, places, nothing, buffer + 4, counts, places, nothing, world);
    MPI_Alltoallw_c(buffer, counts, places, types, buffer + 4, counts, places, types, world);
    MPI_Ibcast_c(buffer, MANY, nothing, 0, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ialltoallv_c(buffer, counts, places, nothing, buffer + 4, counts, places, nothing, world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allgatherv_init_c(buffer, MANY, nothing, buffer + 4, counts, places, nothing, world, MPI_INFO_NULL, &request);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    free(counts), free(places), free(types);
}

static void datatypes(void)
{
    MPI_Datatype type, other;
    MPI_Count size, lb, extent, integers, addresses, larges, inner, lengths[2] = {MANY, 1}, large[2] = {0, MANY}, contents[4];
    MPI_Count wide[2] = {MANY, 4}, part[2] = {MANY / 2, 2}, first[2] = {MANY / 4, 1};
    int combiner, small;
    MPI_Type_contiguous_c(MANY, MPI_INT, &type);
    MPI_Type_size_c(type, &size);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK(size == 4 * MANY && lb == 0 && extent == 4 * MANY);
    MPI_Type_get_true_extent_c(type, &lb, &extent);
    CHECK_EQUAL(extent, 4 * MANY);
    MPI_Type_size(type, &small);
    CHECK_EQUAL(small, MPI_UNDEFINED);
    MPI_Type_get_envelope_c(type, &integers, &addresses, &larges, &inner, &combiner);
    CHECK(integers == 0 && addresses == 0 && larges == 1 && inner == 1 && combiner == MPI_COMBINER_CONTIGUOUS);
    MPI_Type_get_contents_c(type, 0, 0, 1, 1, NULL, NULL, contents, &other);
    CHECK(contents[0] == MANY && other == MPI_INT);
    MPI_Type_free(&type);
    MPI_Type_vector_c(MANY, 2, 3, MPI_CHAR, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK_EQUAL(extent, 3 * (MANY - 1) + 2);
    MPI_Type_free(&type);
    MPI_Type_create_hvector_c(2, 1, MANY, MPI_CHAR, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK_EQUAL(extent, MANY + 1);
    MPI_Type_free(&type);
    MPI_Type_indexed_c(2, lengths, large, MPI_CHAR, &type);
    MPI_Type_size_c(type, &size);
    CHECK_EQUAL(size, MANY + 1);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_c(2, lengths, large, MPI_CHAR, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK_EQUAL(extent, MANY + 1);
    MPI_Type_free(&type);
    MPI_Type_create_indexed_block_c(2, 2, large, MPI_SHORT, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK_EQUAL(extent, 2 * MANY + 4);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_block_c(2, 2, large, MPI_SHORT, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK_EQUAL(extent, MANY + 4);
    MPI_Type_free(&type);
    MPI_Type_create_struct_c(2, lengths, large, (MPI_Datatype[]){MPI_CHAR, MPI_CHAR}, &type);
    MPI_Type_size_c(type, &size);
    CHECK_EQUAL(size, MANY + 1);
    MPI_Type_free(&type);
    MPI_Type_create_resized_c(MPI_INT, -MANY, 2 * MANY, &type);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK(lb == -MANY && extent == 2 * MANY);
    MPI_Type_free(&type);
    MPI_Type_create_subarray_c(2, wide, part, first, MPI_ORDER_C, MPI_CHAR, &type);
    MPI_Type_size_c(type, &size);
    MPI_Type_get_extent_c(type, &lb, &extent);
    CHECK(size == MANY && extent == 4 * MANY);
    MPI_Type_free(&type);
    MPI_Type_create_darray_c(2, 1, 1, (MPI_Count[]){MANY}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){MPI_DISTRIBUTE_DFLT_DARG}, (int[]){2},
                             MPI_ORDER_C, MPI_CHAR, &type);
    MPI_Type_size_c(type, &size);
    CHECK_EQUAL(size, MANY / 2);
    MPI_Type_free(&type);
    MPI_Pack_size_c(MANY, MPI_INT, world, &size);
    CHECK(size >= 4 * MANY);
    MPI_Pack_external_size_c("external32", MANY, MPI_INT, &size);
    CHECK_EQUAL(size, 4 * MANY);
    MPI_Count position = 0;
    MPI_Pack_c(buffer, MANY, nothing, buffer + 4, 4, &position, world);
    MPI_Unpack_c(buffer, 4, &position, buffer + 4, MANY, nothing, world);
    CHECK_EQUAL(position, 0);
}

/* Tests a type of two ints that are more than 4 GiB apart. */
static void far_apart(void)
{
    MPI_Datatype type;
    size_t room = (size_t)MANY + 4096;
    char *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int pair[2] = {check_rank, check_rank + 1000};
    if (memory == MAP_FAILED)
        return;
    MPI_Type_create_hvector_c(2, 1, MANY, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv_c(pair, 2, MPI_INT, right, 8, memory, 1, type, left, 8, world, MPI_STATUS_IGNORE);
    CHECK_EQUAL(*(int *)memory, left);
    CHECK_EQUAL(*(int *)(memory + MANY), left + 1000);
    MPI_Bcast_c(memory, 1, type, 0, world);
    CHECK_EQUAL(*(int *)(memory + MANY), (check_size - 1) % check_size + 1000);
    MPI_Type_free(&type);
    munmap(memory, room);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    messages();
    collectives();
    datatypes();
    far_apart();
    MPI_Type_free(&nothing);
    MPI_Comm_free(&world);
    return check_end();
}
