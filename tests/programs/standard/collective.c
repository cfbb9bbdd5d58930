/* Collective communication (MPI-5, chapter 6). */
#include "rows.h"

static MPI_Comm world = MPI_COMM_WORLD, self = MPI_COMM_SELF;

static void arguments(void)
{
    int a[4] = {0}, b[4] = {0}, zero = 0;
    MPI_Request request;
    MPI_Datatype none = MPI_DATATYPE_NULL, fresh;
    MPI_Type_contiguous(2, MPI_INT, &fresh);
    REFUSED("6.4", "bcast from a root beyond the group", MPI_Bcast(a, 1, MPI_INT, 1, self), MPI_ERR_ROOT);
    REFUSED("6.4", "bcast from a negative root", MPI_Bcast(a, 1, MPI_INT, -1, self), MPI_ERR_ROOT);
    REFUSED("6.4", "bcast of a negative count", MPI_Bcast(a, -1, MPI_INT, 0, self), MPI_ERR_COUNT);
    REFUSED("6.4", "bcast of MPI_DATATYPE_NULL", MPI_Bcast(a, 1, none, 0, self), MPI_ERR_TYPE);
    REFUSED("6.4", "bcast of a type that is not committed", MPI_Bcast(a, 1, fresh, 0, self), MPI_ERR_TYPE);
    REFUSED("6.4", "bcast on MPI_COMM_NULL", MPI_Bcast(a, 1, MPI_INT, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    REFUSED("6.3", "barrier on MPI_COMM_NULL", MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM);
    ALLOWED("6.4", "bcast of no items of MPI_DATATYPE_NULL", MPI_Bcast(NULL, 0, none, 0, self));
    ALLOWED("6.8", "alltoallw of no items of MPI_DATATYPE_NULL", MPI_Alltoallw(a, &zero, &zero, &none, b, &zero, &zero, &none, self));
    REFUSED("6.5", "gather of a negative count", MPI_Gather(a, -1, MPI_INT, b, 1, MPI_INT, 0, self), MPI_ERR_COUNT);
    REFUSED("6.5", "gather to a root beyond the group", MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, 3, self), MPI_ERR_ROOT);
    REFUSED("6.5", "gather into the send buffer", MPI_Gather(a, 1, MPI_INT, a, 1, MPI_INT, 0, self), MPI_ERR_BUFFER);
    REFUSED("6.6", "scatter of MPI_DATATYPE_NULL", MPI_Scatter(a, 1, none, b, 1, MPI_INT, 0, self), MPI_ERR_TYPE);
    REFUSED("6.7", "allgather into the send buffer", MPI_Allgather(a, 1, MPI_INT, a, 1, MPI_INT, self), MPI_ERR_BUFFER);
    REFUSED("6.7", "allgather of a negative count", MPI_Allgather(a, 1, MPI_INT, b, -1, MPI_INT, self), MPI_ERR_COUNT);
    REFUSED("6.8", "alltoall into the send buffer", MPI_Alltoall(a, 1, MPI_INT, a, 1, MPI_INT, self), MPI_ERR_BUFFER);
    REFUSED("6.9.1", "reduce into the send buffer", MPI_Reduce(a, a, 1, MPI_INT, MPI_SUM, 0, self), MPI_ERR_BUFFER);
    REFUSED("6.9.1", "reduce by MPI_OP_NULL", MPI_Reduce(a, b, 1, MPI_INT, MPI_OP_NULL, 0, self), MPI_ERR_OP);
    REFUSED("6.9.6", "allreduce by MPI_OP_NULL", MPI_Allreduce(a, b, 1, MPI_INT, MPI_OP_NULL, self), MPI_ERR_OP);
    REFUSED("6.9.6", "allreduce of a negative count", MPI_Allreduce(a, b, -1, MPI_INT, MPI_SUM, self), MPI_ERR_COUNT);
    REFUSED("6.9.6", "allreduce of MPI_DATATYPE_NULL", MPI_Allreduce(a, b, 1, none, MPI_SUM, self), MPI_ERR_TYPE);
    REFUSED("6.11", "scan of a negative count", MPI_Scan(a, b, -1, MPI_INT, MPI_SUM, self), MPI_ERR_COUNT);
    REFUSED("6.12", "Ibcast from a root beyond the group", MPI_Ibcast(a, 1, MPI_INT, 9, self, &request), MPI_ERR_ROOT);
    REFUSED("6.12", "Iallreduce by MPI_OP_NULL", MPI_Iallreduce(a, b, 1, MPI_INT, MPI_OP_NULL, self, &request), MPI_ERR_OP);
    REFUSED("6.13", "Bcast_init from a root beyond the group", MPI_Bcast_init(a, 1, MPI_INT, 9, self, MPI_INFO_NULL, &request), MPI_ERR_ROOT);
    MPI_Type_free(&fresh);
}

/* Operators and the types they are for (6.9.2). */
static void operators(void)
{
    double x = 1, y = 2;
    int a = 3, b = 5, flag;
    char derived_in[8] = {0}, derived_out[8] = {0};
    MPI_Request request;
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    REFUSED("6.9.2", "bitwise and of doubles", MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_BAND, self), MPI_ERR_OP);
    REFUSED("6.9.2", "logical or of doubles", MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_LOR, self), MPI_ERR_OP);
    REFUSED("6.9.2", "sum of bytes", MPI_Allreduce(&x, &y, 1, MPI_BYTE, MPI_SUM, self), MPI_ERR_OP);
    REFUSED("6.9.2", "maximum of complex numbers", MPI_Allreduce(derived_in, derived_out, 1, MPI_C_COMPLEX, MPI_MAX, self), MPI_ERR_OP);
    REFUSED("6.9.4", "minimum with location of integers", MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_MINLOC, self), MPI_ERR_OP);
    REFUSED("6.9.2", "sum of pairs", MPI_Allreduce(derived_in, derived_out, 1, MPI_2INT, MPI_SUM, self), MPI_ERR_OP);
    REFUSED("6.9.2", "sum of a derived type", MPI_Allreduce(derived_in, derived_out, 1, pair, MPI_SUM, self), MPI_ERR_OP);
    REFUSED("6.9.2", "reduce by MPI_REPLACE", MPI_Reduce(&a, &b, 1, MPI_INT, MPI_REPLACE, 0, self), MPI_ERR_OP);
    REFUSED("6.9.2", "reduce by MPI_NO_OP", MPI_Reduce(&a, &b, 1, MPI_INT, MPI_NO_OP, 0, self), MPI_ERR_OP);
    REFUSED("6.9.2", "allreduce by MPI_REPLACE", MPI_Allreduce(&a, &b, 1, MPI_INT, MPI_REPLACE, self), MPI_ERR_OP);
    REFUSED("6.9.2", "scan by MPI_NO_OP", MPI_Scan(&a, &b, 1, MPI_INT, MPI_NO_OP, self), MPI_ERR_OP);
    REFUSED("6.9.2", "exscan by MPI_REPLACE", MPI_Exscan(&a, &b, 1, MPI_INT, MPI_REPLACE, self), MPI_ERR_OP);
    REFUSED("6.9.2", "reduce_scatter_block by MPI_REPLACE", MPI_Reduce_scatter_block(&a, &b, 1, MPI_INT, MPI_REPLACE, self), MPI_ERR_OP);
    REFUSED("6.9.2", "reduce_scatter by MPI_NO_OP", MPI_Reduce_scatter(&a, &b, (int[]){1}, MPI_INT, MPI_NO_OP, self), MPI_ERR_OP);
    REFUSED("6.9.2", "Iallreduce by MPI_REPLACE", MPI_Iallreduce(&a, &b, 1, MPI_INT, MPI_REPLACE, self, &request), MPI_ERR_OP);
    REFUSED("6.9.2", "Allreduce_init by MPI_NO_OP", MPI_Allreduce_init(&a, &b, 1, MPI_INT, MPI_NO_OP, self, MPI_INFO_NULL, &request), MPI_ERR_OP);
    REFUSED("6.9.7", "reduce_local by MPI_REPLACE", MPI_Reduce_local(&a, &b, 1, MPI_INT, MPI_REPLACE), MPI_ERR_OP);
    REFUSED("6.9.7", "reduce_local by MPI_NO_OP", MPI_Reduce_local(&a, &b, 1, MPI_INT, MPI_NO_OP), MPI_ERR_OP);
    ALLOWED("6.9.7", "reduce_local", MPI_Reduce_local(&a, &b, 1, MPI_INT, MPI_SUM));
    ROW("6.9.7", "its result", b, 8);
    op = MPI_SUM;
    REFUSED("6.9.5", "free of a predefined operator", MPI_Op_free(&op), MPI_ERR_OP);
    op = MPI_OP_NULL;
    REFUSED("6.9.5", "free of MPI_OP_NULL", MPI_Op_free(&op), MPI_ERR_OP);
    REFUSED("6.9.5", "operator of no function", MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG);
    MPI_Op_commutative(MPI_SUM, &flag);
    ROW("6.9.8", "a sum commutes", flag, 1);
    MPI_Op_commutative(MPI_MINLOC, &flag);
    ROW("6.9.8", "a minimum with location commutes", flag, 1);
    REFUSED("6.9.8", "whether MPI_OP_NULL commutes", MPI_Op_commutative(MPI_OP_NULL, &flag), MPI_ERR_OP);
    MPI_Type_free(&pair);
}

