/* One-sided operations on windows of every flavour, in every form, with every way to synchronise. */
#include "check.h"

enum { ITEMS = 4096 };

static MPI_Win win;
static MPI_Aint displacements[64]; /* of the memory of each rank, in the units of the window */
static long *memory;
static int right, left;
static const char *flavour;

/* Opens and closes an epoch for accesses of each rank to its right neighbour. */
enum { FENCE, LOCK, LOCK_ALL, ACTIVE, WAYS };

static MPI_Group only(int rank)
{
    MPI_Group all, one;
    MPI_Win_get_group(win, &all);
    MPI_Group_incl(all, 1, &rank, &one);
    MPI_Group_free(&all);
    return one;
}

static void open_epoch(int way)
{
    MPI_Group to = only(right), from = only(left);
    switch (way) {
    case FENCE: MPI_Win_fence(MPI_MODE_NOPRECEDE, win); break;
    case LOCK: MPI_Barrier(MPI_COMM_WORLD); MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win); break;
    case LOCK_ALL: MPI_Barrier(MPI_COMM_WORLD); MPI_Win_lock_all(0, win); break;
    default: MPI_Win_post(from, 0, win); MPI_Win_start(to, 0, win);
    }
    MPI_Group_free(&to);
    MPI_Group_free(&from);
}

static void close_epoch(int way)
{
    int over = 0;
    switch (way) {
    case FENCE: MPI_Win_fence(MPI_MODE_NOSUCCEED, win); return;
    case LOCK: MPI_Win_unlock(right, win); break;
    case LOCK_ALL: MPI_Win_flush_all(win); MPI_Win_unlock_all(win); break;
    default:
        MPI_Win_complete(win);
        while (!over)
            MPI_Win_test(win, &over);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static long value(int rank, int index) { return 1000003L * rank + index; }

static void reset(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ITEMS; i++)
        memory[i] = value(check_rank, i);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win); /* makes the stores visible */
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_Aint at(int rank, int index)
{
    int unit, *place, found;
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &place, &found);
    unit = *place;
    return displacements[rank] + (MPI_Aint)index * (MPI_Aint)sizeof(long) / unit;
}

static void put_and_get(int way)
{
    static long out[ITEMS], in[ITEMS];
    static const int sizes[] = {1, 3, 100, ITEMS / 2};
    for (int s = 0; s < 4; s++) {
        int n = sizes[s];
        reset();
        for (int i = 0; i < n; i++)
            out[i] = -value(check_rank, i), in[i] = 0;
        open_epoch(way);
        MPI_Put(out, n, MPI_LONG, right, at(right, 7), n, MPI_LONG, win);
        MPI_Get(in, n, MPI_LONG, right, at(right, ITEMS / 2 + 8 - (n > 100 ? 8 : 0)), n, MPI_LONG, win);
        close_epoch(way);
        for (int i = 0; i < n; i++) {
            if (memory[7 + i] != -value(left, i) && !(n > 100 && 7 + i >= ITEMS / 2))
                CHECK_EQUAL(memory[7 + i], -value(left, i));
            if (in[i] != value(right, ITEMS / 2 + 8 - (n > 100 ? 8 : 0) + i) && n <= 100)
                CHECK_EQUAL(in[i], value(right, ITEMS / 2 + 8 + i));
        }
        CHECK_EQUAL(memory[6], value(check_rank, 6));
        CHECK_EQUAL(memory[7 + n], value(check_rank, 7 + n));
    }
}

/* Every second item there, every third here. */
static void derived(int way)
{
    static long out[ITEMS], in[ITEMS];
    MPI_Datatype second, third;
    const int n = 300;
    MPI_Type_vector(n, 1, 2, MPI_LONG, &second);
    MPI_Type_vector(n, 1, 3, MPI_LONG, &third);
    MPI_Type_commit(&second);
    MPI_Type_commit(&third);
    reset();
    for (int i = 0; i < ITEMS; i++)
        out[i] = 5 * i + check_rank, in[i] = -1;
    open_epoch(way);
    MPI_Put(out, 1, third, right, at(right, 10), 1, second, win);
    MPI_Get(in, 1, third, right, at(right, 2000), n, MPI_LONG, win);
    MPI_Accumulate(out, n, MPI_LONG, right, at(right, 3001), 1, second, MPI_SUM, win);
    close_epoch(way);
    for (int i = 0; i < n; i++) {
        CHECK_EQUAL(memory[10 + 2 * i], 5 * 3 * i + left);
        CHECK_EQUAL(memory[11 + 2 * i], value(check_rank, 11 + 2 * i));
        CHECK_EQUAL(in[3 * i], value(right, 2000 + i));
        CHECK_EQUAL(in[3 * i + 1], -1);
        CHECK_EQUAL(memory[3001 + 2 * i], value(check_rank, 3001 + 2 * i) + 5 * i + left);
        CHECK_EQUAL(memory[3002 + 2 * i], value(check_rank, 3002 + 2 * i));
    }
    MPI_Type_free(&second);
    MPI_Type_free(&third);
}

