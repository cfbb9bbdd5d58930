/* Random collectives against values computed from a seed: all operations, forms, roots, communicators,
 * datatypes, operators, in place or not, on memory that comes and goes.
 *
 * usage: coll_stress [SECONDS [SEED [MOST_COMMUNICATORS [LONGEST_INTS [LEAST_OPERATIONS]]]]]
 *
 * All ranks draw the same random numbers, so each knows what every rank does. Content is a function of seed,
 * operation, rank and place. Non-blocking operations stay outstanding across others, persistent ones are
 * started several times. A fault names the operation; the same arguments on the same number of ranks do the
 * same again.
 */
#include "check.h"
#include "random.h"
#include "stress_memory.h"
#include <signal.h>

enum { SLOTS = 8, MOST_PENDING = 10, MOST_RANKS = 64, MOST_CROWD = 1000, HANGS_S = 60, UNIT = 6 };

/* ---- datatypes: each a pattern of ints within an extent ---- */

struct pattern {
    int ints, extent, at[UNIT];
    MPI_Datatype type;
};

enum { PLAIN, CONTIGUOUS, VECTOR, STRUCT, TYPES, PAIR = TYPES, GAPPED_PAIR, PATTERNS };
static struct pattern patterns[PATTERNS] = {
    {1, 1, {0}, 0}, {3, 3, {0, 1, 2}, 0}, {6, 11, {0, 1, 4, 5, 8, 9}, 0}, {3, 5, {0, 2, 3}, 0}, {2, 2, {0, 1}, 0}, {2, 4, {0, 2}, 0}};

static MPI_Datatype resized(MPI_Datatype old, int extent)
{
    MPI_Datatype type;
    MPI_Type_create_resized(old, 0, extent * (MPI_Aint)sizeof(int), &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&old);
    return type;
}

static void make_types(void)
{
    int lengths[2] = {1, 2};
    MPI_Aint where[2] = {0, 2 * sizeof(int)};
    MPI_Datatype parts[2] = {MPI_INT, MPI_INT}, old;
    patterns[PLAIN].type = MPI_INT;
    MPI_Type_contiguous(3, MPI_INT, &old);
    patterns[CONTIGUOUS].type = resized(old, 3);
    MPI_Type_vector(3, 2, 4, MPI_INT, &old);
    patterns[VECTOR].type = resized(old, 11);
    MPI_Type_create_struct(2, lengths, where, parts, &old);
    patterns[STRUCT].type = resized(old, 5);
    MPI_Type_contiguous(2, MPI_INT, &old);
    patterns[PAIR].type = resized(old, 2);
    MPI_Type_vector(2, 1, 2, MPI_INT, &old);
    patterns[GAPPED_PAIR].type = resized(old, 4);
}

static size_t place_of(const struct pattern *p, int i)
{
    return (size_t)(i / p->ints) * (size_t)p->extent + (size_t)p->at[i % p->ints];
}

/* ---- operators ---- */

enum { SUM, MAX, XOR, OWN_SUM, COMPOSE, COMPOSE_GAPPED, OPERATORS };
static MPI_Op operators[OPERATORS];

static void own_sum(void *left, void *right, int *count, MPI_Datatype *type)
{
    int *l = left, *r = right;
    (void)type;
    for (int i = 0; i < *count; i++)
        r[i] = (l[i] + r[i]) % 65521;
}

/* Composes (a, b) after (c, d): x -> a(cx + d) + b modulo a prime. The operation does not commute. */
static void compose(int *l, int *r, int second)
{
    long a = l[0], b = l[second], c = r[0], d = r[second];
    r[0] = (int)(a * c % 65521);
    r[second] = (int)((a * d + b) % 65521);
}

static void compose_pairs(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        compose((int *)left + 2 * i, (int *)right + 2 * i, 1);
}

static void compose_gapped(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        compose((int *)left + 4 * i, (int *)right + 4 * i, 2);
}