static MPI_Datatype seen;

static void subtract(void *in, void *inout, int *length, MPI_Datatype *type)
{
    seen = *type;
    for (int i = 0; i < *length; i++)
        ((int *)inout)[i] = ((int *)in)[i] - ((int *)inout)[i];
}

static void user_operator(void)
{
    int mine = check_rank + 1, got = -1, wanted = 0, flag;
    MPI_Op op;
    for (int rank = check_size - 1; rank >= 0; rank--)
        wanted = rank == check_size - 1 ? rank + 1 : rank + 1 - wanted;
    MPI_Op_create(subtract, 0, &op);
    MPI_Op_commutative(op, &flag);
    ROW("6.9.8", "an operator that does not commute", flag, 0);
    MPI_Reduce(&mine, &got, 1, MPI_INT, op, 0, self);
    ROW("6.9.5", "reduce of one member copies", got, mine);
    if (check_size == 2) {
        MPI_Allreduce(&mine, &got, 1, MPI_INT, op, world);
        ROW("6.9.5", "allreduce in the order of ranks", got, wanted);
        HOLDS("6.9.5", "the function gets the datatype of the call", seen == MPI_INT);
    }
    MPI_Op_free(&op);
    HOLDS("6.9.5", "a freed operator is null", op == MPI_OP_NULL);
}

