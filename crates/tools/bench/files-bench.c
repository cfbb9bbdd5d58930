/* The benchmark of `tutti bench io`: patterns of MPI-IO, plain MPI, any library.
 *
 * usage: files-bench --serve PREFIX              cells from pipes, see serve.h
 *        files-bench OP MODE BYTES [MS]          one cell by hand
 *
 * BENCH_FILE names the file, which is made, and deleted at the end.
 *
 *   OP     write_ or read_ and a pattern:
 *            contiguous  BYTES of each rank, one rank's behind the other's
 *            strided     pieces of BYTES in turn, 4 MiB of each rank
 *            list        the same with gaps of a quarter in memory, 2 MiB of each rank
 *            tile        a part of an image of 1024 x 768 points of BYTES a rank, in rows and columns
 *                        (mpi-tile-io, yu-2006, section 7.4.3)
 *            bt          a step of BT of the NAS kernels, class A: 64^3 points of 40 bytes, cells along
 *                        diagonals, with ghosts in memory (BTIO, section 7.4.5); a square number of ranks
 *          or create: open a file that is not there, MPI_File_set_size, and close; or overlap: computing
 *          beside a write of BYTES
 *   MODE   independent, collective, nonblocking (of all ranks, and waited for) or split
 *
 * One line a cell, see tutti-bench.c; us is the time until all ranks are done. Before each write the file is
 * cut to no byte, as programs write fresh files; what was moved is compared once a cell.
 */
#define _GNU_SOURCE
#include "serve.h"
#include <stdlib.h>
#include <string.h>

#define STRIDED_BYTES (4 << 20)
#define LIST_BYTES (2 << 20)
#define WIDTH 1024
#define HEIGHT 768
#define GRID 64
#define POINT 40
#define GHOSTS 2
#define MOST_CELLS 16
#define MOST_ITERATIONS 200

struct pattern {
    MPI_Offset displacement;
    MPI_Datatype file, memory;
    size_t span;  /* of one rank's memory */
    size_t bytes; /* of one rank's data */
};

static int rank, ranks;
static const char *path;

static MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

static MPI_Datatype vector(int count, int block, int stride)
{
    MPI_Datatype type;
    MPI_Type_vector(count, block, stride, MPI_BYTE, &type);
    return committed(type);
}

static MPI_Datatype contiguous(size_t bytes)
{
    MPI_Datatype type;
    MPI_Type_contiguous((int)bytes, MPI_BYTE, &type);
    return committed(type);
}

/* The side of the square that the ranks are, or 0. */
static int side(void)
{
    int q = 1;
    while (q * q < ranks)
        q++;
    return q * q == ranks ? q : 0;
}

static void tile(struct pattern *p, size_t point)
{
    int columns = 1;
    for (int c = 1; c * c <= ranks; c++)
        columns = ranks % c == 0 ? c : columns;
    int rows = ranks / columns, line = WIDTH * (int)point;
    int sizes[2] = {HEIGHT * rows, line * columns}, own[2] = {HEIGHT, line};
    int starts[2] = {HEIGHT * (rank / columns), line * (rank % columns)};
    MPI_Type_create_subarray(2, sizes, own, starts, MPI_ORDER_C, MPI_BYTE, &p->file);
    p->file = committed(p->file);
    p->bytes = p->span = (size_t)HEIGHT * line;
    p->memory = contiguous(p->bytes);
}

static int bt(struct pattern *p)
{
    int q = side(), blocks[MOST_CELLS];
    MPI_Datatype in_file[MOST_CELLS], in_memory[MOST_CELLS];
    MPI_Aint whole[MOST_CELLS] = {0}, places[MOST_CELLS];
    if (!q || q > MOST_CELLS || GRID % q)
        return 0;
    int c = GRID / q, g = c + 2 * GHOSTS;
    size_t cell = (size_t)g * g * g * POINT;
    for (int k = 0; k < q; k++) {
        int x = (rank % q + k) % q, y = (rank / q + q - k) % q;
        int sizes[4] = {GRID, GRID, GRID, POINT}, own[4] = {c, c, c, POINT}, starts[4] = {k * c, y * c, x * c, 0};
        int around[4] = {g, g, g, POINT}, inner[4] = {GHOSTS, GHOSTS, GHOSTS, 0};
        MPI_Type_create_subarray(4, sizes, own, starts, MPI_ORDER_C, MPI_BYTE, &in_file[k]);
        MPI_Type_create_subarray(4, around, own, inner, MPI_ORDER_C, MPI_BYTE, &in_memory[k]);
        blocks[k] = 1;
        places[k] = (MPI_Aint)(k * cell);
    }
    MPI_Type_create_struct(q, blocks, whole, in_file, &p->file);
    MPI_Type_create_struct(q, blocks, places, in_memory, &p->memory);
    p->file = committed(p->file), p->memory = committed(p->memory);
    p->bytes = (size_t)q * c * c * c * POINT;
    p->span = q * cell;
    for (int k = 0; k < q; k++) {
        MPI_Type_free(&in_file[k]);
        MPI_Type_free(&in_memory[k]);
    }
    return 1;
}