static void make_operators(void)
{
    operators[SUM] = MPI_SUM, operators[MAX] = MPI_MAX, operators[XOR] = MPI_BXOR;
    MPI_Op_create(own_sum, 1, &operators[OWN_SUM]);
    MPI_Op_create(compose_pairs, 0, &operators[COMPOSE]);
    MPI_Op_create(compose_gapped, 0, &operators[COMPOSE_GAPPED]);
}

static int combine(int how, int left, int right)
{
    return how == SUM ? left + right : how == MAX ? (left > right ? left : right) : how == XOR ? left ^ right : (left + right) % 65521;
}

/* ---- communicators ---- */

/* A slot holds one communicator a process at most; processes of one slot may be in different ones. */
struct slot {
    MPI_Comm comm;
    int size, rank, users;
};
static struct slot slots[SLOTS];
static MPI_Comm crowd[MOST_CROWD];
static int crowded, most_crowd = 200;

static void set_slot(struct slot *s, MPI_Comm comm)
{
    s->comm = comm;
    s->size = s->rank = 0;
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_size(comm, &s->size);
        MPI_Comm_rank(comm, &s->rank);
    }
}

/* Creates a communicator in a slot that no operation uses. Slot 0 stays the world. */
static void new_communicator(void)
{
    int to = 1 + (int)draw(SLOTS - 1), from = (int)draw(SLOTS), how = (int)draw(5);
    unsigned salt = draw(1 << 20);
    struct slot *s = &slots[to], *parent = &slots[to == from ? 0 : from];
    MPI_Comm comm = MPI_COMM_NULL;
    if (s->users)
        return;
    if (s->comm != MPI_COMM_NULL)
        MPI_Comm_free(&s->comm);
    if (parent->comm != MPI_COMM_NULL) {
        int colour = (int)(mix(salt + (unsigned)check_rank) % 3), odd = check_rank % 2;
        if (how == 0) {
            MPI_Comm_dup(parent->comm, &comm);
        } else if (how == 1) {
            MPI_Comm_split(parent->comm, odd, -check_rank, &comm);
        } else if (how == 2) {
            MPI_Comm_split(parent->comm, colour ? 1 : MPI_UNDEFINED, (int)(mix(salt * 7u + (unsigned)check_rank) % 100), &comm);
        } else if (how == 3) {
            MPI_Comm_split(parent->comm, 0, -check_rank, &comm);
        } else {
            MPI_Group all, some;
            int range[1][3] = {{parent->size - 1, parent->size / 3, -1}};
            MPI_Comm_group(parent->comm, &all);
            MPI_Group_range_incl(all, 1, range, &some);
            MPI_Comm_create(parent->comm, some, &comm);
            MPI_Group_free(&all);
            MPI_Group_free(&some);
        }
    }
    set_slot(s, comm);
}

/* Keeps many communicators alive and uses each a little. */
static void crowd_turn(void)
{
    if (crowded + 8 <= most_crowd) {
        for (int i = 0; i < 8; i++)
            MPI_Comm_dup(MPI_COMM_WORLD, &crowd[crowded++]);
    } else {
        for (int i = 0; i < most_crowd / 2; i++) {
            int at = (int)draw((unsigned)crowded);
            MPI_Comm_free(&crowd[at]);
            crowd[at] = crowd[--crowded];
        }
    }
    for (int i = 0; i < 6; i++) {
        int at = (int)draw((unsigned)crowded), mine = check_rank + at, sum = -1;
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, crowd[at]);
        CHECK_EQUAL(sum, check_size * at + check_size * (check_size - 1) / 2);
    }
}

/* ---- operations ---- */

enum kind {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE, ALLREDUCE,
    BLOCKS, PIECES, SCAN, EXSCAN, KINDS
};
static const char *const names[] = {"barrier", "bcast", "gather", "gatherv", "scatter", "scatterv", "allgather", "allgatherv",
                                    "alltoall", "alltoallv", "alltoallw", "reduce", "allreduce", "reduce_scatter_block",
                                    "reduce_scatter", "scan", "exscan"};