static void results(void)
{
    int mine[8], all[8] = {0}, n = check_size, me = check_rank, sum = n * (n - 1) / 2;
    struct {
        double value;
        int index;
    } location = {me % 2, me}, found;
    if (n > 8)
        return;
    for (int i = 0; i < n; i++)
        mine[i] = 10 * me + i;
    MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, world);
    ROW("6.7", "allgather", all[n - 1], n - 1);
    MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, world);
    ROW("6.8", "alltoall", all[n - 1], 10 * (n - 1) + me);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, mine, 1, MPI_INT, world);
    ROW("6.8", "alltoall in place", mine[n - 1], 10 * (n - 1) + me);
    MPI_Allreduce(&me, all, 1, MPI_INT, MPI_SUM, world);
    ROW("6.9.6", "allreduce", all[0], sum);
    all[0] = me;
    MPI_Allreduce(MPI_IN_PLACE, all, 1, MPI_INT, MPI_MAX, world);
    ROW("6.9.6", "allreduce in place", all[0], n - 1);
    MPI_Scan(&me, all, 1, MPI_INT, MPI_SUM, world);
    ROW("6.11.1", "scan", all[0], me * (me + 1) / 2);
    all[0] = -5;
    MPI_Exscan(&me, all, 1, MPI_INT, MPI_SUM, world);
    ROW("6.11.2", "exscan", all[0], me ? me * (me - 1) / 2 : -5);
    for (int i = 0; i < n; i++)
        mine[i] = i;
    MPI_Reduce_scatter_block(mine, all, 1, MPI_INT, MPI_SUM, world);
    ROW("6.10.1", "reduce_scatter_block", all[0], n * me);
    MPI_Allreduce(&location, &found, 1, MPI_DOUBLE_INT, MPI_MAXLOC, world);
    HOLDS("6.9.4", "greatest value with its least index", found.value == (n > 1) && found.index == (n > 1));
    MPI_Gather(&me, 1, MPI_INT, all, me ? -3 : 1, me ? MPI_DATATYPE_NULL : MPI_INT, 0, world);
    HOLDS("6.5", "the receive arguments of gather count at the root only", me || all[n - 1] == n - 1);
    for (int i = 0; i < n; i++)
        mine[i] = i + 1;
    MPI_Scatter(me ? NULL : mine, me ? -3 : 1, me ? MPI_DATATYPE_NULL : MPI_INT, all, 1, MPI_INT, 0, world);
    ROW("6.6", "the send arguments of scatter count at the root only", all[0], me + 1);
    ALLOWED("6.9.6", "allreduce of nothing", MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, world));
}

