/* The benchmark of `tutti bench` and `tutti compare`: plain MPI, no extension, any library.
 *
 * usage: tutti-bench --op NAME[,NAME...] --sizes BYTES[,BYTES...] [--changing] [--ms MS] [--limit-ms MS]
 *
 *   --op        latency bandwidth bibandwidth barrier bcast reduce allreduce allgather alltoall gather scatter
 *               reduce_scatter scan exscan; a collective with `i` before its name is the non-blocking
 *               one, started and waited for; with `p` the persistent one
 *   --sizes     bytes of a message, of the vector of bcast, reduce, allreduce, scan, or of one rank's block
 *   --changing  all data are written afresh before each iteration and read after it
 *   --ms        time for one cell (an operation with one size), about
 *   --limit-ms  an operation slower than this is measured once, and not with larger sizes
 *
 * One line a cell: `cell op=.. mode=.. ranks=.. bytes=.. us=.. iterations=.. wrong=..`
 *
 * us is the time that the operation takes: half a round trip for latency, a message's share of a
 * window of 64 for bandwidth, the slowest rank's time of a collective; in mode changing less the time in
 * which the data are written and read. A cell is measured in 5 batches, and us is the median batch.
 *
 * Messages go between ranks 2i and 2i+1, all pairs at once. As in other benchmarks a window is sent from
 * one buffer and received in one buffer.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define BATCHES 5
#define ALIGNMENT 4096
#define MEMORY_LIMIT ((size_t)64 << 20) /* bytes of one buffer; larger cells are left out */

enum kind {
    LATENCY, BANDWIDTH, BIBANDWIDTH, BARRIER, BCAST, REDUCE, ALLREDUCE, ALLGATHER, ALLTOALL, GATHER, SCATTER,
    REDUCE_SCATTER, SCAN, EXSCAN, KINDS
};
enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static const char *const NAMES[KINDS] = {"latency",   "bandwidth", "bibandwidth", "barrier", "bcast",
                                         "reduce",    "allreduce", "allgather",   "alltoall", "gather",
                                         "scatter",   "reduce_scatter", "scan",   "exscan"};

struct options {
    char *ops, *sizes;
    int changing;
    double batch_s, limit_s;
};

struct cell {
    enum kind kind;
    enum form form;
    int rank, ranks, partner; /* partner is MPI_PROC_NULL for the odd one out */
    int window;
    size_t bytes;
    int count; /* floats in one message, vector or block */
    float *out, *in;
    size_t out_blocks, in_blocks; /* blocks of `count` floats that this rank gives and gets */
    MPI_Request persistent;
    double touching_s;
    unsigned seed;
    long wrong;
    double sink;
};

/* Small whole numbers: their sums are exact in single precision. */
static float value(unsigned seed, int rank, size_t block, size_t i)
{
    return (float)((seed * 7 + (unsigned)rank * 3 + (unsigned)block * 5 + (unsigned)i) & 1023);
}

static void write_data(struct cell *c)
{
    for (size_t block = 0; block < c->out_blocks; block++) {
        float *to = c->out + block * (size_t)c->count;
        unsigned start = c->seed * 7 + (unsigned)c->rank * 3 + (unsigned)block * 5;
        for (size_t i = 0; i < (size_t)c->count; i++)
            to[i] = (float)(int)((start + (unsigned)i) & 1023);
    }
}

static void read_data(struct cell *c)
{
    const float *from = c->kind == BCAST ? c->out : c->in;
    size_t floats = c->in_blocks * (size_t)c->count;
    float sums[8] = {0};
    for (size_t i = 0; i + 8 <= floats; i += 8)
        for (size_t lane = 0; lane < 8; lane++)
            sums[lane] += from[i + lane];
    for (size_t lane = 0; lane < 8; lane++)
        c->sink += sums[lane];
}

/* What float i of block `block` must be at this rank after the operation. */
static float expected(const struct cell *c, size_t block, size_t i)
{
    float sum = 0;
    int last = c->kind == SCAN ? c->rank + 1 : c->kind == EXSCAN ? c->rank : c->ranks;
    switch (c->kind) {
    case LATENCY: case BANDWIDTH: case BIBANDWIDTH: return value(c->seed, c->partner, 0, i);
    case BCAST: return value(c->seed, 0, 0, i);
    case ALLGATHER: case GATHER: return value(c->seed, (int)block, 0, i);
    case ALLTOALL: return value(c->seed, (int)block, (size_t)c->rank, i);
    case SCATTER: return value(c->seed, 0, (size_t)c->rank, i);
    default: break;
    }
    for (int rank = 0; rank < last; rank++)
        sum += value(c->seed, rank, c->kind == REDUCE_SCATTER ? (size_t)c->rank : 0, i);
    return sum;
}