/* One of the two buffers of an operation: blocks of elements of one type. */
struct side {
    const struct pattern *pattern;
    int blocks, counts[MOST_RANKS], at[MOST_RANKS], bytes[MOST_RANKS]; /* elements; places in elements and in bytes */
    MPI_Datatype types[MOST_RANKS];
    int elements;
    struct memory memory;
    int *ints;
};

struct job {
    MPI_Request request;
    enum kind kind;
    int slot, root, units, how, form, in_place, runs; /* form 0 blocking, 1 non-blocking, 2 persistent */
    uint64_t id;
    struct side out, in;
};
static struct job *pending[MOST_PENDING];
static int pendings, longest = 1 << 17;
static const struct job *current;

static int value(const struct job *j, int rank, int place)
{
    return (int)(mix(j->id * 1000003u + (uint64_t)rank * 8191 + (uint64_t)place + seed * 77) % 65521);
}

static void wrong(const struct job *j, int at, int got, int wanted)
{
    const struct slot *s = &slots[j->slot];
    check_say(__FILE__, __LINE__,
              "seed %llu, operation %llu: %s, form %d, slot %d (rank %d of %d), root %d, %d ints, operator %d, in place %d, types %d "
              "%d, memory %d %d: int %d is %d, not %d",
              (unsigned long long)seed, (unsigned long long)j->id, names[j->kind], j->form, j->slot, s->rank, s->size, j->root, j->units * UNIT,
              j->how, j->in_place, (int)(j->out.pattern - patterns), (int)(j->in.pattern - patterns), j->out.memory.source,
              j->in.memory.source, at, got, wanted);
}

static int reduces(enum kind kind)
{
    return kind >= REDUCE;
}

/* Ints that go from one rank to another. */
static int part(const struct job *j, int from, int to)
{
    int low = from < to ? from : to, high = from < to ? to : from;
    switch (j->kind) {
    case GATHERV: case ALLGATHERV: low = high = from; break;
    case SCATTERV: case PIECES: low = high = to; break;
    case ALLTOALLV: case ALLTOALLW: break;
    default: return j->units * UNIT;
    }
    return j->units ? (int)(mix(j->id * 31 + (uint64_t)(low * MOST_RANKS + high)) % (uint64_t)(j->units + 1)) * UNIT : 0;
}

static int irregular(enum kind kind)
{
    return kind == GATHERV || kind == SCATTERV || kind == ALLGATHERV || kind == ALLTOALLV || kind == ALLTOALLW;
}

/* Ints of a block that this rank gives (gotten 0) or gets. */
static int block_ints(const struct job *j, int gotten, int block)
{
    int me = slots[j->slot].rank;
    switch (j->kind) {
    case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV: return part(j, gotten ? block : me, 0);
    case SCATTER: case SCATTERV: case BLOCKS: case PIECES: return part(j, 0, gotten ? me : block);
    default: return gotten ? part(j, block, me) : part(j, me, block);
    }
}

static int blocks_of(const struct job *j, int gotten)
{
    int size = slots[j->slot].size;
    switch (j->kind) {
    case GATHER: case GATHERV: case ALLGATHER: case ALLGATHERV: return gotten ? size : 1;
    case SCATTER: case SCATTERV: case BLOCKS: case PIECES: return gotten ? 1 : size;
    case ALLTOALL: case ALLTOALLV: case ALLTOALLW: return size;
    case BARRIER: return 0;
    default: return 1;
    }
}

/* In place a reduce_scatter has its input where its output goes. */
static void lay_out(const struct job *j, struct side *s, int gotten, int source, size_t shift)
{
    int at = 0, gap = irregular(j->kind);
    s->blocks = blocks_of(j, gotten && !(j->in_place && (j->kind == BLOCKS || j->kind == PIECES)));
    for (int b = 0; b < s->blocks; b++) {
        s->counts[b] = block_ints(j, gotten && !(j->in_place && (j->kind == BLOCKS || j->kind == PIECES)), b) / s->pattern->ints;
        s->at[b] = at;
        s->bytes[b] = at * s->pattern->extent * (int)sizeof(int);
        s->types[b] = s->pattern->type;
        at += s->counts[b] + gap;
    }
    s->elements = at;
    s->memory = memory_get((size_t)at * (size_t)s->pattern->extent * sizeof(int), source, shift);
    s->ints = (int *)(void *)s->memory.start;
    for (size_t i = 0; i < (size_t)at * (size_t)s->pattern->extent; i++)
        s->ints[i] = -7;
}

