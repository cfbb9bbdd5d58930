/* The benchmark of `tutti bench`, `compare`, `headlines` and `consistency`: plain MPI, no extension, any library.
 *
 * usage: tutti-bench --op NAME[,NAME...] --sizes BYTES[,BYTES...] [--changing] [--ms MS] [--limit-ms MS]
 *        tutti-bench --serve PREFIX
 *
 *   --op        latency bandwidth bibandwidth barrier bcast reduce allreduce scan exscan gather(v) scatter(v)
 *               allgather(v) alltoall(v,w) reduce_scatter(_block); a collective with `i` before its name is the
 *               non-blocking one, started and waited for; with `p` the persistent one.
 * pingpong: a message from the first rank to the last and back; ring: every rank sends to the next one and
 * receives from the previous one; bcast_rotating: the root is another rank each time. put, get, accumulate
 * and fetch_and_op (of 8 bytes) of a rank with the memory of its partner, each with a flush, under
 * MPI_Win_lock_all; put_ring: every rank puts into the memory of the next one. Their data stay the same in
 * both modes. Without MPI: line (a cache line there and back, one way), copy_bcast and copy_allgather (copies
 * out of shared memory). Two blocking ones with their bytes, reduce@64+bcast@64, are one after the other rate
 * is the share of a message when eight threads of each rank send windows at once (rate-bench.c)
 *   --sizes     bytes (K and M allowed) of a message, of the vector of bcast, reduce, allreduce, scan, or of one rank's block; blocks of
 *               gatherv, scatterv, allgatherv, alltoallv, alltoallw and reduce_scatter are a quarter longer or shorter
 *   --changing  all data are written afresh before each iteration and read after it
 *   --ms        time for one cell (an operation with one size), about
 *   --limit-ms  an operation slower than this is measured once, and not with larger sizes
 *   --serve     each rank reads cells from a pipe of its own, PREFIX.RANK, which it makes: lines of
 *               NAME plain|changing BYTES MS LIMIT_MS. Ranks sleep in read(2) between two cells, so that the jobs of
 *               several libraries can take turns cell by cell. Rank 0 says `ready` once and `done` after each cell
 *
 * One line a cell: `cell op=.. mode=.. ranks=.. bytes=.. us=.. least=.. iterations=.. wrong=..`
 *
 * us is the time that the operation takes: half a round trip for latency, a message's share of a
 * window of 64 for bandwidth, the slowest rank's time of a collective; in mode changing less the time in
 * which the data are written and read. A cell is measured in 5 batches, fewer if it is slow; us is the median batch,
 * least the fastest. In mode changing many values are compared once a cell, a few in every iteration.
 *
 * Messages go between ranks 2i and 2i+1, all pairs at once. As in other benchmarks a window is sent from
 * one buffer and received in one buffer. Cells of up to 16 MiB use the same two buffers, as programs do.
 */
#define _GNU_SOURCE
#include "operations.h"
#include "one_sided.h"
#include "threads.h"
#include "reference.h"
#include "serve.h"
#include <stdio.h>

#define WINDOW 64
#define BATCHES 5
#define ALIGNMENT 4096
#define KEPT_BYTES ((size_t)16 << 20)
#define MEMORY_LIMIT ((size_t)160 << 20) /* bytes of one buffer; larger cells are left out */
#define CHECK_STEPS 50000

struct options {
    char *ops, *sizes, *serve;
    int changing;
    double batch_s, limit_s;
};

static struct reference reference;

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
    check_data(c, 2);
    c->touching_s += MPI_Wtime() - start;
}