/* Compares the first, the middle and the last float of each block. */
static void check_sample(struct cell *c)
{
    const float *from = c->kind == BCAST ? c->out : c->in;
    for (size_t block = 0; block < c->in_blocks; block++)
        for (int at = 0; at < 3; at++) {
            size_t i = (size_t)(c->count - 1) * (size_t)at / 2;
            c->wrong += from[block * (size_t)c->count + i] != expected(c, block, i);
        }
}

static void set_blocks(struct cell *c)
{
    size_t ranks = (size_t)c->ranks, root = c->rank == 0;
    c->out_blocks = c->in_blocks = 1;
    switch (c->kind) {
    case LATENCY: case BIBANDWIDTH: c->out_blocks = c->in_blocks = c->partner != MPI_PROC_NULL; break;
    case BANDWIDTH:
        c->out_blocks = c->partner != MPI_PROC_NULL && c->rank % 2 == 0;
        c->in_blocks = c->partner != MPI_PROC_NULL && c->rank % 2 == 1;
        break;
    case BARRIER: c->out_blocks = c->in_blocks = 0; break;
    case BCAST: c->out_blocks = root; c->in_blocks = !root; break;
    case REDUCE: c->in_blocks = root; break;
    case ALLGATHER: c->in_blocks = ranks; break;
    case ALLTOALL: c->out_blocks = c->in_blocks = ranks; break;
    case GATHER: c->in_blocks = root * ranks; break;
    case SCATTER: c->out_blocks = root * ranks; break;
    case REDUCE_SCATTER: c->out_blocks = ranks; break;
    case EXSCAN: c->in_blocks = !root; break;
    default: break;
    }
}

static void blocking(struct cell *c)
{
    MPI_Comm w = MPI_COMM_WORLD;
    int n = c->count;
    switch (c->kind) {
    case BARRIER: MPI_Barrier(w); break;
    case BCAST: MPI_Bcast(c->out, n, MPI_FLOAT, 0, w); break;
    case REDUCE: MPI_Reduce(c->out, c->in, n, MPI_FLOAT, MPI_SUM, 0, w); break;
    case ALLREDUCE: MPI_Allreduce(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w); break;
    case ALLGATHER: MPI_Allgather(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, w); break;
    case ALLTOALL: MPI_Alltoall(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, w); break;
    case GATHER: MPI_Gather(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, 0, w); break;
    case SCATTER: MPI_Scatter(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, 0, w); break;
    case REDUCE_SCATTER: MPI_Reduce_scatter_block(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w); break;
    case SCAN: MPI_Scan(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w); break;
    case EXSCAN: MPI_Exscan(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w); break;
    default: break;
    }
}

