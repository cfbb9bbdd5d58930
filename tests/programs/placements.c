/* Collectives on communicators whose ranks lie on the hosts in any order: `placements COMMUNICATORS SEED`. Of
 * the world a random part, in random order; roots, counts and MPI_IN_PLACE are drawn too. Each is done three
 * times, as the first time members may have to agree on what their hosts give them. */
#include "check.h"
#include "random.h"

enum { MOST = 20000 };

static int *in, *out, *want;

/* Composes the maps x -> ax + b. The operation does not commute. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    unsigned *l = left, *r = right;
    (void)type;
    for (int i = 0; i < *count; i++) {
        unsigned a = l[2 * i] * r[2 * i], b = l[2 * i] * r[2 * i + 1] + l[2 * i + 1];
        r[2 * i] = a, r[2 * i + 1] = b;
    }
}

static int value(int rank, int i)
{
    return rank * 131 + i * 7 + 1;
}

static void fill(int rank, int count)
{
    for (int i = 0; i < count; i++) {
        in[i] = value(rank, i);
        out[i] = -1;
    }
}

static void expect(const char *what, const int *got, int count, int size)
{
    for (int i = 0; i < count; i++)
        if (got[i] != want[i]) {
            check_say(__FILE__, __LINE__, "%s on %d ranks: place %d of %d holds %d, not %d", what, size, i, count,
                      got[i], want[i]);
            return;
        }
}

static void reductions(MPI_Comm comm, int rank, int size, int count, int root, int in_place, MPI_Op op, MPI_Datatype pair)
{
    for (int i = 0; i < count; i++)
        want[i] = size * value(0, i) + 131 * size * (size - 1) / 2;
    fill(rank, count);
    if (in_place)
        memcpy(out, in, (size_t)count * sizeof *in);
    MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, comm);
    expect("allreduce", out, count, size);
    fill(rank, count);
    if (in_place && rank == root)
        memcpy(out, in, (size_t)count * sizeof *in);
    MPI_Reduce(in_place && rank == root ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, root, comm);
    if (rank == root)
        expect("reduce", out, count, size);
    int block = count / size < 16 ? count / size : 16;
    for (int i = 0; i < block; i++)
        want[i] = size * value(0, rank * block + i) + 131 * size * (size - 1) / 2;
    fill(rank, block * size);
    MPI_Reduce_scatter_block(in, out, block, MPI_INT, MPI_SUM, comm);
    expect("reduce_scatter_block", out, block, size);
    MPI_Request again;
    MPI_Allreduce_init(in, out, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &again);
    for (int time = 0; time < 3; time++) {
        fill(rank + time, count);
        for (int i = 0; i < count; i++)
            want[i] = size * value(time, i) + 131 * size * (size - 1) / 2;
        MPI_Start(&again);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        expect("persistent allreduce", out, count, size);
    }
    MPI_Request_free(&again);
    int pairs = count / 2 < 500 ? count / 2 : 500;
    for (int i = 0; i < 2 * pairs; i++)
        want[i] = value(size - 1, i);
    for (int other = size - 2; other >= 0; other--) {
        fill(other, 2 * pairs);
        compose(in, want, &pairs, &pair);
    }
    fill(rank, 2 * pairs);
    MPI_Allreduce(in, out, pairs, pair, op, comm);
    expect("allreduce in order", out, 2 * pairs, size);
    MPI_Reduce(in, out, pairs, pair, op, root, comm);
    if (rank == root)
        expect("reduce in order", out, 2 * pairs, size);
    for (int i = 0; i < count; i++)
        want[i] = (rank + 1) * value(0, i) + 131 * rank * (rank + 1) / 2;
    fill(rank, count);
    MPI_Scan(in, out, count, MPI_INT, MPI_SUM, comm);
    expect("scan", out, count, size);
}

static void moves(MPI_Comm comm, int rank, int size, int count, int root, int in_place)
{
    fill(rank == root ? rank : -1, count);
    MPI_Bcast(in, count, MPI_INT, root, comm);
    for (int i = 0; i < count; i++)
        want[i] = value(root, i);
    expect("bcast", in, count, size);

    int block = count / size > 0 ? count / size : 1;
    for (int from = 0; from < size; from++)
        for (int i = 0; i < block; i++)
            want[from * block + i] = value(from, i);
    fill(rank, block);
    int *own = out + (size_t)rank * block;
    for (int i = 0; i < block * size; i++)
        out[i] = -1;
    if (in_place)
        memcpy(own, in, (size_t)block * sizeof *in);
    MPI_Allgather(in_place ? MPI_IN_PLACE : in, block, MPI_INT, out, block, MPI_INT, comm);
    expect("allgather", out, block * size, size);
    for (int i = 0; i < block * size; i++)
        out[i] = -1;
    if (in_place && rank == root)
        memcpy(own, in, (size_t)block * sizeof *in);
    MPI_Gather(in_place && rank == root ? MPI_IN_PLACE : in, block, MPI_INT, out, block, MPI_INT, root, comm);
    if (rank == root)
        expect("gather", out, block * size, size);

    fill(root, block * size);
    for (int i = 0; i < block; i++)
        want[i] = value(root, rank * block + i);
    MPI_Scatter(in, block, MPI_INT, out, block, MPI_INT, root, comm);
    expect("scatter", out, block, size);

    fill(rank, block * size);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < block; i++)
            want[from * block + i] = value(from, rank * block + i);
    if (in_place)
        memcpy(out, in, (size_t)block * size * sizeof *in);
    MPI_Alltoall(in_place ? MPI_IN_PLACE : in, block, MPI_INT, out, block, MPI_INT, comm);
    expect("alltoall", out, block * size, size);
    MPI_Barrier(comm);
}

/* Places for blocks of these lengths, the last rank's first, with a gap before each; how much they take. */
static int lay(const int *lengths, int *starts, int size)
{
    int end = 0;
    for (int rank = size - 1; rank >= 0; rank--) {
        starts[rank] = end + 1;
        end += 1 + lengths[rank];
    }
    return end;
}