static void ping_pong(struct cell *c, int changing)
{
    if (c->partner == MPI_PROC_NULL)
        return;
    if (c->rank < c->partner) {
        touch_out(c, changing);
        MPI_Send(c->out, c->count, MPI_FLOAT, c->partner, 1, MPI_COMM_WORLD);
    }
    MPI_Recv(c->in, c->count, MPI_FLOAT, c->partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    touch_in(c, changing);
    if (c->rank > c->partner) {
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

static void around_the_ring(struct cell *c, int changing)
{
    touch_out(c, changing);
    MPI_Sendrecv(c->out, c->count, MPI_FLOAT, neighbour(c, 1), 5, c->in, c->count, MPI_FLOAT, neighbour(c, -1), 5, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    touch_in(c, changing);
}

/* Before a broadcast whose data change: what the others read must have come from its root. */
static void new_broadcast(struct cell *c)
{
    c->source = c->root;
    if (c->rank != c->root)
        c->out[0] = -1;
}

static void iterate(struct cell *c, int changing, long iterations)
{
    for (long i = 0; i < iterations; i++) {
        if (c->kind == RATE) {
            thread_turn(c, iterations);
            return;
        }
        if (is_one_sided(c->kind)) {
            one_sided(c);
            continue;
        }
        c->seed += (unsigned)changing;
        if (c->kind == LATENCY || c->kind == PINGPONG) {
            ping_pong(c, changing);
        } else if (c->kind == RING) {
            around_the_ring(c, changing);
        } else if (c->kind == BANDWIDTH || c->kind == BIBANDWIDTH) {
            windows(c, changing);
        } else {
            touch_out(c, changing);
            if (is_bcast(c) && changing)
                new_broadcast(c);
            if (c->kind < BARRIER) {
                reference_turn(&reference, c);
            } else if (c->form == BLOCKING) {
                collective(c, NULL);
                if (c->next)
                    collective(c->next, NULL);
            } else {
                MPI_Request request = c->persistent;
                if (c->form == NONBLOCKING)
                    collective(c, &request);
                else
                    MPI_Start(&request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            }
            touch_in(c, changing);
            if (c->kind == BCAST_ROTATING)
                c->root = (c->root + 1) % c->ranks;
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
    if (c->kind == LATENCY || c->kind == PINGPONG || c->kind == LINE)
        times[1] /= 2;
    if (c->kind == BANDWIDTH || c->kind == BIBANDWIDTH)
        times[1] /= c->window;
    if (c->kind == RATE)
        times[1] /= c->window * THREADS;
    MPI_Allreduce(times, slowest, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *whole = slowest[0] / (double)iterations;
    return slowest[1] / (double)iterations;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds that an iteration of a cell took at its best: a server need not find out again. */
struct known {
    char name[64];
    size_t bytes;
    int changing;
    double whole;
};
static struct known *known;
static size_t knowns;

static struct known *recall(const struct cell *c, int changing)
{
    struct known *k;
    for (size_t i = 0; i < knowns; i++)
        if (!strcmp(known[i].name, c->name) && known[i].bytes == c->bytes && known[i].changing == changing)
            return &known[i];
    known = realloc(known, (knowns + 1) * sizeof *known);
    if (!known)
        MPI_Abort(MPI_COMM_WORLD, 2);
    k = &known[knowns++];
    snprintf(k->name, sizeof k->name, "%s", c->name);
    k->bytes = c->bytes, k->changing = changing, k->whole = 0;
    return k;
}

/* Seconds an iteration at its best: what a batch is sized by must not be an accident. The number of iterations is doubled
 * until half a batch is filled; this warms up and is not counted. */
static double calibrate(struct cell *c, const struct options *options)
{
    double whole, best;
    measure(c, options->changing, 1, &best);
    for (long iterations = 1; best < options->limit_s && iterations < 10000000; iterations *= 2) {
        measure(c, options->changing, iterations, &whole);
        best = whole < best ? whole : best;
        if (best * (double)iterations > options->batch_s / 2)
            break;
    }
    return best;
}

/* The same, found out now or before; either way the cell is warm afterwards. */
static double warm_up(struct cell *c, const struct options *options)
{
    struct known *k = recall(c, options->changing);
    double whole;
    if (k->whole <= 0)
        return k->whole = calibrate(c, options);
    long iterations = (long)(options->batch_s / 4 / k->whole);
    measure(c, options->changing, iterations < 1 ? 1 : iterations, &whole);
    return k->whole = whole < k->whole ? whole : k->whole;
}

static void new_cell(struct cell *c, const char *name, enum kind kind, enum form form, size_t bytes)
{
    memset(c, 0, sizeof *c);
    c->name = name;
    MPI_Comm_rank(MPI_COMM_WORLD, &c->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &c->ranks);
    c->kind = kind;
    c->form = form;
    c->bytes = bytes;
    c->count = (int)(bytes / sizeof(float));
    c->partner = (c->rank ^ 1) < c->ranks ? c->rank ^ 1 : MPI_PROC_NULL;
    if (kind == PINGPONG && c->ranks > 1) /* between the two ends */
        c->partner = c->rank % (c->ranks - 1) == 0 ? c->ranks - 1 - c->rank : MPI_PROC_NULL;
    c->window = bytes > (4 << 20) ? WINDOW / 4 : WINDOW;
    c->persistent = MPI_REQUEST_NULL;
    lay_out(c, 0, &c->given);
    lay_out(c, 1, &c->gotten);
}

static float *new_buffer(size_t bytes)
{
    float *memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT);
    if (!memory) {
        fprintf(stderr, "tutti-bench: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    memset(memory, 0, bytes);
    return memory;
}

static float *kept[2];

static float *buffer(int which, size_t bytes)
{
    if (bytes > KEPT_BYTES)
        return new_buffer(bytes);
    if (!kept[which])
        kept[which] = new_buffer(KEPT_BYTES);
    return kept[which];
}

static void free_buffer(float *memory)
{
    if (memory != kept[0] && memory != kept[1])
        free(memory);
}

static int is_reference(enum kind kind)
{
    return kind == LINE || kind == COPY_BCAST || kind == COPY_ALLGATHER;
}

/* The memory of a cell, filled. Returns 0 if it would be too much at some rank. */
static int make_buffers(struct cell *c)
{
    unsigned long most, floats = c->given.floats > c->gotten.floats ? c->given.floats : c->gotten.floats;
    if (floats < (unsigned long)c->count)
        floats = (unsigned long)c->count; /* a broadcast's receivers */
    MPI_Allreduce(&floats, &most, 1, MPI_UNSIGNED_LONG, MPI_MAX, MPI_COMM_WORLD);
    if (most * sizeof(float) > MEMORY_LIMIT)
        return 0;
    if (is_reference(c->kind)) {
        reference_open(&reference, c);
        c->out = region(&reference, c->rank);
    } else {
        c->out = buffer(0, floats * sizeof(float));
    }
    c->in = buffer(1, floats * sizeof(float));
    if (is_one_sided(c->kind))
        expose(c, c->bytes);
    write_data(c);
    if (is_one_sided(c->kind))
        exposed(c);
    return 1;
}

static void free_buffers(struct cell *c)
{
    if (is_one_sided(c->kind))
        withdraw(c);
    if (is_reference(c->kind))
        reference_close(&reference);
    else if (!is_one_sided(c->kind) || c->out != c->exposed)
        free_buffer(c->out);
    if (!is_one_sided(c->kind) || c->in != c->exposed)
        free_buffer(c->in);
}

static void print_cell(const struct cell *c, int changing, const double *times, int batches, long iterations, long wrong)
{
    printf("cell op=%s mode=%s ranks=%d bytes=%zu us=%.4f least=%.4f iterations=%ld wrong=%ld%s\n",
           c->name, changing ? "changing" : "plain", c->ranks, c->bytes, times[batches / 2] * 1e6,
           times[0] * 1e6, iterations * batches, wrong, c->sink < 0 ? " " : "");
    fflush(stdout);
}

/* Measures and prints a cell that has its memory. Returns the seconds of an iteration. */
static double run_batches(struct cell *c, const struct options *options)
{
    double times[BATCHES], whole;
    long total = 0;
    if (c->form == PERSISTENT)
        collective(c, &c->persistent);
    whole = warm_up(c, options);
    long iterations = whole < options->batch_s ? (long)(options->batch_s / whole) : 1;
    int batches = whole > 5 * BATCHES * options->batch_s ? 1 : whole > BATCHES * options->batch_s ? 3 : BATCHES;
    for (int i = 0; i < batches; i++)
        times[i] = measure(c, options->changing, iterations, &whole);
    qsort(times, (size_t)batches, sizeof *times, ascending);
    if (!c->next) /* two operations share buffers */
        check_data(c, options->changing ? CHECK_STEPS : 2);
    if (c->persistent != MPI_REQUEST_NULL)
        MPI_Request_free(&c->persistent);
    MPI_Reduce(&c->wrong, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (c->rank == 0)
        print_cell(c, options->changing, times, batches, iterations, total);
    return whole;
}

static void end_cell(struct cell *c, int with_buffers)
{
    if (with_buffers)
        free_buffers(c);
    release(&c->given);
    release(&c->gotten);
}

/* One operation. Returns 0 when larger ones should not be tried. */
static int run_cell(const char *name, enum kind kind, enum form form, size_t bytes, const struct options *options)
{
    struct cell c;
    double whole = 0;
    new_cell(&c, name, kind, form, bytes);
    int fits = make_buffers(&c);
    if (fits)
        whole = run_batches(&c, options);
    end_cell(&c, fits);
    return fits && whole <= options->limit_s;
}

static int find(const char *name, enum kind *kind, enum form *form)
{
    for (int prefix = 0; prefix < 3; prefix++)
        for (int i = 0; i < KINDS; i++)
            if (prefix == 0 ? !strcmp(name, NAMES[i])
                            : name[0] == " ip"[prefix] && i >= BARRIER && !strcmp(name + 1, NAMES[i])) {
                *kind = (enum kind)i;
                *form = (enum form)prefix;
                return *kind != BCAST_ROTATING || *form != PERSISTENT; /* whose root is fixed */
            }
    return 0;
}

static void refuse(const char *what, const char *value)
{
    fprintf(stderr, "tutti-bench: %s %s (see the head of tutti-bench.c)\n", what, value);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static size_t size_of(const char *text)
{
    char *end;
    long bytes = strtol(text, &end, 10);
    if (bytes > 0 && bytes < 1L << 31 && (*end == 'K' || *end == 'M'))
        bytes <<= *end++ == 'K' ? 10 : 20;
    if (*end && *end != ',')
        refuse("a size is a number, with K or M behind it if need be, not", text);
    if (bytes < (long)sizeof(float) || bytes % (long)sizeof(float) || bytes > (1L << 30))
        refuse("a size is a multiple of 4 up to 1 GiB, not", text);
    return (size_t)bytes;
}

/* One operation after the other, each with its own size; named and listed with the given size. */
static void run_pair(const char *name, const struct options *options)
{
    struct cell cells[2];
    char words[2][32], sizes[2][32];
    enum kind kind = KINDS;
    enum form form = BLOCKING;
    int fits[2];
    if (sscanf(name, "%31[a-z_]@%31[0-9KM]+%31[a-z_]@%31[0-9KM]", words[0], sizes[0], words[1], sizes[1]) != 4)
        refuse("not two operations:", name);
    for (int i = 0; i < 2; i++) {
        if (!find(words[i], &kind, &form) || form != BLOCKING || kind < BARRIER)
            refuse("not a blocking collective:", words[i]);
        new_cell(&cells[i], name, kind, form, size_of(sizes[i]));
        fits[i] = make_buffers(&cells[i]);
    }
    cells[0].next = &cells[1];
    cells[0].bytes = size_of(options->sizes);
    if (fits[0] && fits[1])
        run_batches(&cells[0], options);
    for (int i = 0; i < 2; i++)
        end_cell(&cells[i], fits[i]);
}

static void run_op(const char *name, const struct options *options)
{
    enum kind kind = KINDS;
    enum form form = BLOCKING;
    if (strchr(name, '+')) {
        run_pair(name, options);
        return;
    }
    if (!find(name, &kind, &form))
        refuse("no such operation:", name);
#ifndef WITH_THREADS
    if (kind == RATE)
        refuse("threads are measured by rate-bench.c, not here:", name);
#endif
    if (kind == BARRIER || kind == LINE || kind == FETCH_AND_OP) {
        run_cell(name, kind, form, 0, options);
        return;
    }
    for (const char *at = options->sizes; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!run_cell(name, kind, form, size_of(at), options))
            return;
}

/* Measures a cell that was requested through the pipe. */
static void run_asked(const struct ask *ask)
{
    struct options options = {NULL, (char *)ask->size, NULL, !strcmp(ask->mode, "changing"), ask->ms / 1000 / BATCHES,
                              ask->limit_ms / 1000};
    run_op(ask->name, &options);
}

static struct options parse(int argc, char **argv)
{
    struct options options = {NULL, "8", NULL, 0, 0.05 / BATCHES, 2};
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
        else if (!strcmp(argv[i], "--serve"))
            options.serve = next;
        else if (!strcmp(argv[i], "--ms"))
            options.batch_s = atof(next) / 1000 / BATCHES;
        else if (!strcmp(argv[i], "--limit-ms"))
            options.limit_s = atof(next) / 1000;
        else
            refuse("unknown option:", argv[i]);
        i++;
    }
    if (!options.ops && !options.serve)
        refuse("missing option:", "--op or --serve");
    return options;
}

int main(int argc, char **argv)
{
#ifdef WITH_THREADS
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE)
        refuse("threads are", "not supported");
    open_threads();
#else
    MPI_Init(&argc, &argv);
#endif
    struct options options = parse(argc, argv);
    if (options.serve)
        serve(options.serve, run_asked);
    else
        for (char *name = strtok(options.ops, ","); name; name = strtok(NULL, ","))
            run_op(name, &options);
#ifdef WITH_THREADS
    close_threads();
#endif
    MPI_Finalize();
    return 0;
}