static size_t int_at(const struct side *s, int block, int i)
{
    return (size_t)s->at[block] * (size_t)s->pattern->extent + place_of(s->pattern, i);
}

/* Returns the place of a block's first int in the numbering of its sender: by receiver, or from the beginning
 * of a vector. */
static int numbered(const struct job *j, int from, int to)
{
    int first = 0;
    if (j->kind == ALLTOALL || j->kind == ALLTOALLV || j->kind == ALLTOALLW || j->kind == SCATTER || j->kind == SCATTERV)
        return to * 10000000;
    for (int r = 0; r < to && (j->kind == BLOCKS || j->kind == PIECES); r++)
        first += part(j, from, r);
    return first;
}

static void fill_block(const struct job *j, struct side *s, int block, int to)
{
    int first = numbered(j, slots[j->slot].rank, to);
    for (int i = 0; i < s->counts[block] * s->pattern->ints; i++)
        s->ints[int_at(s, block, i)] = value(j, slots[j->slot].rank, first + i);
}

static int is_root(const struct job *j)
{
    return slots[j->slot].rank == j->root;
}

/* Writes what this rank gives; in place that lies in the buffer of what it gets (of a scatter's root, the
 * other way round). */
static void fill(struct job *j)
{
    int me = slots[j->slot].rank;
    struct side *s = &j->out;
    if (j->kind == BCAST) {
        for (int i = 0; i < j->units * UNIT; i++)
            s->ints[int_at(s, 0, i)] = is_root(j) ? value(j, me, i) : -1;
        return;
    }
    for (int b = 0; b < s->blocks; b++)
        fill_block(j, s, b, b);
    s = &j->in;
    for (int b = 0; b < s->blocks; b++)
        for (int i = 0; i < s->counts[b] * s->pattern->ints; i++)
            s->ints[int_at(s, b, i)] = -1;
    if (!j->in_place || j->kind == SCATTER || j->kind == SCATTERV)
        return;
    if (j->kind == GATHER || j->kind == GATHERV || j->kind == ALLGATHER || j->kind == ALLGATHERV)
        fill_block(j, s, me, 0);
    else
        for (int b = 0; b < s->blocks; b++)
            fill_block(j, s, b, b);
}

static void check_block(const struct job *j, const struct side *s, int block, int from)
{
    int first = numbered(j, from, slots[j->slot].rank);
    for (int i = 0; i < s->counts[block] * s->pattern->ints; i++) {
        int got = s->ints[int_at(s, block, i)], want = value(j, from, first + i);
        if (got != want) {
            wrong(j, i, got, want);
            return;
        }
    }
    for (int e = 0; s->pattern->extent > s->pattern->ints && e < s->counts[block]; e++) {
        int gap = s->ints[(size_t)(s->at[block] + e) * (size_t)s->pattern->extent + (size_t)(s->pattern == &patterns[VECTOR] ? 2 : 1)];
        if (gap != -7) {
            wrong(j, e, gap, -7);
            return;
        }
    }
}

/* Computes the reduction of the contributions of ranks 0 to `last` in element `e` of the vector. */
static void reduced(const struct job *j, int last, int e, int result[2])
{
    int width = j->out.pattern->ints;
    for (int rank = 0; rank <= last; rank++) {
        int next[2] = {value(j, rank, e * width), width > 1 ? value(j, rank, e * width + 1) : 0};
        if (rank > 0 && j->how >= COMPOSE)
            compose(result, next, 1);
        else if (rank > 0)
            next[0] = combine(j->how, result[0], next[0]);
        result[0] = next[0], result[1] = next[1];
    }
}

