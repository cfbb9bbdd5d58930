//! Text before the first generated function: headers, and small helper functions.

use super::text::{Names, words};
use super::writer::Options;

/// Returns the name of the file at `path`, as it may stand in strings and comments.
pub fn file_name(path: &str) -> String {
    let is_plain = |letter: &char| letter.is_alphanumeric() || "._-+".contains(*letter);
    let name = path.rsplit('/').next().unwrap_or(path);
    name.chars().map(|letter| if is_plain(&letter) { letter } else { '_' }).collect()
}

/// Returns the headers and functions that `program` needs; the text ends with an empty line.
pub fn text(names: &mut Names, name: &str, options: Options, program: &str) -> String {
    let mode = if options.overlap { "" } else { " --no-overlap" };
    let filled = names.fill(TEXT);
    let mut parts: Vec<&str> = filled.split("\n\n").collect();
    let headers = parts.remove(0);
    // From the last to the first, as functions use those before them.
    let mut kept: Vec<&str> = Vec::new();
    for part in parts.into_iter().rev() {
        let defined = defined_name(part);
        if words(program).chain(kept.iter().flat_map(|part| words(part))).any(|(_, word)| word == defined) {
            kept.push(part);
        }
    }
    kept.reverse();
    format!("/* Made from {name} by tutti overlap{mode}. */\n{headers}\n\n{}\n\n", kept.join("\n\n"))
}

/// Returns the name of the function, structure or macro that a part of the text defines.
fn defined_name(part: &str) -> &str {
    if let Some((_, macro_text)) = part.split_once("#define ") {
        return macro_text.split([' ', '\n']).next().unwrap_or("");
    }
    let code = part.split("*/\n").last().unwrap_or(part);
    let head = code.lines().next().unwrap_or("");
    let before = head.split(['(', '{']).next().unwrap_or("").trim_end();
    before.trim_end_matches(';').rsplit([' ', '*']).next().unwrap_or("")
}

const TEXT: &str = r##"#include <mpi.h>
#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before innermost loops: how fast a short loop is would else depend on where its code lies. */
#if defined(__GNUC__) && !defined(__clang__)
#define $OVERLAP_UNROLL _Pragma("GCC unroll 4")
#else
#define $OVERLAP_UNROLL
#endif

static inline long $overlap_min(long a, long b)
{
    return a < b ? a : b;
}

static inline long $overlap_max(long a, long b)
{
    return a > b ? a : b;
}

/* a / b for positive b, rounded down. */
static inline long $overlap_floor(long a, long b)
{
    return a / b - (a % b < 0);
}

/* A region of the program, in a list of those of all its files, which is the same on all ranks. */
struct $overlap_region {
    void (*serve)(void);
    struct $overlap_region *next;
};
__attribute__((weak)) struct $overlap_region *$overlap_regions;

static void $overlap_add(struct $overlap_region *region)
{
    region->next = $overlap_regions;
    $overlap_regions = region;
}

/* Broadcasts memory of rank 0. */
static void $overlap_spread(void *values, size_t bytes)
{
    const size_t most = 1 << 30;
    for (char *at = values; bytes > 0;) {
        const size_t part = bytes < most ? bytes : most;
        MPI_Bcast(at, (int)part, MPI_BYTE, 0, MPI_COMM_WORLD);
        at += part;
        bytes -= part;
    }
}