/* Returns 0 where so many ranks cannot have it. */
static int open_pattern(struct pattern *p, const char *name, size_t bytes)
{
    memset(p, 0, sizeof *p);
    if (!strcmp(name, "contiguous")) {
        p->displacement = (MPI_Offset)rank * (MPI_Offset)bytes;
        p->file = contiguous(1), p->memory = contiguous(bytes);
        p->bytes = p->span = bytes;
    } else if (!strcmp(name, "strided")) {
        p->displacement = (MPI_Offset)rank * (MPI_Offset)bytes;
        p->file = vector(STRIDED_BYTES / (int)bytes, (int)bytes, (int)bytes * ranks);
        p->bytes = p->span = STRIDED_BYTES;
        p->memory = contiguous(p->bytes);
    } else if (!strcmp(name, "list")) {
        int count = LIST_BYTES / (int)bytes, stride = (int)bytes / 4 * 5;
        p->displacement = (MPI_Offset)rank * (MPI_Offset)bytes;
        p->file = vector(count, (int)bytes, (int)bytes * ranks);
        p->memory = vector(count, (int)bytes, stride);
        p->bytes = (size_t)count * bytes, p->span = (size_t)count * stride;
    } else if (!strcmp(name, "tile")) {
        tile(p, bytes);
    } else if (!strcmp(name, "bt")) {
        return bt(p);
    } else {
        give_up("no such pattern:", name);
    }
    return 1;
}

static void close_pattern(struct pattern *p)
{
    MPI_Type_free(&p->file);
    MPI_Type_free(&p->memory);
}

static void fill(unsigned char *memory, size_t bytes, unsigned salt)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)(i * 7 + i / 4096 + (unsigned)rank * 31 + salt);
}

/* Bytes of the data, not of the gaps, in which the two differ. */
static long differences(const struct pattern *p, const unsigned char *one, const unsigned char *other)
{
    int size, at[2] = {0, 0};
    long wrong = 0;
    MPI_Pack_size(1, p->memory, MPI_COMM_SELF, &size);
    unsigned char *packed[2] = {malloc((size_t)size), malloc((size_t)size)};
    MPI_Pack(one, 1, p->memory, packed[0], size, &at[0], MPI_COMM_SELF);
    MPI_Pack(other, 1, p->memory, packed[1], size, &at[1], MPI_COMM_SELF);
    for (int i = 0; i < at[0]; i++)
        wrong += packed[0][i] != packed[1][i];
    free(packed[0]), free(packed[1]);
    return wrong;
}

static void access_file(MPI_File f, int write, const char *mode, void *memory, MPI_Datatype type)
{
    MPI_Request request;
    MPI_Status *none = MPI_STATUS_IGNORE;
    if (!strcmp(mode, "independent")) {
        write ? MPI_File_write_at(f, 0, memory, 1, type, none) : MPI_File_read_at(f, 0, memory, 1, type, none);
    } else if (!strcmp(mode, "collective")) {
        write ? MPI_File_write_at_all(f, 0, memory, 1, type, none) : MPI_File_read_at_all(f, 0, memory, 1, type, none);
    } else if (!strcmp(mode, "nonblocking")) {
        write ? MPI_File_iwrite_at_all(f, 0, memory, 1, type, &request) : MPI_File_iread_at_all(f, 0, memory, 1, type, &request);
        MPI_Wait(&request, none);
    } else if (!strcmp(mode, "split")) {
        write ? MPI_File_write_at_all_begin(f, 0, memory, 1, type) : MPI_File_read_at_all_begin(f, 0, memory, 1, type);
        write ? MPI_File_write_at_all_end(f, memory, none) : MPI_File_read_at_all_end(f, memory, none);
    } else {
        give_up("no such mode:", mode);
    }
}

