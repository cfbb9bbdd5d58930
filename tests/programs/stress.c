/* Random point-to-point messages and collectives, checked against values computed from a seed.
 *
 * usage: stress [SECONDS [SEED [LEAST_OPERATIONS]]]
 *
 * All ranks draw the same random numbers, so each knows what every rank does. Content of anything sent is a
 * function of seed, operation, rank and place. Non-blocking collectives stay outstanding across rounds.
 */
#include "check.h"
#include "random.h"

enum { COMMS = 4, MOST_PENDING = 12, MOST_BATCH = 24, LONGEST = 1 << 18 };

static int value(uint64_t what, int rank, int place)
{
    return (int)(mix(what * 1000003u + (uint64_t)rank * 8191 + (uint64_t)place + seed * 77) & 0xffffff);
}

/* Lengths in ints: often nothing or a few, sometimes 1 MiB. */
static int length(int most)
{
    static const int limits[] = {1, 4, 40, 400, 3000, 20000, LONGEST};
    int limit = limits[draw(7)];
    return (int)draw((unsigned)(limit < most ? limit : most) + 1);
}

static MPI_Comm comms[COMMS];
/* Members of a communicator of this process by rank, as ranks of the world; colour is drawn by world rank. */
static int sizes[COMMS], ranks[COMMS];

static void make_comms(void)
{
    comms[0] = MPI_COMM_WORLD;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &comms[3]);
    for (int i = 0; i < COMMS; i++) {
        MPI_Comm_size(comms[i], &sizes[i]);
        MPI_Comm_rank(comms[i], &ranks[i]);
    }
}

/* ---- collectives ---- */

enum kind { BCAST, REDUCE, ALLREDUCE, GATHERV, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, BLOCK, SCATTER_SUM, SCAN, EXSCAN, BARRIER, KINDS };
static const char *const names[] = {"bcast", "reduce", "allreduce", "gatherv", "scatterv", "allgather", "allgatherv", "alltoall",
                                    "alltoallv", "reduce_scatter_block", "reduce_scatter", "scan", "exscan", "barrier"};

struct pending {
    MPI_Request request;
    enum kind kind;
    int comm, root, count, how;
    uint64_t id;
    int *out, *in, *counts, *places, *back, *back_places;
};

static struct pending pending[MOST_PENDING];
static int pendings;
static MPI_Op compose;

/* Composes (a, b) after (c, d): x -> a(cx + d) + b modulo a prime. The operation does not commute. */
static void compose_pairs(void *left, void *right, int *count, MPI_Datatype *type)
{
    int *l = left, *r = right;
    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        long a = l[i], b = l[i + 1], c = r[i], d = r[i + 1];
        r[i] = (int)(a * c % 65521);
        r[i + 1] = (int)((a * d + b) % 65521);
    }
}

static MPI_Op op_of(int how)
{
    return how == 0 ? MPI_SUM : how == 1 ? MPI_MAX : how == 2 ? MPI_BXOR : compose;
}

static int small(const struct pending *p, int rank, int place)
{
    return value(p->id, rank, place) % 65521;
}

/* Combines the contributions of ranks 0 to `last` at two neighbouring places. */
static void combined(const struct pending *p, int last, int place, int result[2])
{
    for (int rank = 0; rank <= last; rank++) {
        int next[2] = {small(p, rank, place), small(p, rank, place + 1)}, one = 1;
        if (rank == 0) {
            memcpy(result, next, sizeof next);
        } else if (p->how == 3) {
            compose_pairs(result, next, &one, NULL);
            memcpy(result, next, sizeof next);
        } else {
            for (int i = 0; i < 2; i++)
                result[i] = p->how == 0 ? result[i] + next[i] : p->how == 2 ? result[i] ^ next[i] : result[i] > next[i] ? result[i] : next[i];
        }
    }
}

static void wrong(const struct pending *p, int at, int got, int wanted)
{
    check_say(__FILE__, __LINE__, "operation %llu: %s on communicator %d, root %d, count %d, op %d: at %d is %d, not %d",
              (unsigned long long)p->id, names[p->kind], p->comm, p->root, p->count, p->how, at, got, wanted);
}

