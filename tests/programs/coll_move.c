/* Collectives that move data: every form, root, in place, with counts of their own and derived types. */
#include "check.h"
#include "forms.h"

static const int COUNTS[] = {0, 1, 3, 64, 1000, 9000, 70000};
enum { SIZES = 7, MOST = 70000, GUARD = -77 };

static MPI_Comm world;
static int *out, *in, *counts, *starts, *sums;

static int value(int from, int to, int i)
{
    return from * 100003 + to * 1009 + i * 3;
}

static void clear(int *data, long count)
{
    for (long i = 0; i < count; i++)
        data[i] = GUARD;
}

/* Checks that the `count` items at `data` are those that rank `from` sent to rank `to`. */
static void expect(int line, int form, const int *data, int count, int from, int to)
{
    for (int i = 0; i < count; i++)
        if (data[i] != value(from, to, i)) {
            check_say(__FILE__, line, "form %d count %d from %d to %d: item %d is %d, not %d", form, count, from, to,
                      i, data[i], value(from, to, i));
            return;
        }
}

static void give(int *data, int count, int to)
{
    for (int i = 0; i < count; i++)
        data[i] = value(check_rank, to, i);
}

static void bcast(int form, int n)
{
    for (int root = 0; root < check_size; root++) {
        clear(in, n + 1);
        if (check_rank == root)
            give(in, n, 0);
        RUN(form, Bcast, Ibcast, in, n, MPI_INT, root, world);
        expect(__LINE__, form, in, n, root, 0);
        CHECK_EQUAL(in[n], GUARD);
    }
}

static void gather_scatter(int form, int n)
{
    for (int root = 0; root < check_size; root++) {
        int here = check_rank == root;
        give(out, n, 0);
        clear(in, (long)n * check_size + 1);
        RUN(form, Gather, Igather, out, n, MPI_INT, in, n, MPI_INT, root, world);
        for (int from = 0; here && from < check_size; from++)
            expect(__LINE__, form, in + (long)from * n, n, from, 0);
        CHECK_EQUAL(in[here ? (long)n * check_size : 0], GUARD);
        if (here)
            give(in + (long)check_rank * n, n, 0);
        RUN(form, Gather, Igather, here ? MPI_IN_PLACE : out, n, MPI_INT, in, n, MPI_INT, root, world);
        for (int from = 0; here && from < check_size; from++)
            expect(__LINE__, form, in + (long)from * n, n, from, 0);

        for (int to = 0; to < check_size; to++)
            give(out + (long)to * n, n, to);
        clear(in, n + 1);
        RUN(form, Scatter, Iscatter, out, n, MPI_INT, in, n, MPI_INT, root, world);
        expect(__LINE__, form, in, n, root, check_rank);
        CHECK_EQUAL(in[n], GUARD);
        clear(in, n + 1);
        RUN(form, Scatter, Iscatter, out, n, MPI_INT, here ? MPI_IN_PLACE : in, n, MPI_INT, root, world);
        if (!here)
            expect(__LINE__, form, in, n, root, check_rank);
    }
}

static void allgather(int form, int n)
{
    give(out, n, 0);
    clear(in, (long)n * check_size + 1);
    RUN(form, Allgather, Iallgather, out, n, MPI_INT, in, n, MPI_INT, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + (long)from * n, n, from, 0);
    CHECK_EQUAL(in[(long)n * check_size], GUARD);
    clear(in, (long)n * check_size);
    give(in + (long)check_rank * n, n, 0);
    RUN(form, Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + (long)from * n, n, from, 0);
}

static void alltoall(int form, int n)
{
    for (int to = 0; to < check_size; to++)
        give(out + (long)to * n, n, to);
    clear(in, (long)n * check_size + 1);
    RUN(form, Alltoall, Ialltoall, out, n, MPI_INT, in, n, MPI_INT, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + (long)from * n, n, from, check_rank);
    CHECK_EQUAL(in[(long)n * check_size], GUARD);
    memcpy(in, out, (size_t)n * (size_t)check_size * sizeof(int));
    RUN(form, Alltoall, Ialltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, n, MPI_INT, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + (long)from * n, n, from, check_rank);
}

/* Tests blocks of n + i items of rank i. The blocks lie two items apart, in reverse order. */
static long ragged(int n)
{
    long at = 0;
    for (int i = check_size - 1; i >= 0; i--) {
        counts[i] = n ? n + i : i % 2;
        starts[i] = (int)at;
        at += counts[i] + 2;
    }
    return at;
}

static void check_ragged(int line, int form, int to)
{
    for (int from = 0; from < check_size; from++) {
        expect(line, form, in + starts[from], counts[from], from, to);
        CHECK_EQUAL(in[starts[from] + counts[from]], GUARD);
    }
}

static void vectors(int form, int n)
{
    long all = ragged(n);
    int mine = counts[check_rank], root = (n + form) % check_size, here = check_rank == root;
    give(out, mine, 0);
    clear(in, all);
    RUN(form, Gatherv, Igatherv, out, mine, MPI_INT, in, counts, starts, MPI_INT, root, world);
    if (here)
        check_ragged(__LINE__, form, 0);
    clear(in, all);
    RUN(form, Allgatherv, Iallgatherv, out, mine, MPI_INT, in, counts, starts, MPI_INT, world);
    check_ragged(__LINE__, form, 0);
    clear(in, all);
    give(in + starts[check_rank], mine, 0);
    RUN(form, Allgatherv, Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, starts, MPI_INT, world);
    check_ragged(__LINE__, form, 0);
    for (int to = 0; to < check_size; to++)
        give(out + starts[to], counts[to], to);
    clear(in, all);
    RUN(form, Scatterv, Iscatterv, out, counts, starts, MPI_INT, in, mine, MPI_INT, root, world);
    expect(__LINE__, form, in, mine, root, check_rank);
}

