/* Reductions: every form, in place, a user's operator that does not commute, derived types, scans. */
#include "check.h"
#include "forms.h"

static const int COUNTS[] = {0, 1, 2, 5, 100, 3000, 50000};
enum { SIZES = 7, MOST = 50000, PRIME = 9973 };

static MPI_Comm world;
static int *out, *in;

static int value(int rank, int i)
{
    return (rank + 1) * 7 + i % 1000;
}

/* Returns the sum of value over ranks [0, last) at item i. */
static int sum(int last, int i)
{
    int all = 0;
    for (int rank = 0; rank < last; rank++)
        all += value(rank, i);
    return all;
}

static void give(int *data, int count, int first)
{
    for (int i = 0; i < count; i++)
        data[i] = value(check_rank, first + i);
}

static void expect(int line, int form, int count, int last, int first)
{
    for (int i = 0; i < count; i++)
        if (in[i] != sum(last, first + i)) {
            check_say(__FILE__, line, "form %d count %d: item %d is %d, not %d", form, count, i, in[i],
                      sum(last, first + i));
            return;
        }
}

static void sums(int form, int n)
{
    int size = check_size;
    give(out, n, 0);
    for (int root = 0; root < size; root++) {
        int here = root == check_rank;
        memset(in, 0, (size_t)n * sizeof(int));
        RUN(form, Reduce, Ireduce, out, in, n, MPI_INT, MPI_SUM, root, world);
        if (here)
            expect(__LINE__, form, n, size, 0);
        give(in, n, 0);
        RUN(form, Reduce, Ireduce, here ? MPI_IN_PLACE : out, in, n, MPI_INT, MPI_SUM, root, world);
        if (here)
            expect(__LINE__, form, n, size, 0);
    }
    memset(in, 0, (size_t)n * sizeof(int));
    RUN(form, Allreduce, Iallreduce, out, in, n, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, n, size, 0);
    give(in, n, 0);
    RUN(form, Allreduce, Iallreduce, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, n, size, 0);
    memset(in, 0, (size_t)n * sizeof(int));
    RUN(form, Scan, Iscan, out, in, n, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, n, check_rank + 1, 0);
    give(in, n, 0);
    RUN(form, Scan, Iscan, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, n, check_rank + 1, 0);
    memset(in, 0, (size_t)n * sizeof(int));
    RUN(form, Exscan, Iexscan, out, in, n, MPI_INT, MPI_SUM, world);
    if (check_rank)
        expect(__LINE__, form, n, check_rank, 0);
    give(in, n, 0);
    RUN(form, Exscan, Iexscan, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, world);
    if (check_rank)
        expect(__LINE__, form, n, check_rank, 0);
}

static void scattered(int form, int n)
{
    int *counts = check_memory((size_t)check_size * sizeof(int)), first = 0, all = 0;
    give(out, n * check_size, 0);
    memset(in, 0, (size_t)n * sizeof(int));
    RUN(form, Reduce_scatter_block, Ireduce_scatter_block, out, in, n, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, n, check_size, n * check_rank);
    give(in, n * check_size, 0);
    RUN(form, Reduce_scatter_block, Ireduce_scatter_block, MPI_IN_PLACE, in, n, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, n, check_size, n * check_rank);
    for (int i = 0; i < check_size; i++) {
        counts[i] = n > 3 ? n - i % 3 : (i + n) % 2;
        if (i < check_rank)
            first += counts[i];
        all += counts[i];
    }
    give(out, all, 0);
    RUN(form, Reduce_scatter, Ireduce_scatter, out, in, counts, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, counts[check_rank], check_size, first);
    give(in, all, 0);
    RUN(form, Reduce_scatter, Ireduce_scatter, MPI_IN_PLACE, in, counts, MPI_INT, MPI_SUM, world);
    expect(__LINE__, form, counts[check_rank], check_size, first);
    free(counts);
}

/* Composes maps x -> a x + b modulo a prime. Composition is associative, and the order matters. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    int *l = left, *r = right;
    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        int a = (int)((long)l[i] * r[i] % PRIME), b = (int)(((long)l[i + 1] * r[i] + r[i + 1]) % PRIME);
        r[i] = a;
        r[i + 1] = b;
    }
}

static void map_of(int rank, int i, int *map)
{
    map[0] = (rank * 31 + i) % (PRIME - 1) + 1;
    map[1] = (rank * 17 + i * 5 + 3) % PRIME;
}

static void expect_maps(int line, int form, int count, int last, int first)
{
    for (int i = 0; i < count; i++) {
        int all[2] = {1, 0}, next[2], one = 1;
        for (int rank = 0; rank < last; rank++) {
            map_of(rank, first + i, next);
            compose(all, next, &one, NULL);
            memcpy(all, next, sizeof all);
        }
        if (in[2 * i] != all[0] || in[2 * i + 1] != all[1]) {
            check_say(__FILE__, line, "form %d count %d item %d: operands out of order", form, count, i);
            return;
        }
    }
}

static void ordered(int form, int n, MPI_Datatype map, MPI_Op op)
{
    for (int i = 0; i < n * check_size; i++)
        map_of(check_rank, i, out + 2 * i);
    for (int root = 0; root < check_size; root++) {
        RUN(form, Reduce, Ireduce, out, in, n, map, op, root, world);
        if (root == check_rank)
            expect_maps(__LINE__, form, n, check_size, 0);
    }
    RUN(form, Allreduce, Iallreduce, out, in, n, map, op, world);
    expect_maps(__LINE__, form, n, check_size, 0);
    RUN(form, Scan, Iscan, out, in, n, map, op, world);
    expect_maps(__LINE__, form, n, check_rank + 1, 0);
    RUN(form, Exscan, Iexscan, out, in, n, map, op, world);
    if (check_rank)
        expect_maps(__LINE__, form, n, check_rank, 0);
    RUN(form, Reduce_scatter_block, Ireduce_scatter_block, out, in, n, map, op, world);
    expect_maps(__LINE__, form, n, check_size, n * check_rank);
}

static void ordered_all(int form)
{
    static const int counts[] = {0, 1, 7, 500, 6000};
    MPI_Datatype map;
    MPI_Op op;
    int commutes = 1;
    MPI_Type_contiguous(2, MPI_INT, &map);
    MPI_Type_commit(&map);
    MPI_Op_create(compose, 0, &op);
    MPI_Op_commutative(op, &commutes);
    CHECK(!commutes);
    for (int i = 0; i < 5; i++)
        ordered(form, counts[i], map, op);
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL);
    MPI_Type_free(&map);
}

static void reduce_local(void)
{
    int a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
    MPI_Reduce_local(a, b, 4, MPI_INT, MPI_SUM);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(b[i], 11 * (i + 1));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    out = check_memory(2 * (size_t)MOST * (size_t)check_size * sizeof(int));
    in = check_memory(2 * (size_t)MOST * (size_t)check_size * sizeof(int));
    reduce_local();
    for (int form = 0; form < FORMS; form++) {
        for (int i = 0; i < SIZES; i++) {
            sums(form, COUNTS[i]);
            scattered(form, COUNTS[i]);
        }
        ordered_all(form);
    }
    free(out);
    free(in);
    MPI_Comm_free(&world);
    return check_end();
}