static void compare_reduced(const struct pending *p, int last, int first, int count)
{
    for (int i = 0; i < count; i++) {
        int want[2], place = first + i, even = place & ~1;
        if (count > 500 && i > 40 && i < count - 40 && i % 97)
            continue;
        combined(p, last, even, want);
        if (p->in[i] != want[place - even]) {
            wrong(p, i, p->in[i], want[place - even]);
            return;
        }
    }
}

static void compare_block(const struct pending *p, int at, int rank, int first, int count)
{
    for (int i = 0; i < count; i++)
        if (p->in[at + i] != small(p, rank, first + i)) {
            wrong(p, at + i, p->in[at + i], small(p, rank, first + i));
            return;
        }
}

static void verify(const struct pending *p)
{
    int size = sizes[p->comm], me = ranks[p->comm];
    switch (p->kind) {
    case BCAST: compare_block(p, 0, p->root, 0, p->count); break;
    case REDUCE: if (me == p->root) compare_reduced(p, size - 1, 0, p->count); break;
    case ALLREDUCE: compare_reduced(p, size - 1, 0, p->count); break;
    case SCAN: compare_reduced(p, me, 0, p->count); break;
    case EXSCAN: if (me > 0) compare_reduced(p, me - 1, 0, p->count); break;
    case BLOCK: compare_reduced(p, size - 1, me * p->count, p->count); break;
    case SCATTER_SUM: compare_reduced(p, size - 1, p->places[me], p->counts[me]); break;
    case SCATTERV: compare_block(p, 0, p->root, p->places[me], p->counts[me]); break;
    case GATHERV: if (me != p->root) break; /* fall through */
    case ALLGATHERV: for (int r = 0; r < size; r++) compare_block(p, p->places[r], r, 0, p->counts[r]); break;
    case ALLGATHER: for (int r = 0; r < size; r++) compare_block(p, r * p->count, r, 0, p->count); break;
    case ALLTOALL: for (int r = 0; r < size; r++) compare_block(p, r * p->count, r, me * p->count, p->count); break;
    case ALLTOALLV: for (int r = 0; r < size; r++) compare_block(p, p->back_places[r], r, me * 1000000, p->back[r]); break;
    default: break;
    }
}

static int cell(const struct pending *p, int from, int to)
{
    return p->count ? (int)(mix(p->id * 31 + (uint64_t)(from * 64 + to)) % (uint64_t)(p->count + 1)) & ~1 : 0;
}

/* Counts and places of the irregular operations; how many ints there are in all. */
static int lay_out(struct pending *p)
{
    int size = sizes[p->comm], me = ranks[p->comm], total = 0, total_back = 0;
    for (int r = 0; r < size; r++) {
        p->counts[r] = p->kind == ALLTOALLV ? cell(p, me, r) : cell(p, 0, r);
        p->back[r] = cell(p, r, me);
        p->places[r] = total;
        p->back_places[r] = total_back;
        total += p->counts[r] + (p->kind == SCATTER_SUM ? 0 : 2);
        total_back += p->back[r] + 2;
    }
    return total > total_back ? total : total_back;
}

static void fill(struct pending *p, int ints)
{
    int size = sizes[p->comm], me = ranks[p->comm];
    for (int i = 0; i < ints; i++)
        p->out[i] = small(p, me, i);
    if (p->kind == ALLTOALLV)
        for (int r = 0; r < size; r++)
            for (int i = 0; i < p->counts[r]; i++)
                p->out[p->places[r] + i] = small(p, me, r * 1000000 + i);
    for (int i = 0; i < ints; i++)
        p->in[i] = -1;
    if (p->kind == BCAST && me == p->root)
        memcpy(p->in, p->out, sizeof(int) * (size_t)p->count);
}

#define RUN(first, rest, ...) (later ? MPI_I##rest(__VA_ARGS__, &p->request) : MPI_##first(__VA_ARGS__))