/* Returns the number of items from i to j: n + i + j, or 0 if n is 0 and i + j is odd. */
static int between(int n, int i, int j)
{
    return n ? n + i + j : (i + j) % 2;
}

static void alltoall_vectors(int form, int n)
{
    MPI_Datatype *types = check_memory((size_t)check_size * sizeof *types);
    long at = 0;
    for (int peer = 0; peer < check_size; peer++) {
        counts[peer] = between(n, check_rank, peer);
        starts[peer] = (int)at;
        give(out + at, counts[peer], peer);
        at += counts[peer] + 1;
        types[peer] = MPI_INT;
    }
    clear(in, at);
    RUN(form, Alltoallv, Ialltoallv, out, counts, starts, MPI_INT, in, counts, starts, MPI_INT, world);
    for (int from = 0; from < check_size; from++) {
        expect(__LINE__, form, in + starts[from], counts[from], from, check_rank);
        CHECK_EQUAL(in[starts[from] + counts[from]], GUARD);
    }
    memcpy(in, out, (size_t)at * sizeof(int));
    RUN(form, Alltoallv, Ialltoallv, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, counts, starts, MPI_INT, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + starts[from], counts[from], from, check_rank);
    for (int peer = 0; peer < check_size; peer++)
        sums[peer] = starts[peer] * (int)sizeof(int);
    clear(in, at);
    RUN(form, Alltoallw, Ialltoallw, out, counts, sums, types, in, counts, sums, types, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + starts[from], counts[from], from, check_rank);
    free(types);
}

/* Sender: every second int; receiver: contiguous, or with a wider extent. */
static void derived(int form, int n)
{
    MPI_Datatype second, wide;
    int root = (form + n) % check_size;
    MPI_Type_vector(2, 1, 2, MPI_INT, &second);
    MPI_Type_create_resized(second, 0, 4 * (MPI_Aint)sizeof(int), &wide);
    MPI_Type_commit(&wide);
    clear(in, 4L * n);
    if (check_rank == root)
        for (int i = 0; i < 2 * n; i++)
            in[2 * i] = value(root, 0, i);
    RUN(form, Bcast, Ibcast, in, n, wide, root, world);
    for (int i = 0; i < 2 * n; i++)
        if (in[2 * i] != value(root, 0, i) || in[2 * i + 1] != GUARD) {
            check_say(__FILE__, __LINE__, "form %d: item %d of a derived bcast", form, i);
            break;
        }
    for (int i = 0; i < 2 * n; i++) {
        out[2 * i] = value(check_rank, 0, i);
        out[2 * i + 1] = -5;
    }
    clear(in, 2L * n * check_size);
    RUN(form, Allgather, Iallgather, out, n, wide, in, 2 * n, MPI_INT, world);
    for (int from = 0; from < check_size; from++)
        expect(__LINE__, form, in + 2L * from * n, 2 * n, from, 0);
    MPI_Type_free(&wide);
    MPI_Type_free(&second);
}

/* Tests that calls that differ in their types alone are different operations, however often each comes. */
static void repeated_types(int form)
{
    enum { PLACES = 4, TURNS = 9 };
    MPI_Datatype pair, *types = check_memory((size_t)check_size * sizeof *types);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int turn = 0; turn < TURNS; turn++) {
        int length = turn % 3 == 2 ? 2 : 1;
        for (int peer = 0; peer < check_size; peer++) {
            counts[peer] = 1;
            sums[peer] = peer * PLACES * (int)sizeof(int);
            types[peer] = length == 2 ? pair : MPI_INT;
            give(out + (long)peer * PLACES, PLACES, peer);
        }
        clear(in, (long)check_size * PLACES);
        RUN(form, Alltoallw, Ialltoallw, out, counts, sums, types, in, counts, sums, types, world);
        for (int from = 0; from < check_size; from++) {
            expect(__LINE__, form, in + (long)from * PLACES, length, from, check_rank);
            CHECK_EQUAL(in[from * PLACES + length], GUARD);
        }
    }
    MPI_Type_free(&pair);
    free(types);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    size_t room = ((size_t)MOST + 2 * (size_t)check_size + 8) * (size_t)check_size * sizeof(int);
    out = check_memory(room);
    in = check_memory(room);
    counts = check_memory((size_t)check_size * sizeof(int));
    starts = check_memory((size_t)check_size * sizeof(int));
    sums = check_memory((size_t)check_size * sizeof(int));
    for (int form = 0; form < FORMS; form++) {
        RUN(form, Barrier, Ibarrier, world);
        repeated_types(form);
        for (int i = 0; i < SIZES; i++) {
            bcast(form, COUNTS[i]);
            gather_scatter(form, COUNTS[i]);
            allgather(form, COUNTS[i]);
            alltoall(form, COUNTS[i]);
            vectors(form, COUNTS[i]);
            alltoall_vectors(form, COUNTS[i]);
            derived(form, COUNTS[i] / 4);
        }
    }
    free(out);
    free(in);
    free(counts);
    free(starts);
    free(sums);
    MPI_Comm_free(&world);
    return check_end();
}