/* Tests blocks of many lengths, some of them empty: `unit` times 0 to 4. */
static void uneven(MPI_Comm comm, int rank, int size, int unit, int root, int in_place)
{
    int mine[64] = {0}, theirs[64] = {0}, from_at[64] = {0}, to_at[64] = {0};
    for (int other = 0; other < size; other++)
        theirs[other] = (other * 7 + 3) % 5 * unit;
    int extent = lay(theirs, to_at, size), own = theirs[rank];
    for (int i = 0; i < extent; i++)
        out[i] = want[i] = -1;
    for (int other = 0; other < size; other++)
        for (int i = 0; i < theirs[other]; i++)
            want[to_at[other] + i] = value(other, i);
    for (int i = 0; i < own; i++)
        in[i] = value(rank, i);
    if (in_place)
        memcpy(out + to_at[rank], in, (size_t)own * sizeof *in);
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : in, own, MPI_INT, out, theirs, to_at, MPI_INT, comm);
    expect("allgatherv", out, extent, size);
    for (int i = 0; i < extent; i++)
        out[i] = -1;
    if (in_place)
        memcpy(out + to_at[rank], in, (size_t)own * sizeof *in);
    MPI_Gatherv(in_place && rank == root ? MPI_IN_PLACE : in, own, MPI_INT, out, theirs, to_at, MPI_INT, root, comm);
    if (rank == root)
        expect("gatherv", out, extent, size);

    for (int i = 0; i < extent; i++)
        in[i] = value(root, i);
    for (int i = 0; i < own; i++)
        want[i] = value(root, to_at[rank] + i);
    MPI_Scatterv(in, theirs, to_at, MPI_INT, out, own, MPI_INT, root, comm);
    expect("scatterv", out, own, size);

    for (int other = 0; other < size; other++) {
        mine[other] = (rank * other + rank + other) % 5 * unit;
        theirs[other] = (other * rank + other + rank) % 5 * unit;
    }
    lay(mine, from_at, size);
    extent = lay(theirs, to_at, size);
    for (int i = 0; i < extent; i++)
        out[i] = want[i] = -1;
    for (int other = 0; other < size; other++) {
        for (int i = 0; i < mine[other]; i++)
            in[from_at[other] + i] = value(rank * 64 + other, i);
        for (int i = 0; i < theirs[other]; i++)
            want[to_at[other] + i] = value(other * 64 + rank, i);
    }
    if (in_place)
        for (int other = 0; other < size; other++)
            memcpy(out + to_at[other], in + from_at[other], (size_t)mine[other] * sizeof *in);
    MPI_Alltoallv(in_place ? MPI_IN_PLACE : in, mine, from_at, MPI_INT, out, theirs, to_at, MPI_INT, comm);
    expect("alltoallv", out, extent, size);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int communicators = argc > 1 ? atoi(argv[1]) : 4;
    state = seed = argc > 2 ? (uint64_t)atoi(argv[2]) : 1;
    size_t bytes = (size_t)(MOST + 64 * check_size) * sizeof(int);
    in = check_memory(bytes), out = check_memory(bytes), want = check_memory(bytes);
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op op;
    MPI_Op_create(compose, 0, &op);
    for (int turn = 0; turn < communicators; turn++) {
        int part = 0, key = 0, whole = turn % 2 == 0;
        for (int rank = 0; rank < check_size; rank++) {
            int its_part = (int)draw(3) > 0 || whole, its_key = (int)draw(1000);
            if (rank == check_rank)
                part = its_part, key = its_key;
        }
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, part, key, &comm);
        int rank, size;
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        for (int step = 0; step < 5; step++) {
            static const int counts[] = {1, 2, 100, 3000, MOST};
            int count = counts[(step + turn) % 5], drawn = (int)draw(1u << 20), in_place = (int)draw(2);
            for (int again = 0; again < 3; again++) {
                moves(comm, rank, size, count, (drawn + again) % size, in_place);
                reductions(comm, rank, size, count, (drawn + again) % size, in_place, op, pair);
                uneven(comm, rank, size, count / (5 * size) + 1, (drawn + again) % size, in_place);
            }
        }
        MPI_Comm_free(&comm);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
    free(in), free(out), free(want);
    return check_end();
}