static MPI_Datatype pair_type;

static void launch(struct pending *p, int later)
{
    MPI_Comm comm = comms[p->comm];
    MPI_Op op = op_of(p->how);
    int n = p->count, me = ranks[p->comm];
    void *from = p->out;
    /* The operator of the user works on pairs. */
    MPI_Datatype type = p->how == 3 ? pair_type : MPI_INT;
    int m = p->how == 3 ? n / 2 : n, counts[64];
    for (int r = 0; r < sizes[p->comm]; r++)
        counts[r] = p->how == 3 ? p->counts[r] / 2 : p->counts[r];
    switch (p->kind) {
    case BCAST: RUN(Bcast, bcast, p->in, n, MPI_INT, p->root, comm); break;
    case REDUCE: RUN(Reduce, reduce, from, p->in, m, type, op, p->root, comm); break;
    case ALLREDUCE: RUN(Allreduce, allreduce, from, p->in, m, type, op, comm); break;
    case SCAN: RUN(Scan, scan, from, p->in, m, type, op, comm); break;
    case EXSCAN: RUN(Exscan, exscan, from, p->in, m, type, op, comm); break;
    case BLOCK: RUN(Reduce_scatter_block, reduce_scatter_block, from, p->in, m, type, op, comm); break;
    case SCATTER_SUM: RUN(Reduce_scatter, reduce_scatter, from, p->in, counts, type, op, comm); break;
    case GATHERV: RUN(Gatherv, gatherv, from, p->counts[me], MPI_INT, p->in, p->counts, p->places, MPI_INT, p->root, comm); break;
    case SCATTERV: RUN(Scatterv, scatterv, from, p->counts, p->places, MPI_INT, p->in, p->counts[me], MPI_INT, p->root, comm); break;
    case ALLGATHER: RUN(Allgather, allgather, from, n, MPI_INT, p->in, n, MPI_INT, comm); break;
    case ALLGATHERV: RUN(Allgatherv, allgatherv, from, p->counts[me], MPI_INT, p->in, p->counts, p->places, MPI_INT, comm); break;
    case ALLTOALL: RUN(Alltoall, alltoall, from, n, MPI_INT, p->in, n, MPI_INT, comm); break;
    case ALLTOALLV: RUN(Alltoallv, alltoallv, from, p->counts, p->places, MPI_INT, p->in, p->back, p->back_places, MPI_INT, comm); break;
    default: RUN(Barrier, barrier, comm); break;
    }
}

static void finish(int which)
{
    struct pending *p = &pending[which];
    MPI_Wait(&p->request, MPI_STATUS_IGNORE);
    verify(p);
    free(p->out), free(p->in), free(p->counts);
    *p = pending[--pendings];
}

static void collective(void)
{
    struct pending *p = &pending[pendings++];
    int later = (int)draw(2), size;
    p->request = MPI_REQUEST_NULL;
    p->id = operation;
    p->kind = (enum kind)draw(KINDS);
    p->comm = (int)draw(COMMS);
    size = sizes[p->comm];
    /* Communicator 3 has two sizes: the root must be in both. */
    p->root = (int)draw((unsigned)(p->comm == 3 ? (check_size / 2 ? check_size / 2 : 1) : check_size));
    p->how = (int)draw(4);
    p->count = length(LONGEST / (p->kind == BCAST || p->kind == ALLREDUCE || p->kind == REDUCE ? 1 : 4 * check_size)) & ~1;
    p->counts = check_memory(4 * sizeof(int) * (size_t)size);
    p->places = p->counts + size, p->back = p->places + size, p->back_places = p->back + size;
    int ints = lay_out(p);
    if (ints < p->count * size)
        ints = p->count * (p->kind == BCAST || p->kind == ALLREDUCE || p->kind == REDUCE ? 1 : size);
    if (ints < p->places[size - 1] + p->counts[size - 1])
        ints = p->places[size - 1] + p->counts[size - 1];
    p->out = check_memory(sizeof(int) * (size_t)(ints + 4));
    p->in = check_memory(sizeof(int) * (size_t)(ints + 4));
    fill(p, ints);
    launch(p, later);
    if (!later)
        finish(pendings - 1);
    while (pendings > 0 && (pendings == MOST_PENDING || draw(4) == 0))
        finish((int)draw((unsigned)pendings));
}

