/* Reductions, scans and accumulates of MPI_CHAR: small integers, or with `strict` (under TUTTI_CHECK_TYPES)
 * refused. */
#include "check.h"

enum { COUNT = 300 };

static int strict;

/* Checks the result of a call: MPI_ERR_OP with `strict`, otherwise success. */
#define CHECK_TAKEN(call) CHECK_CLASS(call, strict ? MPI_ERR_OP : MPI_SUCCESS)

static char own[COUNT], all[COUNT];

static char sum_of(int from, int to, int i)
{
    int sum = 0;
    for (int rank = from; rank < to; rank++) sum += rank + i;
    return (char)sum;
}

static void check_sums(int from, int to)
{
    if (strict) return;
    for (int i = 0; i < COUNT; i++) CHECK_EQUAL(all[i], sum_of(from, to, i));
}

static void reductions(void)
{
    MPI_Request request;
    char local = 1, *many = check_memory((size_t)check_size * COUNT);
    CHECK_TAKEN(MPI_Allreduce(own, all, COUNT, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    check_sums(0, check_size);
    CHECK_TAKEN(MPI_Reduce(own, all, COUNT, MPI_CHAR, MPI_SUM, 0, MPI_COMM_WORLD));
    if (check_rank == 0) check_sums(0, check_size);
    CHECK_TAKEN(MPI_Scan(own, all, COUNT, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    check_sums(0, check_rank + 1);
    CHECK_TAKEN(MPI_Exscan(own, all, COUNT, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    if (check_rank > 0) check_sums(0, check_rank);
    for (int rank = 0; rank < check_size; rank++) memcpy(many + rank * COUNT, own, COUNT);
    CHECK_TAKEN(MPI_Reduce_scatter_block(many, all, COUNT, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD));
    check_sums(0, check_size);
    CHECK_TAKEN(MPI_Iallreduce(own, all, COUNT, MPI_CHAR, MPI_MAX, MPI_COMM_WORLD, &request));
    if (!strict) MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_TAKEN(MPI_Reduce_local(own, &local, 1, MPI_CHAR, MPI_BXOR));
    if (!strict) CHECK_EQUAL(local, (char)check_rank ^ 1);
    CHECK_TAKEN(MPI_Allreduce(MPI_IN_PLACE, &local, 1, MPI_CHAR, MPI_LAND, MPI_COMM_WORLD));
    free(many);
}

static void accumulates(void)
{
    static char window[COUNT];
    char result, one = 1, zero = 0;
    int next = (check_rank + 1) % check_size;
    MPI_Datatype pair;
    MPI_Win win;
    MPI_Type_contiguous(2, MPI_CHAR, &pair);
    MPI_Type_commit(&pair);
    MPI_Win_create(window, COUNT, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_fence(0, win);
    CHECK_TAKEN(MPI_Accumulate(own, COUNT - 4, MPI_CHAR, next, 0, COUNT - 4, MPI_CHAR, MPI_SUM, win));
    CHECK_TAKEN(MPI_Accumulate(own, 1, pair, next, 0, 1, pair, MPI_SUM, win));
    CHECK_CLASS(MPI_Accumulate(own, 1, MPI_CHAR, next, COUNT - 3, 1, MPI_CHAR, MPI_REPLACE, win), MPI_SUCCESS);
    MPI_Win_fence(0, win);
    if (!strict)
        for (int i = 0; i < COUNT - 4; i++)
            CHECK_EQUAL(window[i], (char)((check_rank + check_size - 1) % check_size + i) * (i < 2 ? 2 : 1));
    MPI_Win_fence(0, win);
    CHECK_TAKEN(MPI_Fetch_and_op(&one, &result, MPI_CHAR, 0, COUNT - 1, MPI_SUM, win));
    MPI_Win_fence(0, win);
    if (check_rank == 0 && !strict) CHECK_EQUAL(window[COUNT - 1], (char)check_size);
    MPI_Win_fence(0, win);
    CHECK_CLASS(MPI_Compare_and_swap(&one, &zero, &result, MPI_CHAR, next, COUNT - 2, win), strict ? MPI_ERR_TYPE : MPI_SUCCESS);
    MPI_Win_fence(0, win);
    CHECK_EQUAL(window[COUNT - 2], strict ? 0 : 1);
    MPI_Win_free(&win);
    MPI_Type_free(&pair);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    strict = argc > 1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int i = 0; i < COUNT; i++) own[i] = (char)(check_rank + i);
    reductions();
    accumulates();
    return check_end();
}