static void nonblocking(struct cell *c)
{
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request r = MPI_REQUEST_NULL;
    int n = c->count;
    switch (c->kind) {
    case BARRIER: MPI_Ibarrier(w, &r); break;
    case BCAST: MPI_Ibcast(c->out, n, MPI_FLOAT, 0, w, &r); break;
    case REDUCE: MPI_Ireduce(c->out, c->in, n, MPI_FLOAT, MPI_SUM, 0, w, &r); break;
    case ALLREDUCE: MPI_Iallreduce(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, &r); break;
    case ALLGATHER: MPI_Iallgather(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, w, &r); break;
    case ALLTOALL: MPI_Ialltoall(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, w, &r); break;
    case GATHER: MPI_Igather(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, 0, w, &r); break;
    case SCATTER: MPI_Iscatter(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, 0, w, &r); break;
    case REDUCE_SCATTER: MPI_Ireduce_scatter_block(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, &r); break;
    case SCAN: MPI_Iscan(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, &r); break;
    case EXSCAN: MPI_Iexscan(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, &r); break;
    default: break;
    }
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void plan(struct cell *c)
{
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Info no = MPI_INFO_NULL;
    MPI_Request *r = &c->persistent;
    int n = c->count;
    switch (c->kind) {
    case BARRIER: MPI_Barrier_init(w, no, r); break;
    case BCAST: MPI_Bcast_init(c->out, n, MPI_FLOAT, 0, w, no, r); break;
    case REDUCE: MPI_Reduce_init(c->out, c->in, n, MPI_FLOAT, MPI_SUM, 0, w, no, r); break;
    case ALLREDUCE: MPI_Allreduce_init(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, no, r); break;
    case ALLGATHER: MPI_Allgather_init(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, w, no, r); break;
    case ALLTOALL: MPI_Alltoall_init(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, w, no, r); break;
    case GATHER: MPI_Gather_init(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, 0, w, no, r); break;
    case SCATTER: MPI_Scatter_init(c->out, n, MPI_FLOAT, c->in, n, MPI_FLOAT, 0, w, no, r); break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block_init(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, no, r);
        break;
    case SCAN: MPI_Scan_init(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, no, r); break;
    case EXSCAN: MPI_Exscan_init(c->out, c->in, n, MPI_FLOAT, MPI_SUM, w, no, r); break;
    default: break;
    }
}

static void touch_out(struct cell *c, int changing)
{
    if (!changing)
        return;
    double start = MPI_Wtime();
    write_data(c);
    c->touching_s += MPI_Wtime() - start;
}

static void touch_in(struct cell *c, int changing)
{
    if (!changing)
        return;
    double start = MPI_Wtime();
    read_data(c);
    check_sample(c);
    c->touching_s += MPI_Wtime() - start;
}

static void ping_pong(struct cell *c, int changing)
{
    if (c->partner == MPI_PROC_NULL)
        return;
    if (c->rank % 2 == 0) {
        touch_out(c, changing);
        MPI_Send(c->out, c->count, MPI_FLOAT, c->partner, 1, MPI_COMM_WORLD);
    }
    MPI_Recv(c->in, c->count, MPI_FLOAT, c->partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    touch_in(c, changing);
    if (c->rank % 2 == 1) {
        touch_out(c, changing);
        MPI_Send(c->out, c->count, MPI_FLOAT, c->partner, 1, MPI_COMM_WORLD);
    }
}

static void windows(struct cell *c, int changing)
{
    MPI_Request requests[2 * WINDOW];
    int sends = c->kind == BIBANDWIDTH || c->rank % 2 == 0;
    int receives = c->kind == BIBANDWIDTH || c->rank % 2 == 1;
    int n = 0;
    float acknowledged = 0;
    if (c->partner == MPI_PROC_NULL)
        return;
    touch_out(c, changing);
    for (int i = 0; receives && i < c->window; i++)
        MPI_Irecv(c->in, c->count, MPI_FLOAT, c->partner, 2, MPI_COMM_WORLD, &requests[n++]);
    for (int i = 0; sends && i < c->window; i++)
        MPI_Isend(c->out, c->count, MPI_FLOAT, c->partner, 2, MPI_COMM_WORLD, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    if (receives)
        touch_in(c, changing);
    if (c->rank % 2 == 1)
        MPI_Send(&acknowledged, 1, MPI_FLOAT, c->partner, 3, MPI_COMM_WORLD);
    else
        MPI_Recv(&acknowledged, 1, MPI_FLOAT, c->partner, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void iterate(struct cell *c, int changing, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        c->seed += (unsigned)changing;
        if (c->kind == LATENCY) {
            ping_pong(c, changing);
        } else if (c->kind == BANDWIDTH || c->kind == BIBANDWIDTH) {
            windows(c, changing);
        } else {
            touch_out(c, changing);
            if (c->kind == BCAST && changing && c->rank != 0)
                c->out[0] = -1; /* what is read must have come from the root */
            if (c->form == BLOCKING) {
                blocking(c);
            } else if (c->form == NONBLOCKING) {
                nonblocking(c);
            } else {
                MPI_Start(&c->persistent);
                MPI_Wait(&c->persistent, MPI_STATUS_IGNORE);
            }
            touch_in(c, changing);
        }
    }
}

/* Seconds that one iteration takes, the same number on all ranks; `whole` with writing and reading. */
static double measure(struct cell *c, int changing, long iterations, double *whole)
{
    double spent, times[2], other = 0, slowest[2];
    c->touching_s = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    iterate(c, changing, iterations);
    spent = MPI_Wtime() - start;
    if (c->kind <= BIBANDWIDTH && c->partner != MPI_PROC_NULL)
        MPI_Sendrecv(&c->touching_s, 1, MPI_DOUBLE, c->partner, 4, &other, 1, MPI_DOUBLE, c->partner, 4,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    times[0] = spent;
    /* A ping-pong waits for both; in a window both sides of bibandwidth work at the same time. */
    times[1] = spent - (c->kind == BIBANDWIDTH ? (c->touching_s + other) / 2 : c->touching_s + other);
    if (c->kind == LATENCY)
        times[1] /= 2;
    if (c->kind == BANDWIDTH || c->kind == BIBANDWIDTH)
        times[1] /= c->window;
    MPI_Allreduce(times, slowest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *whole = slowest[0] / (double)iterations;
    return slowest[1] / (double)iterations;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How often an iteration fits in a batch: doubled until a tenth of it is filled. The first iteration
 * warms up and is not counted. */
static long calibrate(struct cell *c, const struct options *options, double *whole)
{
    measure(c, options->changing, 1, whole);
    for (long iterations = 1; *whole < options->limit_s && iterations < 10000000; iterations *= 2) {
        measure(c, options->changing, iterations, whole);
        if (*whole * (double)iterations > options->batch_s / 10)
            break;
    }
    long fitting = (long)(options->batch_s / *whole);
    return fitting < 1 ? 1 : fitting;
}

static void new_cell(struct cell *c, enum kind kind, enum form form, size_t bytes)
{
    memset(c, 0, sizeof *c);
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->ranks);
    c->kind = kind;
    c->form = form;
    c->bytes = bytes;
    c->count = (int)(bytes / sizeof(float));
    c->partner = (c->rank ^ 1) < c->ranks ? c->rank ^ 1 : MPI_PROC_NULL;
    c->window = bytes > (4 << 20) ? WINDOW / 4 : WINDOW;
    c->persistent = MPI_REQUEST_NULL;
    set_blocks(c);
}

static float *buffer(size_t floats)
{
    size_t bytes = (floats * sizeof(float) + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    float *memory = aligned_alloc(ALIGNMENT, bytes);
    if (!memory) {
        fprintf(stderr, "tutti-bench: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(memory, 0, bytes);
    return memory;
}

/* Measures and prints one cell. Returns 0 when larger ones should not be tried. */
static int run_cell(enum kind kind, enum form form, size_t bytes, const struct options *options)
{
    static const char *const prefixes[] = {"", "i", "p"};
    struct cell c;
    double times[BATCHES], whole;
    long total;
    new_cell(&c, kind, form, bytes);
    size_t blocks = kind >= ALLGATHER && kind <= REDUCE_SCATTER ? (size_t)c.ranks : 1;
    if (bytes * blocks > MEMORY_LIMIT)
        return 0;
    c.out = buffer(blocks * (size_t)c.count);
    c.in = buffer(blocks * (size_t)c.count);
    write_data(&c);
    if (form == PERSISTENT)
        plan(&c);
    long iterations = calibrate(&c, options, &whole);
    int slow = whole > options->limit_s, batches = slow ? 1 : BATCHES;
    for (int i = 0; i < batches; i++)
        times[i] = measure(&c, options->changing, iterations, &whole);
    qsort(times, (size_t)batches, sizeof *times, ascending);
    check_sample(&c);
    if (c.persistent != MPI_REQUEST_NULL)
        MPI_Request_free(&c.persistent);
    MPI_Reduce(&c.wrong, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (c.rank == 0) {
        printf("cell op=%s%s mode=%s ranks=%d bytes=%zu us=%.4f iterations=%ld wrong=%ld%s\n", prefixes[form],
               NAMES[kind], options->changing ? "changing" : "plain", c.ranks, bytes,
               times[batches / 2] * 1e6, iterations * batches, total, c.sink < 0 ? " " : "");
        fflush(stdout);
    }
    free(c.out);
    free(c.in);
    return !slow;
}

static int find(const char *name, enum kind *kind, enum form *form)
{
    for (int prefix = 0; prefix < 3; prefix++)
        for (int i = 0; i < KINDS; i++)
            if (prefix == 0 ? !strcmp(name, NAMES[i])
                            : name[0] == " ip"[prefix] && i >= BARRIER && !strcmp(name + 1, NAMES[i])) {
                *kind = (enum kind)i;
                *form = (enum form)prefix;
                return 1;
            }
    return 0;
}

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "tutti-bench: %s %s (see the head of tutti-bench.c)\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void run_op(const char *name, const struct options *options)
{
    enum kind kind = KINDS;
    enum form form = BLOCKING;
    if (!find(name, &kind, &form))
        refuse("no such operation:", name);
    if (kind == BARRIER) {
        run_cell(kind, form, 0, options);
        return;
    }
    for (const char *at = options->sizes; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        long bytes = atol(at);
        if (bytes < (long)sizeof(float) || bytes % (long)sizeof(float) || bytes > (1L << 30))
            refuse("a size is a multiple of 4 up to 1 GiB, not", at);
        if (!run_cell(kind, form, (size_t)bytes, options))
            return;
    }
}

static struct options parse(int argc, char **argv)
{
    struct options options = {NULL, "8", 0, 0.05 / BATCHES, 2};
    for (int i = 1; i < argc; i++) {
        char *next = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--changing")) {
            options.changing = 1;
            continue;
        }
        if (!next)
            refuse("missing value or unknown option:", argv[i]);
        else if (!strcmp(argv[i], "--op"))
            options.ops = next;
        else if (!strcmp(argv[i], "--sizes"))
            options.sizes = next;
        else if (!strcmp(argv[i], "--ms"))
            options.batch_s = atof(next) / 1000 / BATCHES;
        else if (!strcmp(argv[i], "--limit-ms"))
            options.limit_s = atof(next) / 1000;
        else
            refuse("unknown option:", argv[i]);
        i++;
    }
    if (!options.ops)
        refuse("missing option:", "--op");
    return options;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct options options = parse(argc, argv);
    for (char *name = strtok(options.ops, ","); name; name = strtok(NULL, ","))
        run_op(name, &options);
    MPI_Finalize();
    return 0;
}