static void check_reduced(const struct job *j, int last, int first, int elements)
{
    for (int e = 0; e < elements; e++) {
        int want[2];
        if (elements > 600 && e > 40 && e < elements - 40 && e % 61)
            continue;
        reduced(j, last, first + e, want);
        for (int k = 0; k < j->in.pattern->ints; k++) {
            int got = j->in.ints[int_at(&j->in, 0, e * j->in.pattern->ints + k)];
            if (got != want[k]) {
                wrong(j, e, got, want[k]);
                return;
            }
        }
    }
}

static void verify(const struct job *j)
{
    int size = slots[j->slot].size, me = slots[j->slot].rank, width = j->in.pattern->ints, all = j->units * UNIT / width;
    switch (j->kind) {
    case BCAST: check_block(j, &j->out, 0, j->root); break;
    case SCATTER: case SCATTERV: if (!(j->in_place && is_root(j))) check_block(j, &j->in, 0, j->root); break;
    case GATHER: case GATHERV: if (!is_root(j)) break; /* fall through */
    case ALLGATHER: case ALLGATHERV: case ALLTOALL: case ALLTOALLV: case ALLTOALLW:
        for (int r = 0; r < size; r++)
            check_block(j, &j->in, r, r);
        break;
    case REDUCE: if (is_root(j)) check_reduced(j, size - 1, 0, all); break;
    case ALLREDUCE: check_reduced(j, size - 1, 0, all); break;
    case BLOCKS: case PIECES: check_reduced(j, size - 1, numbered(j, 0, me) / width, part(j, 0, me) / width); break;
    case SCAN: check_reduced(j, me, 0, all); break;
    case EXSCAN: if (me > 0) check_reduced(j, me - 1, 0, all); break;
    default: break;
    }
}

/* The call in the form of the job. */
#define CALL(Blocking, Immediate, ...)                                                                                 \
    CHECK_EQUAL(j->form == 0   ? MPI_##Blocking(__VA_ARGS__)                                                           \
                : j->form == 1 ? MPI_##Immediate(__VA_ARGS__, &j->request)                                             \
                               : MPI_##Blocking##_init(__VA_ARGS__, MPI_INFO_NULL, &j->request),                       \
                MPI_SUCCESS)

static void call_reduction(struct job *j, MPI_Comm comm)
{
    const struct side *o = &j->out, *i = &j->in;
    MPI_Datatype type = o->pattern->type;
    MPI_Op op = operators[j->how];
    int n = j->units * UNIT / o->pattern->ints, counts[MOST_RANKS];
    void *from = j->in_place && (j->kind != REDUCE || is_root(j)) ? MPI_IN_PLACE : o->ints;
    for (int r = 0; r < slots[j->slot].size; r++)
        counts[r] = part(j, 0, r) / o->pattern->ints;
    switch (j->kind) {
    case REDUCE: CALL(Reduce, Ireduce, from, i->ints, n, type, op, j->root, comm); break;
    case ALLREDUCE: CALL(Allreduce, Iallreduce, from, i->ints, n, type, op, comm); break;
    case BLOCKS: CALL(Reduce_scatter_block, Ireduce_scatter_block, from, i->ints, n, type, op, comm); break;
    case PIECES: CALL(Reduce_scatter, Ireduce_scatter, from, i->ints, j->form ? o->counts : counts, type, op, comm); break;
    case SCAN: CALL(Scan, Iscan, from, i->ints, n, type, op, comm); break;
    default: CALL(Exscan, Iexscan, from, i->ints, n, type, op, comm); break;
    }
}