/* ---- point to point ---- */

struct message {
    int from, to, count, mode, stride, tag;
    int *memory;
    MPI_Datatype type;
};

enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, PERSISTENT, MODES };

/* Creates a type of `count` ints with gaps of `stride` - 1 ints. */
static MPI_Datatype strided(int count, int stride)
{
    MPI_Datatype type;
    MPI_Type_vector(count, 1, stride, MPI_INT, &type);
    MPI_Type_commit(&type);
    return type;
}

static void prepare(struct message *m, int stride, int content, int number)
{
    size_t ints = (size_t)m->count * (size_t)stride + 1;
    m->stride = stride;
    m->memory = check_memory(ints * sizeof(int));
    m->type = strided(m->count, stride);
    for (size_t i = 0; i < ints; i++)
        m->memory[i] = -7;
    for (int i = 0; content && i < m->count; i++)
        m->memory[(size_t)i * (size_t)stride] = value(operation, number, i);
}

static void release(struct message *m)
{
    MPI_Type_free(&m->type);
    free(m->memory);
}

static void check_message(const struct message *m, int number, const int *memory, int stride)
{
    for (int i = 0; i < m->count; i++)
        if (memory[(size_t)i * (size_t)stride] != value(operation, number, i)) {
            check_say(__FILE__, __LINE__, "operation %llu: message %d from %d to %d, mode %d, %d ints with stride %d: at %d is %d, not %d",
                      (unsigned long long)operation, number, m->from, m->to, m->mode, m->count, stride, i,
                      memory[(size_t)i * (size_t)stride], value(operation, number, i));
            return;
        }
    for (int i = 0; stride > 1 && i + 1 < m->count; i++)
        if (memory[(size_t)i * (size_t)stride + 1] != -7) {
            check_say(__FILE__, __LINE__, "operation %llu: a gap behind element %d was written", (unsigned long long)operation, i);
            return;
        }
}

static void start_send(struct message *m, MPI_Comm comm, MPI_Request *request)
{
    switch (m->mode) {
    case SYNCHRONOUS: MPI_Issend(m->memory, 1, m->type, m->to, m->tag, comm, request); break;
    case BUFFERED: MPI_Ibsend(m->memory, 1, m->type, m->to, m->tag, comm, request); break;
    case READY: MPI_Irsend(m->memory, 1, m->type, m->to, m->tag, comm, request); break;
    case PERSISTENT:
        MPI_Send_init(m->memory, 1, m->type, m->to, m->tag, comm, request);
        MPI_Start(request);
        break;
    default: MPI_Isend(m->memory, 1, m->type, m->to, m->tag, comm, request); break;
    }
}

static void note_status(const struct message *m, const MPI_Status *status)
{
    int count;
    MPI_Get_count(status, MPI_INT, &count);
    CHECK_EQUAL(count, m->count);
    CHECK_EQUAL(status->MPI_SOURCE, m->from);
    CHECK_EQUAL(status->MPI_TAG, m->tag);
}

/* Receives by any source and any tag, in the order of arrival. Messages of one sender must come in the order
 * sent. */