/* MPI_IN_PLACE where it is allowed and where it is not. */
static void in_place(void)
{
    int a[8], b[8] = {0}, n = check_size, me = check_rank, counts[8], places[8], sum = n * (n - 1) / 2;
    if (n > 8)
        return;
    for (int i = 0; i < n; i++)
        counts[i] = 1, places[i] = i, a[i] = -1;
    a[me] = me;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 1, MPI_INT, world);
    ROW("6.7", "allgather in place", a[n - 1], n - 1);
    a[0] = -1, a[me] = me;
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, counts, places, MPI_INT, world);
    ROW("6.7", "allgatherv in place", a[0], 0);
    a[0] = me == 0 ? 0 : -1;
    if (me == 0)
        MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, 1, MPI_INT, 0, world);
    else
        MPI_Gather(&me, 1, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, 0, world);
    HOLDS("6.5", "gather in place at the root", me || (b[0] == 0 && b[n - 1] == n - 1));
    for (int i = 0; i < n; i++)
        b[i] = i + 10;
    a[0] = -1;
    if (me == 0)
        MPI_Scatter(b, 1, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, world);
    else
        MPI_Scatter(NULL, 0, MPI_DATATYPE_NULL, a, 1, MPI_INT, 0, world);
    HOLDS("6.6", "scatter in place at the root", me == 0 || a[0] == me + 10);
    a[0] = me;
    if (me == 0)
        MPI_Reduce(MPI_IN_PLACE, a, 1, MPI_INT, MPI_SUM, 0, world);
    else
        MPI_Reduce(a, NULL, 1, MPI_INT, MPI_SUM, 0, world);
    HOLDS("6.9.1", "reduce in place at the root", me || a[0] == sum);
    a[0] = me;
    MPI_Scan(MPI_IN_PLACE, a, 1, MPI_INT, MPI_SUM, world);
    ROW("6.11.1", "scan in place", a[0], me * (me + 1) / 2);
    a[0] = me;
    MPI_Exscan(MPI_IN_PLACE, a, 1, MPI_INT, MPI_SUM, world);
    ROW("6.11.2", "exscan in place", me ? a[0] : 0, me * (me - 1) / 2);
    for (int i = 0; i < n; i++)
        a[i] = i;
    MPI_Reduce_scatter(MPI_IN_PLACE, a, counts, MPI_INT, MPI_SUM, world);
    ROW("6.10.2", "reduce_scatter in place", a[0], n * me);
    for (int i = 0; i < n; i++)
        a[i] = i;
    MPI_Reduce_scatter_block(MPI_IN_PLACE, a, 1, MPI_INT, MPI_SUM, world);
    ROW("6.10.1", "reduce_scatter_block in place", a[0], n * me);
    REFUSED("6.4", "bcast of MPI_IN_PLACE", MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, self), MPI_ERR_BUFFER);
    REFUSED("6.5", "gather into MPI_IN_PLACE", MPI_Gather(a, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, self), MPI_ERR_BUFFER);
    REFUSED("6.9.6", "allreduce into MPI_IN_PLACE", MPI_Allreduce(a, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, self), MPI_ERR_BUFFER);
    REFUSED("6.6", "scatter of MPI_IN_PLACE", MPI_Scatter(MPI_IN_PLACE, 1, MPI_INT, a, 1, MPI_INT, 0, self), MPI_ERR_BUFFER);
}

/* Counts that differ between members, and none (6.5 to 6.10). */
static void lists(void)
{
    int a[16], b[64] = {0}, n = check_size, me = check_rank, counts[8], places[8], sum = 0;
    MPI_Datatype types[8];
    if (n > 8)
        return;
    for (int i = 0; i < n; i++) {
        counts[i] = i, places[i] = sum, types[i] = MPI_INT;
        sum += i;
    }
    for (int i = 0; i < 16; i++)
        a[i] = 100 * me + i;
    MPI_Allgatherv(a, me, MPI_INT, b, counts, places, MPI_INT, world);
    HOLDS("6.7", "allgatherv", n < 2 || b[sum - 1] == 100 * (n - 1) + n - 2);
    MPI_Gatherv(a, me, MPI_INT, b, counts, places, MPI_INT, n - 1, world);
    HOLDS("6.5", "gatherv", me != n - 1 || n < 2 || b[sum - 1] == 100 * (n - 1) + n - 2);
    for (int i = 0; i < 64; i++)
        b[i] = i;
    a[0] = -1;
    MPI_Scatterv(b, counts, places, MPI_INT, a, me, MPI_INT, 0, world);
    HOLDS("6.6", "scatterv", me == 0 || a[0] == places[me]);
    for (int i = 0; i < n; i++)
        counts[i] = 1, places[i] = 4 * i, a[i] = 10 * me + i;
    MPI_Alltoallw(a, counts, places, types, b, counts, places, types, world);
    ROW("6.8", "alltoallw", b[n - 1], 10 * (n - 1) + me);
    for (int i = 0; i < n; i++)
        counts[i] = i == 0 ? 2 : 0, a[i] = 1;
    a[1] = 1;
    MPI_Reduce_scatter(a, b, counts, MPI_INT, MPI_SUM, world);
    HOLDS("6.10.2", "reduce_scatter with no items for some", me || (b[0] == n && b[1] == n));
}