static void call(struct job *j)
{
    const struct side *o = &j->out, *i = &j->in;
    MPI_Comm comm = slots[j->slot].comm;
    MPI_Datatype give = o->pattern->type, get = i->pattern->type;
    int n = j->units * UNIT / o->pattern->ints, m = j->units * UNIT / i->pattern->ints;
    void *from = j->in_place ? MPI_IN_PLACE : o->ints, *rooted = j->in_place && is_root(j) ? MPI_IN_PLACE : o->ints;
    void *to = j->in_place && is_root(j) ? MPI_IN_PLACE : i->ints;
    current = j;
    switch (j->kind) {
    case BARRIER: CALL(Barrier, Ibarrier, comm); break;
    case BCAST: CALL(Bcast, Ibcast, o->ints, n, give, j->root, comm); break;
    case GATHER: CALL(Gather, Igather, rooted, n, give, i->ints, m, get, j->root, comm); break;
    case GATHERV: CALL(Gatherv, Igatherv, rooted, o->counts[0], give, i->ints, i->counts, i->at, get, j->root, comm); break;
    case SCATTER: CALL(Scatter, Iscatter, o->ints, n, give, to, m, get, j->root, comm); break;
    case SCATTERV: CALL(Scatterv, Iscatterv, o->ints, o->counts, o->at, give, to, i->counts[0], get, j->root, comm); break;
    case ALLGATHER: CALL(Allgather, Iallgather, from, n, give, i->ints, m, get, comm); break;
    case ALLGATHERV: CALL(Allgatherv, Iallgatherv, from, o->counts[0], give, i->ints, i->counts, i->at, get, comm); break;
    case ALLTOALL: CALL(Alltoall, Ialltoall, from, n, give, i->ints, m, get, comm); break;
    case ALLTOALLV: CALL(Alltoallv, Ialltoallv, from, o->counts, o->at, give, i->ints, i->counts, i->at, get, comm); break;
    case ALLTOALLW:
        CALL(Alltoallw, Ialltoallw, from, o->counts, o->bytes, o->types, i->ints, i->counts, i->bytes, i->types, comm);
        break;
    default: call_reduction(j, comm); break;
    }
}

static int length(int most)
{
    static const int limits[] = {1, 2, 20, 200, 2000, 20000, 1 << 20};
    int limit = limits[draw(7)];
    return (int)draw((unsigned)(limit < most ? limit : most) + 1);
}

/* Draws a job. All ranks draw the same one, whatever their communicators are. */
static struct job *new_job(void)
{
    struct job *j = check_memory(sizeof *j);
    memset(j, 0, sizeof *j);
    j->request = MPI_REQUEST_NULL;
    j->id = operation;
    j->kind = (enum kind)draw(KINDS);
    j->slot = (int)draw(SLOTS);
    int root = (int)draw(1 << 20), types[2] = {(int)draw(TYPES), (int)draw(TYPES)}, sources[2] = {(int)draw(SOURCES), (int)draw(SOURCES)};
    size_t shifts[2] = {draw(4) ? 0 : 4 * draw(1000), draw(4) ? 0 : 4 * draw(1000)};
    int one_vector = j->kind == BCAST || j->kind == REDUCE || j->kind == ALLREDUCE || j->kind == SCAN || j->kind == EXSCAN;
    j->units = length(longest / UNIT / (one_vector ? 1 : check_size));
    j->how = (int)draw(OPERATORS);
    j->form = (int)draw(3);
    j->runs = j->form == 2 ? 1 + (int)draw(4) : 1;
    j->in_place = draw(4) == 0 && j->kind != BCAST && j->kind != BARRIER;
    struct slot *s = &slots[j->slot];
    s->users++;
    if (s->comm == MPI_COMM_NULL)
        return j;
    j->root = root % s->size;
    if (reduces(j->kind))
        types[0] = types[1] = j->how == COMPOSE ? PAIR : j->how == COMPOSE_GAPPED ? GAPPED_PAIR : PLAIN;
    if (j->kind == BCAST)
        types[0] = (types[0] + s->rank) % TYPES; /* another at each rank */
    if (j->in_place && j->kind <= ALLTOALLW)
        types[0] = types[1];
    j->out.pattern = &patterns[types[0]];
    j->in.pattern = &patterns[types[1]];
    lay_out(j, &j->out, 0, sources[0], shifts[0]);
    lay_out(j, &j->in, 1, sources[1], shifts[1]);
    fill(j);
    return j;
}