/* Sends the values of a block to rank 0, or, on rank 0, receives them. */
static void $overlap_pass(void *values, size_t bytes, int rank, int block)
{
    const size_t most = 1 << 30;
    for (char *at = values; bytes > 0;) {
        const size_t part = bytes < most ? bytes : most;
        if (rank > 0)
            MPI_Send(at, (int)part, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
        else
            MPI_Recv(at, (int)part, MPI_BYTE, block, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        at += part;
        bytes -= part;
    }
}

/* Of unistd.h, other names of which may be names of the program. */
int getpid(void);

/* The process that has started MPI, and not one that it has forked. */
static int $overlap_process;

/* Ends MPI; rank 0 ends the other ranks, which wait for a region. */
static void $overlap_end(void)
{
    int rank, ended, none = -1;
    MPI_Finalized(&ended);
    if (ended || getpid() != $overlap_process)
        return;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        $overlap_spread(&none, sizeof none);
    MPI_Finalize();
}

/* Starts MPI once. Rank 0 goes on with the program; the others compute its regions until it ends. */
static void $overlap_start(void)
{
    int started, rank, provided, number;
    MPI_Initialized(&started);
    if (started)
        return;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    $overlap_process = getpid();
    atexit($overlap_end);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        return;
    for ($overlap_spread(&number, sizeof number); number >= 0; $overlap_spread(&number, sizeof number)) {
        const struct $overlap_region *region = $overlap_regions;
        while (number-- > 0)
            region = region->next;
        region->serve();
    }
    exit(0);
}

/* Has all ranks compute a region; rank 0 broadcasts what it needs, and computes too. */
static void $overlap_call(const struct $overlap_region *region)
{
    int number = 0;
    for (const struct $overlap_region *one = $overlap_regions; one != region; one = one->next)
        number++;
    $overlap_spread(&number, sizeof number);
}

/* The memory of an array that a region uses: from `begin` to `end`, of the array at `base`. */
struct $overlap_range {
    const char *name, *base, *begin, *end;
    int is_written;
};

/* Makes a range larger, so that it has what lies from `begin` to `end`. */
static void $overlap_widen(struct $overlap_range *range, const void *begin, const void *end)
{
    if (!range->begin || (const char *)begin < range->begin)
        range->begin = begin;
    if (!range->end || (const char *)end > range->end)
        range->end = end;
}

/* Prints why rank 0 computes a region alone, the first time. */
static int $overlap_alone(const char *where, const char *why)
{
    static const char *last;
    if (!last || strcmp(last, where) != 0)
        fprintf(stderr, "overlap: %s: %s: rank 0 computes the region alone\n", where, why);
    last = where;
    return 0;
}

/* Whether no array overlaps another in memory, where one of both is written. */
static int $overlap_are_apart(const struct $overlap_range *ranges, int count, const char *where)
{
    char why[400];
    for (int at = 0; at < count; at++) {
        for (int other = 0; other < at; other++) {
            const struct $overlap_range *a = &ranges[other], *b = &ranges[at];
            if ((a->is_written || b->is_written) && a->begin < b->end && b->begin < a->end) {
                snprintf(why, sizeof why, "%s and %s overlap in memory", a->name, b->name);
                return $overlap_alone(where, why);
            }
        }
    }
    return 1;
}

/* A number from the environment, at least `least`. */
static long $overlap_setting(const char *name, long least, long otherwise)
{
    const char *text = getenv(name);
    return $overlap_max(least, text ? atol(text) : otherwise);
}

/* Whether a distribution may be used: OVERLAP_SCHEME, if it is set, names the only one. */
static int $overlap_wanted(const char *scheme)
{
    const char *only = getenv("OVERLAP_SCHEME");
    return !only || strcmp(only, scheme) == 0;
}

/* The greatest power of two that is not above `number`, but at least 1. */
static long $overlap_power(long number)
{
    long power = 1;
    while (power <= number / 2)
        power *= 2;
    return power;
}

static void *$overlap_room(long bytes)
{
    void *room = calloc(1, (size_t)bytes + 1);
    if (!room) {
        fprintf(stderr, "overlap: no memory for %ld bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return room;
}

/* How to go through the steps: in tiles of `height` steps, computed `width` positions in a row; or, if
   that is 0, step by step, the inner part of each in `parts`. Results are the same, bit by bit. */
struct $overlap_way {
    long height, width, parts;
};

/* The ways that are tried, in tiles of up to `span` steps (OVERLAP_SPAN); after them the fastest is kept. */
struct $overlap_tuning {
    struct $overlap_way ways[8];
    double seconds[8], most[8], since;
    long span, tallest, began, from, last, stop;
    int count, turn, best, alone;
    MPI_Request requests[8];
};

/* No ways yet, for so many steps from `low` on: 64 spans, and no trials of less than 64. */
static struct $overlap_tuning $overlap_tuning(long low, long steps)
{
    struct $overlap_tuning tuning = {.stop = low, .last = low, .turn = -1};
    for (int at = 0; at < 8; at++)
        tuning.requests[at] = MPI_REQUEST_NULL;
    tuning.span = $overlap_setting("OVERLAP_SPAN", 0, steps / 64);
    return tuning;
}

/* Adds a way, if it is another one. */
static void $overlap_try(struct $overlap_tuning *tuning, struct $overlap_way way)
{
    for (int at = 0; at < tuning->count; at++)
        if (memcmp(&tuning->ways[at], &way, sizeof way) == 0)
            return;
    tuning->tallest = $overlap_max(tuning->tallest, way.height);
    tuning->seconds[tuning->count] = DBL_MAX;
    tuning->ways[tuning->count++] = way;
}

/* Adds the ways step by step: the inner part in one, or in 8 (OVERLAP_TESTS), between which messages are
   looked at. One rank has none to look at. */
static void $overlap_by_steps(struct $overlap_tuning *tuning, int ranks)
{
    const long parts = $overlap_setting("OVERLAP_TESTS", 0, 0);
    $overlap_try(tuning, (struct $overlap_way){0, 0, parts ? parts : 1});
    if (ranks > 1)
        $overlap_try(tuning, (struct $overlap_way){0, 0, parts ? parts : 8});
}

/* Adds the ways by tiles, which move left by `slope` positions a step, and gives the number of blocks,
   each at least slope * height + least wide. Sizes are powers of two (or OVERLAP_HEIGHT, OVERLAP_WIDTH),
   rows have at least `narrowest` positions. Without trials it is the greatest with two tiles in a block, and
   with them the greatest tried has four: a tile waits for the one before it on both sides. A rank alone waits
   for nobody: it goes by tiles of up to 16 steps, for what is in its cache. Of few steps, tiles are up to 8
   high all the same, and fewer ways are tried. */
static long $overlap_by_tiles(struct $overlap_tuning *tuning, long ranks, long positions, long slope, long least, long narrowest, long steps)
{
    static const int lower[2][6] = {{1, 1, 2, 2, 4, 8}, {1, 4, 1, 1, 1, 1}}, narrower[2][6] = {{8, 32, 8, 32, 16, 32}, {32, 32, 8, 8, 8, 8}};
    const long most = $overlap_max(1, $overlap_min(steps, (positions - least) / $overlap_max(1, slope)));
    const long height = $overlap_min(most, $overlap_setting("OVERLAP_HEIGHT", 0, 0)), width = $overlap_setting("OVERLAP_WIDTH", 0, 0);
    const long blocks = $overlap_max(1, $overlap_min(ranks, positions / (slope * $overlap_max(1, height) + least)));
    const long block = positions / blocks, room = (block - least) / ((tuning->span > 0 ? 4 : 2) * $overlap_max(1, slope));
    const long few = blocks == 1 ? 16 : $overlap_min(steps / (8 * ranks), tuning->span > 0 ? $overlap_max(8, tuning->span) : LONG_MAX);
    const long tallest = $overlap_power($overlap_min(room, few));
    tuning->alone = blocks == 1;
    const int ways = tuning->span == 0 || tuning->span >= 8 ? 6 : tuning->span >= 4 ? 4 : 2;
    for (int at = 0; at < ways && (tuning->count == 0 || $overlap_wanted("tiles")); at++) {
        const long high = $overlap_max(1, tallest / lower[tuning->alone][at]), parts = tuning->span > 0 || tuning->alone ? narrower[tuning->alone][at] : 2;
        const long wide = $overlap_max(narrowest, $overlap_power(block / parts));
        $overlap_try(tuning, (struct $overlap_way){height ? height : high, width ? width : wide, 0});
    }
    return blocks;
}

/* For how many steps a way is tried: three of its tiles (one, if nothing fills a pipeline; two of few steps),
   or a quarter of the span if that is longer; where each step is an exchange 64 are enough. More would cost
   too much. */
static long $overlap_row(const struct $overlap_tuning *tuning, long height)
{
    if (height == 0)
        return $overlap_max(2, $overlap_min(tuning->span / 2, 64));
    return tuning->alone ? $overlap_max(height, tuning->span / 4) : $overlap_min($overlap_max(2 * height, 3 * tuning->span), $overlap_max(3 * height, tuning->span / 4));
}

/* Which of the first `count` ways was the fastest, by the times of the slowest rank. */
static int $overlap_fastest(struct $overlap_tuning *tuning, int count)
{
    int best = 0;
    MPI_Waitall(count, tuning->requests, MPI_STATUSES_IGNORE);
    for (int at = 1; at < count; at++)
        if (tuning->most[at] < 0.98 * tuning->most[best])
            best = at;
    return best;
}

/* The way for the steps from `now` up to tuning->stop; `high` ends them all. Times of the slowest rank travel
   while the next way is tried, those of the last way while the fastest of the others is used. */
static struct $overlap_way $overlap_choose(struct $overlap_tuning *tuning, long now, long high)
{
    if (now < tuning->stop)
        return tuning->ways[tuning->best];
    const int tried = tuning->turn, count = tuning->count;
    tuning->turn = tuning->span > 0 && count > 1 ? tried + 1 : 9;
    tuning->since = tuning->alone ? MPI_Wtime() : 0;
    tuning->began = tuning->from = now;
    tuning->stop = high;
    MPI_Pcontrol(1, tuning->turn);
    if (tried >= 0 && tried < count)
        MPI_Iallreduce(&tuning->seconds[tried], &tuning->most[tried], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &tuning->requests[tried]);
    if (tuning->turn < count) {
        tuning->best = tuning->turn;
        tuning->stop = $overlap_min(high, now + $overlap_row(tuning, tuning->ways[tuning->turn].height));
    } else if (tuning->turn == count) {
        tuning->best = $overlap_fastest(tuning, count - 1);
        tuning->stop = $overlap_min(high, now + $overlap_max(1, tuning->span / 4));
    } else if (tuning->span > 0 && count > 1) {
        tuning->best = $overlap_fastest(tuning, count);
    }
    return tuning->ways[tuning->best];
}

/* Whether the next row goes by tiles too, as far as that is known. */
static int $overlap_goes_on(const struct $overlap_tuning *tuning, long high)
{
    return tuning->stop < high && tuning->turn + 1 < tuning->count && tuning->ways[tuning->turn + 1].height > 0;
}

/* Notes that the steps before `done` are over, the last ones since `from`. The first of a row do not count,
   which fill the pipeline: one tile, or, step by step, the first half, which fills the caches.
   All of a rank alone do. */
static void $overlap_note(struct $overlap_tuning *tuning, long from, long done)
{
    tuning->last = from;
    if (tuning->turn >= tuning->count || (tuning->ways[tuning->turn].height == 0 && done - tuning->began < tuning->stop - done))
        return;
    const double now = MPI_Wtime();
    if (tuning->since > 0) {
        tuning->seconds[tuning->turn] = (now - tuning->since) / (double)(done - tuning->from);
    } else {
        tuning->since = now;
        tuning->from = done;
    }
}

/* Prints the way that is kept. */
static void $overlap_show(const struct $overlap_tuning *tuning)
{
    const struct $overlap_way *way = &tuning->ways[tuning->best];
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && way->height)
        fprintf(stderr, "overlap: tiles of %ld steps, %ld positions in a row\n", way->height, way->width);
    else if (rank == 0)
        fprintf(stderr, "overlap: step by step, the inner part in %ld\n", way->parts);
}

/* Prints how long the slowest rank took for each, and which share of what can be hidden was hidden. */
static void $overlap_table(const char *what, const double *seconds)
{
    double most[4];
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Reduce(seconds, most, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank > 0)
        return;
    double less = most[1] < most[2] ? most[1] : most[2];
    fprintf(stderr, "overlap: %s, %d ranks\nT_comp   %10.6f s\nT_comm   %10.6f s\nT_exec   %10.6f s\n", what, ranks, most[1], most[2],
            most[0]);
    fprintf(stderr, "ROR      %10.1f %%\n", less > 0 ? 100 * (most[1] + most[2] - most[0]) / less : 100);
}

/* A message of at most `length` elements, in two buffers that are used in turn. */
struct $overlap_message {
    void *values[2];
    MPI_Request request[2];
};

static void $overlap_open(struct $overlap_message *message, int to, int from, long length, size_t size, MPI_Datatype type, int tag)
{
    if (length > INT_MAX) {
        fprintf(stderr, "overlap: a message of %ld elements is too long\n", length);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int turn = 0; turn < 2; turn++) {
        message->values[turn] = $overlap_room(length * (long)size);
        if (from == MPI_PROC_NULL)
            MPI_Send_init(message->values[turn], (int)length, type, to, tag, MPI_COMM_WORLD, &message->request[turn]);
        else
            MPI_Recv_init(message->values[turn], (int)length, type, from, tag, MPI_COMM_WORLD, &message->request[turn]);
    }
}

/* Waits for message `n` of a row to be received, or for its buffer to be free to send; the buffer. */
static void *$overlap_wait(struct $overlap_message *message, long n)
{
    MPI_Wait(&message->request[n % 2], MPI_STATUS_IGNORE);
    return message->values[n % 2];
}

/* Starts message `n` of a row of `count`. */
static void $overlap_go(struct $overlap_message *message, long n, long count)
{
    if (n < count)
        MPI_Start(&message->request[n % 2]);
}

/* Lets the messages make progress. */
static void $overlap_look(struct $overlap_message *messages, int count)
{
    int done;
    for (int at = 0; at < 2 * count; at++)
        MPI_Test(&messages[at / 2].request[at % 2], &done, MPI_STATUS_IGNORE);
}

/* Where block number `block` begins: borders divide [first, past), the first block begins at `head`,
   the last ends at `tail`. */
static inline long $overlap_border(long head, long first, long past, long tail, long block, long blocks)
{
    if (block == 0)
        return head;
    return block < blocks ? first + (past - first) * block / blocks : tail;
}

/* Sends `values` to one neighbour, frees them, and gives what the other one sent. */
static void *$overlap_swap(void *values, long sent, int to, long received, int from, size_t size, MPI_Datatype type)
{
    void *other = $overlap_room(received * (long)size);
    if ($overlap_max(sent, received) > INT_MAX) {
        fprintf(stderr, "overlap: a message of %ld elements is too long\n", $overlap_max(sent, received));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Sendrecv(values, (int)sent, type, to, 2, other, (int)received, type, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(values);
    return other;
}

static void $overlap_close(struct $overlap_message *message)
{
    for (int turn = 0; turn < 2; turn++) {
        MPI_Wait(&message->request[turn], MPI_STATUS_IGNORE);
        MPI_Request_free(&message->request[turn]);
        free(message->values[turn]);
    }
}

/* A row of `count` tiles of `height` steps, of which `downs` send to the left neighbour, and its messages. */
struct $overlap_tiles {
    long height, count, downs;
    struct $overlap_message up_out, up_in, down_out, down_in;
};

/* Ends a row, when what it has sent has arrived. */
static void $overlap_end_row(struct $overlap_tiles *row)
{
    if (row->count == 0)
        return;
    $overlap_close(&row->up_out);
    $overlap_close(&row->up_in);
    $overlap_close(&row->down_out);
    $overlap_close(&row->down_in);
}"##;
