/* Communication of the NAS kernels without arithmetic: partners, frequency and bytes of messages.
 *
 * usage: patterns NAME ITERATIONS     NAME: ep cg mg lu is sp bt; a square number of ranks that is a power of two
 *
 * The program follows the description of the kernels. Problem sizes are near class W, so that iterations take
 * milliseconds on slow links. The output is one line: `pattern name=.. ranks=.. us=.. messages=..`. us is the time of
 * an iteration in microseconds, messages the number that rank 0 sent itself, without those of collectives. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (1 << 20)
#define DOUBLE ((int)sizeof(double))

static int rank, ranks, side; /* ranks = side * side */
static long messages;
static char *out, *in;

/* Sends a message to one rank and receives another at the same time. */
static void exchange(int to, int from, int bytes)
{
    if (to == rank && from == rank)
        return;
    MPI_Sendrecv(out, bytes, MPI_CHAR, to, 1, in, bytes, MPI_CHAR, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    messages++;
}

static void barely(int iteration)
{
    (void)iteration;
}

/* EP: only sums at the end. */
static void ep_end(void)
{
    double sums[12] = {0}, all[12];
    MPI_Allreduce(sums, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(sums, all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(sums, all, 10, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* CG, 25 times: sums along a row of the grid by halving, an exchange with the transposed rank, two dot products. */
static void cg(int iteration)
{
    int row = rank / side, column = rank % side, vector = 7000 / side * DOUBLE;
    (void)iteration;
    for (int step = 0; step < 25; step++) {
        for (int bit = 1; bit < side; bit *= 2)
            exchange(row * side + (column ^ bit), row * side + (column ^ bit), vector);
        exchange(column * side + row, column * side + row, vector);
        for (int product = 0; product < 2; product++)
            for (int bit = 1; bit < side; bit *= 2)
                exchange(row * side + (column ^ bit), row * side + (column ^ bit), DOUBLE);
    }
}

/* LU: wavefronts over a grid, plane by plane, from one corner and back. Then neighbours exchange faces. */
static void wave(int row, int column, int sign)
{
    int before[2] = {row - sign, column - sign}, after[2] = {row + sign, column + sign};
    for (int plane = 0; plane < 32; plane++) {
        for (int way = 0; way < 2; way++)
            if (before[way] >= 0 && before[way] < side)
                MPI_Recv(in, 5 * 8 * DOUBLE, MPI_CHAR, way ? row * side + before[1] : before[0] * side + column, 2,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int way = 0; way < 2; way++)
            if (after[way] >= 0 && after[way] < side) {
                MPI_Send(out, 5 * 8 * DOUBLE, MPI_CHAR, way ? row * side + after[1] : after[0] * side + column, 2,
                         MPI_COMM_WORLD);
                messages++;
            }
    }
}

static void lu(int iteration)
{
    int row = rank / side, column = rank % side;
    (void)iteration;
    wave(row, column, 1);
    wave(row, column, -1);
    for (int sign = -1; sign <= 1; sign += 2) {
        int south = row + sign, north = row - sign, east = column + sign, west = column - sign;
        exchange(south >= 0 && south < side ? south * side + column : MPI_PROC_NULL,
                 north >= 0 && north < side ? north * side + column : MPI_PROC_NULL, 10 * 8 * 33 * DOUBLE);
        exchange(east >= 0 && east < side ? row * side + east : MPI_PROC_NULL,
                 west >= 0 && west < side ? row * side + west : MPI_PROC_NULL, 10 * 8 * 33 * DOUBLE);
    }
}

/* MG: a periodic grid of three dimensions, first coarser and coarser, then back. Where a dimension has fewer planes
 * than ranks, every second rank exchanges messages with the second next. */
static void faces(const int *extent, const int *place, int points)
{
    for (int d = 0; d < 3; d++) {
        int apart = 1, stride = d == 0 ? 1 : d == 1 ? extent[0] : extent[0] * extent[1];
        while (extent[d] / apart > points)
            apart *= 2;
        if (extent[d] / apart < 2 || place[d] % apart)
            continue;
        int up = rank + ((place[d] + apart) % extent[d] - place[d]) * stride;
        int down = rank + ((place[d] - apart + extent[d]) % extent[d] - place[d]) * stride;
        int here = points / extent[d] > 0 ? points / extent[d] : 1;
        exchange(up, down, (here + 2) * (here + 2) * DOUBLE);
        exchange(down, up, (here + 2) * (here + 2) * DOUBLE);
    }
}

static void mg(int iteration)
{
    int extent[3] = {1, 1, 1}, place[3];
    (void)iteration;
    for (int d = 0, left = ranks; left > 1; left /= 2, d = (d + 1) % 3)
        extent[d] *= 2;
    place[0] = rank % extent[0];
    place[1] = rank / extent[0] % extent[1];
    place[2] = rank / extent[0] / extent[1];
    for (int points = 64; points >= 2; points /= 2) /* restriction */
        faces(extent, place, points);
    for (int points = 2; points <= 64; points *= 2) { /* interpolation, residual, smoothing */
        faces(extent, place, points);
        faces(extent, place, points);
        faces(extent, place, points);
    }
}

/* IS: exchange of the numbers of keys, then of the keys. */
static void is(int iteration)
{
    static int counts[1024], all[1024], displacements[1024];
    (void)iteration;
    MPI_Allreduce(counts, all, 1024, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoall(all, 1, MPI_INT, displacements, 1, MPI_INT, MPI_COMM_WORLD);
    int keys = (1 << 18) / ranks / ranks;
    for (int i = 0; i < ranks; i++)
        counts[i] = keys, displacements[i] = i * keys;
    MPI_Alltoallv(out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT, MPI_COMM_WORLD);
    memset(counts, 0, sizeof counts);
}

/* SP and BT: each rank has a diagonal of cells of a cube (multi-partition). So it has one neighbour before and
 * one after in each of three directions. It sends faces to all six. Then each direction is solved forth and
 * back, cell by cell. */
static void diagonal(int words)
{
    int row = rank / side, column = rank % side, points = 24 / side;
    int next[3], previous[3];
    next[0] = row * side + (column + 1) % side, previous[0] = row * side + (column + side - 1) % side;
    next[1] = (row + 1) % side * side + column, previous[1] = (row + side - 1) % side * side + column;
    next[2] = (row + 1) % side * side + (column + side - 1) % side;
    previous[2] = (row + side - 1) % side * side + (column + 1) % side;
    for (int d = 0; d < 3; d++) {
        exchange(next[d], previous[d], 2 * 5 * points * points * side * DOUBLE);
        exchange(previous[d], next[d], 2 * 5 * points * points * side * DOUBLE);
    }
    for (int d = 0; d < 3; d++)
        for (int cell = 1; cell < side; cell++) {
            exchange(next[d], previous[d], words * points * points * DOUBLE);
            exchange(previous[d], next[d], words / 2 * points * points * DOUBLE);
        }
}

static void sp(int iteration)
{
    (void)iteration;
    diagonal(22);
}

static void bt(int iteration)
{
    (void)iteration;
    diagonal(30);
}

static const struct {
    const char *name;
    void (*step)(int iteration);
    void (*end)(void);
} PATTERNS[] = {{"ep", barely, ep_end}, {"cg", cg, NULL}, {"mg", mg, NULL}, {"lu", lu, NULL},
                {"is", is, NULL},       {"sp", sp, NULL}, {"bt", bt, NULL}};

int main(int argc, char **argv)
{
    int iterations = argc > 2 ? atoi(argv[2]) : 10;
    size_t at = 0, count = sizeof PATTERNS / sizeof *PATTERNS;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (side = 1; side * side < ranks; side *= 2)
        ;
    while (at < count && (argc < 2 || strcmp(argv[1], PATTERNS[at].name)))
        at++;
    out = calloc(2, MOST_BYTES);
    if (at == count || side * side != ranks || !out) {
        fprintf(stderr, "usage: patterns NAME ITERATIONS, on 4, 16, 64 ... ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    in = out + MOST_BYTES;
    double start = MPI_Wtime();
    for (int i = 0; i < iterations; i++)
        PATTERNS[at].step(i);
    if (PATTERNS[at].end)
        PATTERNS[at].end();
    double spent = MPI_Wtime() - start;
    if (rank == 0)
        printf("pattern name=%s ranks=%d us=%.1f messages=%ld\n", argv[1], ranks, spent / iterations * 1e6, messages);
    free(out);
    MPI_Finalize();
    return 0;
}