static void end_job(struct job *j)
{
    struct slot *s = &slots[j->slot];
    s->users--;
    if (s->comm != MPI_COMM_NULL) {
        if (j->form == 2)
            MPI_Request_free(&j->request);
        memory_put(&j->out.memory);
        memory_put(&j->in.memory);
    }
    free(j);
}

/* Completes a pending job; a persistent one that has runs left is filled anew and started again. */
static void finish(int which)
{
    struct job *j = pending[which];
    int here = slots[j->slot].comm != MPI_COMM_NULL;
    current = j;
    if (here) {
        if (j->id % 2) {
            MPI_Wait(&j->request, MPI_STATUS_IGNORE);
        } else {
            for (int flag = 0; !flag;)
                MPI_Test(&j->request, &flag, MPI_STATUS_IGNORE);
        }
        verify(j);
    }
    if (--j->runs > 0) {
        if (here) {
            fill(j);
            MPI_Start(&j->request);
        }
        return;
    }
    end_job(j);
    pending[which] = pending[--pendings];
}

static void collective(void)
{
    struct job *j = new_job();
    if (slots[j->slot].comm != MPI_COMM_NULL) {
        call(j);
        if (j->form == 2)
            MPI_Start(&j->request);
        if (j->form == 0)
            verify(j);
    }
    if (j->form == 0)
        end_job(j);
    else
        pending[pendings++] = j;
    while (pendings > 0 && (pendings == MOST_PENDING || draw(3) == 0))
        finish((int)draw((unsigned)pendings));
}

/* Says where this rank hangs; everything that formatting may break is lost anyway. */
static void on_alarm(int signal)
{
    (void)signal;
    fprintf(stderr, "rank %d of %d: seed %llu, operation %llu hangs: %s, form %d, slot %d, %d ints\n", check_rank, check_size,
            (unsigned long long)seed, (unsigned long long)operation, current ? names[current->kind] : "none", current ? current->form : 0,
            current ? current->slot : 0, current ? current->units * UNIT : 0);
    _exit(9);
}

static void turn(void)
{
    unsigned what = draw(100), how = draw(8);
    if (what < 90)
        collective();
    else if (what < 94)
        new_communicator();
    else if (what < 95 && most_crowd > 0)
        crowd_turn();
    else if (what < 99)
        memory_churn(how);
    else if (how < 3)
        fork_child();
    else
        reap_child();
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    double seconds = argc > 1 ? atof(argv[1]) : 2, start = MPI_Wtime();
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    most_crowd = argc > 3 ? atoi(argv[3]) % MOST_CROWD : most_crowd;
    longest = argc > 4 ? atoi(argv[4]) : longest;
    unsigned long long least = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    state = mix(seed);
    signal(SIGALRM, on_alarm);
    make_types();
    make_operators();
    memory_begin();
    for (int i = 0; i < SLOTS; i++)
        set_slot(&slots[i], i ? MPI_COMM_NULL : MPI_COMM_WORLD);
    for (int go = 1; go;) {
        alarm(HANGS_S);
        for (int i = 0; i < 20; i++, operation++)
            turn();
        go = (MPI_Wtime() - start < seconds || operation < least) && check_failures == 0;
        MPI_Allreduce(MPI_IN_PLACE, &go, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
    while (pendings > 0)
        finish(pendings - 1);
    reap_child();
    if (check_rank == 0)
        printf("seed %llu: %llu operations, %d communicators in the end\n", (unsigned long long)seed, (unsigned long long)operation, crowded + SLOTS);
    for (int i = 0; i < crowded; i++)
        MPI_Comm_free(&crowd[i]);
    for (int i = 1; i < SLOTS; i++)
        if (slots[i].comm != MPI_COMM_NULL)
            MPI_Comm_free(&slots[i].comm);
    return check_end();
}