static long combined(MPI_Op op, long a, long b)
{
    if (op == MPI_SUM) return a + b;
    if (op == MPI_PROD) return (long)((unsigned long)a * (unsigned long)b);
    if (op == MPI_MAX) return a > b ? a : b;
    if (op == MPI_MIN) return a < b ? a : b;
    if (op == MPI_BAND) return a & b;
    if (op == MPI_BOR) return a | b;
    if (op == MPI_BXOR) return a ^ b;
    if (op == MPI_LAND) return a && b;
    if (op == MPI_LOR) return a || b;
    if (op == MPI_LXOR) return !a != !b;
    if (op == MPI_REPLACE) return a;
    return b;
}

static void operators(int way)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR,
                                 MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE, MPI_NO_OP};
    static long out[64], old[64];
    for (int o = 0; o < 12; o++) {
        reset();
        for (int i = 0; i < 64; i++)
            out[i] = (long)(i * 0x12345 + check_rank), old[i] = -9;
        open_epoch(way);
        MPI_Accumulate(out, 64, MPI_LONG, right, at(right, 0), 64, MPI_LONG, ops[o], win);
        MPI_Get_accumulate(out, 64, MPI_LONG, old, 64, MPI_LONG, right, at(right, 100), 64, MPI_LONG, ops[o], win);
        close_epoch(way);
        for (int i = 0; i < 64; i++) {
            long theirs = i * 0x12345 + left;
            CHECK_EQUAL(memory[i], combined(ops[o], theirs, value(check_rank, i)));
            CHECK_EQUAL(memory[100 + i], combined(ops[o], theirs, value(check_rank, 100 + i)));
            CHECK_EQUAL(old[i], value(right, 100 + i));
        }
    }
}

static void single_items(int way)
{
    struct { double value; int index; } pair = {3.5 + check_rank, check_rank}, before = {0, 0}, *pairs = (void *)memory;
    long one = 42 + check_rank, old = 0, compare = value(right, 1), swapped = 0, missed = 0;
    reset();
    pairs[100].value = 3.75, pairs[100].index = 77;
    MPI_Barrier(MPI_COMM_WORLD);
    open_epoch(way);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, right, at(right, 0), MPI_SUM, win);
    MPI_Compare_and_swap(&one, &compare, &swapped, MPI_LONG, right, at(right, 1), win);
    MPI_Compare_and_swap(&one, &one, &missed, MPI_LONG, right, at(right, 2), win);
    MPI_Get_accumulate(&pair, 1, MPI_DOUBLE_INT, &before, 1, MPI_DOUBLE_INT, right, at(right, 200), 1, MPI_DOUBLE_INT, MPI_MINLOC, win);
    close_epoch(way);
    CHECK_EQUAL(old, value(right, 0));
    CHECK_EQUAL(memory[0], value(check_rank, 0) + 42 + left);
    CHECK_EQUAL(swapped, compare);
    CHECK_EQUAL(memory[1], 42 + left);
    CHECK_EQUAL(missed, value(right, 2));
    CHECK_EQUAL(memory[2], value(check_rank, 2));
    CHECK(before.value == 3.75 && before.index == 77);
    CHECK_EQUAL(pairs[100].index, left == 0 ? 0 : 77);
    reset();
    open_epoch(way);
    MPI_Fetch_and_op(NULL, &old, MPI_LONG, right, at(right, 3), MPI_NO_OP, win);
    MPI_Fetch_and_op(&one, &compare, MPI_LONG, right, at(right, 4), MPI_REPLACE, win);
    MPI_Put(&one, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win);
    close_epoch(way);
    CHECK_EQUAL(old, value(right, 3));
    CHECK_EQUAL(compare, value(right, 4));
    CHECK_EQUAL(memory[4], 42 + left);
}