static void receive_any(struct message *messages, int count, MPI_Comm comm, int me, int how)
{
    int expected = 0, last[64];
    for (int i = 0; i < 64; i++)
        last[i] = -1;
    for (int i = 0; i < count; i++)
        expected += messages[i].to == me;
    for (; expected > 0; expected--) {
        MPI_Status status, probed;
        MPI_Message handle;
        int ints, number, flag = 0;
        if (how == 0)
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &probed);
        else
            while (!flag)
                MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &handle, &probed);
        MPI_Get_count(&probed, MPI_INT, &ints);
        int *memory = check_memory(sizeof(int) * (size_t)ints + 4);
        if (how == 0)
            MPI_Recv(memory, ints, MPI_INT, probed.MPI_SOURCE, probed.MPI_TAG, comm, &status);
        else
            MPI_Mrecv(memory, ints, MPI_INT, &handle, &status);
        number = status.MPI_TAG - messages[0].tag;
        if (number < 0 || number >= count) {
            check_say(__FILE__, __LINE__, "operation %llu: a message with tag %d", (unsigned long long)operation, status.MPI_TAG);
        } else {
            note_status(&messages[number], &status);
            check_message(&messages[number], number, memory, 1);
            CHECK(last[status.MPI_SOURCE] < number);
            last[status.MPI_SOURCE] = number;
        }
        free(memory);
    }
}

static void batch(void)
{
    struct message messages[MOST_BATCH], mine[MOST_BATCH];
    MPI_Request requests[2 * MOST_BATCH];
    MPI_Status statuses[2 * MOST_BATCH];
    int which = (int)draw(3), me = ranks[which], count = 1 + (int)draw(MOST_BATCH - 1), any = (int)draw(3), receives = 0, all;
    int by_number[MOST_BATCH];
    for (int i = 0; i < count; i++) {
        struct message *m = &messages[i];
        m->from = (int)draw((unsigned)check_size);
        m->to = (int)draw((unsigned)check_size);
        m->count = length(LONGEST / 4);
        m->mode = (int)draw(MODES);
        m->stride = 1 + (int)draw(3);
        m->tag = (int)(operation % 1000) * MOST_BATCH + i;
        if (any != 2 && m->mode == READY)
            m->mode = STANDARD;
    }
    for (int i = 0; i < count && any == 2; i++)
        if (messages[i].to == me) {
            struct message *m = &mine[receives];
            *m = messages[i];
            prepare(m, 1 + (m->stride + 1) % 3, 0, i);
            by_number[receives] = i;
            MPI_Irecv(m->memory, 1, m->type, i % 3 ? m->from : MPI_ANY_SOURCE, m->tag, comms[which], &requests[receives++]);
        }
    if (any == 2)
        MPI_Barrier(comms[which]);
    all = receives;
    for (int i = 0; i < count; i++)
        if (messages[i].from == me) {
            prepare(&messages[i], messages[i].stride, 1, i);
            start_send(&messages[i], comms[which], &requests[all++]);
        }
    if (any != 2)
        receive_any(messages, count, comms[which], me, any);
    MPI_Waitall(all, requests, statuses);
    for (int i = 0; i < receives; i++) {
        note_status(&mine[i], &statuses[i]);
        check_message(&mine[i], by_number[i], mine[i].memory, mine[i].stride);
        release(&mine[i]);
    }
    for (int i = receives; i < all; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&requests[i]);
    for (int i = 0; i < count; i++)
        if (messages[i].from == me)
            release(&messages[i]);
    /* Messages of the next batch must not be taken by probes of this one. */
    if (any != 2)
        MPI_Barrier(comms[which]);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    double seconds = argc > 1 ? atof(argv[1]) : 2, start = MPI_Wtime();
    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long long least = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    state = mix(seed);
    make_comms();
    MPI_Op_create(compose_pairs, 0, &compose);
    MPI_Type_contiguous(2, MPI_INT, &pair_type);
    MPI_Type_commit(&pair_type);
    MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
    for (int go = 1; go;) {
        for (int i = 0; i < 20; i++, operation++) {
            if (draw(2))
                batch();
            else
                collective();
        }
        go = (MPI_Wtime() - start < seconds || operation < least) && check_failures == 0;
        MPI_Allreduce(MPI_IN_PLACE, &go, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
    while (pendings > 0)
        finish(pendings - 1);
    void *buffer;
    int bytes;
    MPI_Buffer_detach(&buffer, &bytes);
    if (check_rank == 0)
        printf("%llu operations\n", (unsigned long long)operation);
    for (int i = 1; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    MPI_Op_free(&compose);
    MPI_Type_free(&pair_type);
    return check_end();
}