static double slowest(double own)
{
    double all;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_cell(const struct ask *ask, double *times, int count, long wrong)
{
    long total = 0;
    MPI_Reduce(&wrong, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    qsort(times, (size_t)count, sizeof *times, ascending);
    if (rank == 0)
        printf("cell op=%s mode=%s ranks=%d bytes=%s us=%.3f least=%.3f iterations=%d wrong=%ld\n", ask->name, ask->mode, ranks,
               ask->size, times[count / 2] * 1e6, times[0] * 1e6, count, total);
    fflush(stdout);
}

static void measure_access(const struct ask *ask, int write, const char *name, size_t bytes)
{
    struct pattern p;
    MPI_File f;
    double times[MOST_ITERATIONS], spent = 0;
    int count = 0;
    if (!open_pattern(&p, name, bytes))
        return;
    unsigned char *out = malloc(p.span), *in = malloc(p.span);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f))
        give_up("cannot open", path);
    MPI_File_set_view(f, p.displacement, MPI_BYTE, p.file, "native", MPI_INFO_NULL);
    fill(out, p.span, (unsigned)bytes);
    memset(in, 0, p.span);
    MPI_File_set_size(f, 0);
    access_file(f, 1, "independent", out, p.memory);
    while (count < 3 || (spent < ask->ms / 1000 && count < MOST_ITERATIONS)) {
        if (write)
            MPI_File_set_size(f, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        access_file(f, write, ask->mode, write ? out : in, p.memory);
        /* Until all have their data, in every mode: with fewer processors than ranks, who begins late because
         * others have the processors would seem to be fast. */
        MPI_Barrier(MPI_COMM_WORLD);
        times[count] = slowest(MPI_Wtime() - start);
        spent += times[count++];
    }
    if (write)
        access_file(f, 0, "independent", in, p.memory);
    long wrong = differences(&p, out, in);
    MPI_File_close(&f);
    print_cell(ask, times, count, wrong);
    free(out), free(in);
    close_pattern(&p);
}

static void measure_create(const struct ask *ask)
{
    double times[MOST_ITERATIONS], spent = 0;
    int count = 0;
    while (count < 3 || (spent < ask->ms / 1000 && count < MOST_ITERATIONS)) {
        MPI_File f;
        if (rank == 0)
            MPI_File_delete(path, MPI_INFO_NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f))
            give_up("cannot open", path);
        MPI_File_set_size(f, 1 << 20);
        MPI_File_close(&f);
        times[count] = slowest(MPI_Wtime() - start);
        spent += times[count++];
    }
    print_cell(ask, times, count, 0);
}

static void compute(double seconds)
{
    static volatile double sum;
    for (double start = MPI_Wtime(); MPI_Wtime() - start < seconds;)
        for (int i = 0; i < 1000; i++)
            sum += i;
}

/* The time of a write of all ranks beside which as much time is computed, less that time: nothing of it is
 * left where all is hidden. */
static void measure_overlap(const struct ask *ask, size_t bytes)
{
    double times[MOST_ITERATIONS], alone = 0, spent = 0;
    int count = 0;
    MPI_File f;
    unsigned char *out = malloc(bytes);
    fill(out, bytes, 1);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f))
        give_up("cannot open", path);
    while (count < 3 || (spent < ask->ms / 1000 && count < MOST_ITERATIONS)) {
        for (int with = 0; with < 2; with++) {
            MPI_Request request;
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            MPI_File_iwrite_at_all(f, (MPI_Offset)rank * (MPI_Offset)bytes, out, (int)bytes, MPI_BYTE, &request);
            if (with)
                compute(alone);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            double took = slowest(MPI_Wtime() - start);
            spent += took;
            if (with)
                times[count++] = took > alone ? took - alone : 1e-9;
            else
                alone = took;
        }
    }
    MPI_File_close(&f);
    free(out);
    print_cell(ask, times, count, 0);
}

static void run_cell(const struct ask *ask)
{
    size_t bytes = (size_t)atol(ask->size);
    if (!strcmp(ask->name, "create"))
        measure_create(ask);
    else if (!strcmp(ask->name, "overlap"))
        measure_overlap(ask, bytes);
    else if (!strncmp(ask->name, "write_", 6))
        measure_access(ask, 1, ask->name + 6, bytes);
    else if (!strncmp(ask->name, "read_", 5))
        measure_access(ask, 0, ask->name + 5, bytes);
    else
        give_up("no such operation:", ask->name);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    path = getenv("BENCH_FILE");
    if (!path)
        give_up("BENCH_FILE", "names no file");
    if (argc == 3 && !strcmp(argv[1], "--serve")) {
        serve(argv[2], run_cell);
    } else if (argc >= 4) {
        struct ask ask = {.ms = argc > 4 ? atof(argv[4]) : 200};
        snprintf(ask.name, sizeof ask.name, "%s", argv[1]);
        snprintf(ask.mode, sizeof ask.mode, "%s", argv[2]);
        snprintf(ask.size, sizeof ask.size, "%s", argv[3]);
        run_cell(&ask);
    } else {
        give_up("see the head of files-bench.c:", argv[0]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_File_delete(path, MPI_INFO_NULL);
    MPI_Finalize();
    return 0;
}