/* Requests of collective operations (6.12, 6.13). */
static void requests(void)
{
    int mine = check_rank, all = -1, flag;
    MPI_Request request, barrier;
    MPI_Status status;
    MPI_Ibarrier(self, &request);
    REFUSED("6.12", "cancel of an Ibarrier", MPI_Cancel(&request), MPI_ERR_REQUEST);
    MPI_Wait(&request, &status);
    for (int round = 0; round < 3; round++) {
        MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, world, &request);
        REFUSED("6.12", "cancel of an Iallreduce", MPI_Cancel(&request), MPI_ERR_REQUEST);
        MPI_Wait(&request, &status);
        HOLDS("6.12", "a request that is complete is null", request == MPI_REQUEST_NULL);
        MPI_Test_cancelled(&status, &flag);
        ROW("6.12", "it was not cancelled", flag, 0);
    }
    ROW("6.12", "Iallreduce", all, check_size * (check_size - 1) / 2);
    MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MAX, world, &request);
    MPI_Ibarrier(world, &barrier);
    MPI_Wait(&barrier, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ROW("6.12", "completed in another order", all, check_size - 1);
    if (check_rank > 0)
        MPI_Recv(NULL, 0, MPI_INT, 0, 3, world, MPI_STATUS_IGNORE);
    MPI_Ibarrier(world, &request);
    if (check_rank == 0 && check_size > 1)
        REFUSED("6.12", "free of an active Ibarrier", MPI_Request_free(&request), MPI_ERR_REQUEST);
    for (int rank = 1; check_rank == 0 && rank < check_size; rank++)
        MPI_Send(NULL, 0, MPI_INT, rank, 3, world);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    ALLOWED("6.13", "Allreduce_init", MPI_Allreduce_init(&mine, &all, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request));
    MPI_Test(&request, &flag, &status);
    HOLDS("6.13", "an inactive one is complete", flag && request != MPI_REQUEST_NULL);
    for (int round = 0; round < 3; round++) {
        mine = check_rank + round;
        MPI_Start(&request);
        REFUSED("6.13", "cancel of a persistent collective operation", MPI_Cancel(&request), MPI_ERR_REQUEST);
        MPI_Wait(&request, &status);
        ROW("6.13", "Allreduce_init in a round", all, check_size * (check_size - 1) / 2 + round * check_size);
    }
    MPI_Request_free(&request);
    HOLDS("6.13", "a freed one is null", request == MPI_REQUEST_NULL);
    MPI_Barrier_init(world, MPI_INFO_NULL, &request);
    MPI_Startall(1, &request);
    ALLOWED("6.13.1", "Barrier_init", MPI_Wait(&request, MPI_STATUS_IGNORE));
    MPI_Request_free(&request);
}

/* Operations between two groups (6.2.3). */
static void between_groups(void)
{
    MPI_Comm half, inter;
    int color = check_rank % 2, mine = check_rank + 1, got = -1, wanted = 0, flag;
    if (check_size < 2)
        return;
    MPI_Comm_split(world, color, 0, &half);
    MPI_Intercomm_create(half, 0, world, 1 - color, 7, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    for (int rank = 1 - color; rank < check_size; rank += 2)
        wanted += rank + 1;
    MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, inter);
    ROW("6.2.3", "allreduce gives the sum of the other group", got, wanted);
    got = color ? -1 : 99;
    MPI_Bcast(&got, 1, MPI_INT, color ? 0 : check_rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    ROW("6.2.3", "bcast from the other group", got, 99);
    REFUSED("6.11", "scan between groups", MPI_Scan(&mine, &got, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    REFUSED("6.11", "exscan between groups", MPI_Exscan(&mine, &got, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    ALLOWED("6.3", "barrier between groups", MPI_Barrier(inter));
    MPI_Comm_test_inter(inter, &flag);
    ROW("7.6", "it is an intercommunicator", flag, 1);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    arguments();
    operators();
    user_operator();
    results();
    in_place();
    lists();
    requests();
    between_groups();
    return rows_end();
}