/* Pairs within derived types: two of every three. */
static void pairs_in_vectors(int way)
{
    typedef struct { double value; int index; } Pair;
    enum { BLOCKS = 600 };
    static Pair out[3 * BLOCKS], before[2 * BLOCKS];
    Pair *mine = (Pair *)memory;
    MPI_Datatype vector;
    MPI_Type_vector(BLOCKS, 2, 3, MPI_DOUBLE_INT, &vector);
    MPI_Type_commit(&vector);
    reset();
    for (int i = 0; i < 3 * BLOCKS; i++) {
        out[i].value = i % 5, out[i].index = i;
        mine[i].value = i % 3, mine[i].index = 10000 + i;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    open_epoch(way);
    MPI_Get_accumulate(out, 1, vector, before, 2 * BLOCKS, MPI_DOUBLE_INT, right, at(right, 0), 1, vector, MPI_MAXLOC, win);
    close_epoch(way);
    for (int i = 0; i < 3 * BLOCKS; i++) {
        int taken = i % 3 < 2 && i % 5 >= i % 3;
        CHECK(mine[i].value == (taken ? i % 5 : i % 3) && mine[i].index == (taken ? i : 10000 + i));
        if (i % 3 < 2)
            CHECK(before[i / 3 * 2 + i % 3].value == i % 3 && before[i / 3 * 2 + i % 3].index == 10000 + i);
    }
    MPI_Type_free(&vector);
}

static void requests(int way)
{
    static long out[4][ITEMS / 8], in[2][ITEMS / 8];
    const int n = ITEMS / 8;
    MPI_Request request[4];
    if (way != LOCK && way != LOCK_ALL)
        return;
    reset();
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 4; k++)
            out[k][i] = 100000L * k + i + check_rank;
    open_epoch(way);
    MPI_Rput(out[0], n, MPI_LONG, right, at(right, 0), n, MPI_LONG, win, &request[0]);
    MPI_Rget(in[0], n, MPI_LONG, right, at(right, n), n, MPI_LONG, win, &request[1]);
    MPI_Raccumulate(out[2], n, MPI_LONG, right, at(right, 2 * n), n, MPI_LONG, MPI_SUM, win, &request[2]);
    MPI_Rget_accumulate(out[3], n, MPI_LONG, in[1], n, MPI_LONG, right, at(right, 3 * n), n, MPI_LONG, MPI_REPLACE, win, &request[3]);
    MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < n; i++) {
        CHECK_EQUAL(in[0][i], value(right, n + i));
        CHECK_EQUAL(in[1][i], value(right, 3 * n + i));
        out[0][i] = 0; /* what was put is on its way */
    }
    close_epoch(way);
    for (int i = 0; i < n; i++) {
        CHECK_EQUAL(memory[i], i + left);
        CHECK_EQUAL(memory[2 * n + i], value(check_rank, 2 * n + i) + 200000L + i + left);
        CHECK_EQUAL(memory[3 * n + i], 300000L + i + left);
    }
}

static void everything(const char *what)
{
    flavour = what;
    for (int way = 0; way < WAYS; way++) {
        long before = check_failures;
        put_and_get(way);
        derived(way);
        operators(way);
        single_items(way);
        pairs_in_vectors(way);
        requests(way);
        if (check_failures > before)
            fprintf(stderr, "rank %d: the failures above are of windows by %s, synchronised in way %d\n", check_rank, what, way);
    }
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL);
}

int main(int argc, char **argv)
{
    const size_t bytes = ITEMS * sizeof(long);
    MPI_Comm node;
    int found, *fact;
    check_begin(&argc, &argv);
    right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;

    memory = check_memory(bytes);
    MPI_Win_create(memory, (MPI_Aint)bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &fact, &found);
    CHECK(found && *fact == MPI_WIN_FLAVOR_CREATE);
    everything("MPI_Win_create");
    free(memory);

    MPI_Alloc_mem((MPI_Aint)bytes * 4, MPI_INFO_NULL, &memory);
    MPI_Win_create(memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    everything("MPI_Alloc_mem and MPI_Win_create");
    MPI_Free_mem(memory);

    MPI_Win_allocate((MPI_Aint)bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int i = 0; i < ITEMS; i++)
        CHECK_EQUAL(memory[i], 0);
    everything("MPI_Win_allocate");

    memory = check_memory(bytes);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, (MPI_Aint)bytes);
    MPI_Get_address(memory, &displacements[check_rank]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_AINT, displacements, 1, MPI_AINT, MPI_COMM_WORLD);
    everything("MPI_Win_create_dynamic");
    memset(displacements, 0, sizeof displacements);
    free(memory);

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    if (MPI_Comm_size(node, &found), found == check_size) {
        MPI_Aint size;
        int unit;
        long *theirs;
        MPI_Win_allocate_shared((MPI_Aint)bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        MPI_Win_shared_query(win, right, &size, &unit, &theirs);
        CHECK(size == (MPI_Aint)bytes && unit == sizeof(long));
        if (right == check_rank + 1)
            CHECK(theirs == memory + ITEMS);
        MPI_Win_lock_all(0, win);
        theirs[5] = 99 + check_rank;
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(win);
        CHECK_EQUAL(memory[5], 99 + left);
        MPI_Win_unlock_all(win);
        everything("MPI_Win_allocate_shared");
    }
    MPI_Comm_free(&node);
    return check_end();
}
