/* A job that is stopped, kept, killed and made again at any moment: kinds of communication whose operations
 * stay open from one round to the next, every message checked by content. Arguments: rounds, kind (or "all").
 * Rank 0 writes a line now and then and, last, a checksum of all that was received, the same however often
 * the job was restarted. If KEPT_GATE names a file, the last round (or the end of computing) waits until it
 * is there: so long the job can be kept, and does not end. */
#include "check.h"
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size, right, left, is_over;
static unsigned long sum;

enum { EAGER = 2000, LONG = 300000, LONGEST = 2 << 20 };

/* Returns 1 if the last round has to wait. */
static int is_closed(void)
{
    const char *gate = getenv("KEPT_GATE");
    return gate && access(gate, F_OK) != 0;
}

static void wait_at_gate(void)
{
    while (rank == 0 && is_closed())
        usleep(2000);
}

/* Returns word `at` of the message of rank `from` in round `round` of kind `kind`. */
static int word(int kind, int from, int round, int at)
{
    unsigned x = (unsigned)(kind * 7919 + from * 104729 + round * 1299709 + at) * 2654435761u;
    return (int)(x ^ x >> 15);
}

static void fill(int *words, int count, int kind, int round)
{
    for (int i = 0; i < count; i++)
        words[i] = word(kind, rank, round, i);
}

static void check_words(const int *words, int count, int kind, int from, int round)
{
    for (int i = 0; i < count; i++) {
        if (words[i] != word(kind, from, round, i)) {
            fprintf(stderr, "rank %d: kind %d round %d: word %d of the message of %d is wrong\n", rank, kind, round, i, from);
            MPI_Abort(MPI_COMM_WORLD, 9);
        }
        sum = sum * 31 + (unsigned)words[i];
    }
}

/* Outstanding sends and receives: those of a round are completed in the next. */
static void outstanding(int kind, int round, int count)
{
    static int out[2][8][LONGEST / 4], in[2][8][LONGEST / 4];
    static MPI_Request requests[8][2];
    static int open[8];
    int slot = round & 1, before = !slot;
    if (open[kind]) {
        MPI_Waitall(2, requests[kind], MPI_STATUSES_IGNORE);
        check_words(in[before][kind], count, kind, left, round - 1);
    }
    if (is_over)
        return;
    fill(out[slot][kind], count, kind, round);
    MPI_Irecv(in[slot][kind], count, MPI_INT, left, kind, MPI_COMM_WORLD, &requests[kind][0]);
    MPI_Isend(out[slot][kind], count, MPI_INT, right, kind, MPI_COMM_WORLD, &requests[kind][1]);
    open[kind] = 1;
}

static void eager(int round) { outstanding(0, round, EAGER / 4); }
static void longer(int round) { outstanding(1, round, LONG / 4); }
static void longest(int round) { outstanding(2, round, LONGEST / 4); }

/* Messages without a receive wait, some are requested by their own sender, and one is held by a matched
 * probe. */
static void unexpected(int round)
{
    static int out[16][64], in[64];
    static MPI_Message held;
    static int is_held;
    if (is_held) {
        MPI_Mrecv(in, 64, MPI_INT, &held, MPI_STATUS_IGNORE);
        check_words(in, 64, 20, left, round - 1);
        for (int i = 0; i < 15; i++) {
            MPI_Status status;
            MPI_Recv(in, 64, MPI_INT, MPI_ANY_SOURCE, 200 + i, MPI_COMM_WORLD, &status);
            check_words(in, 64, 21 + i, status.MPI_SOURCE, round - 1);
        }
    }
    if (is_over)
        return;
    fill(out[15], 64, 20, round);
    MPI_Send(out[15], 64, MPI_INT, right, 199, MPI_COMM_WORLD);
    for (int i = 0; i < 15; i++) {
        fill(out[i], 64, 21 + i, round);
        MPI_Send(out[i], 64, MPI_INT, right, 200 + i, MPI_COMM_WORLD);
    }
    MPI_Mprobe(left, 199, MPI_COMM_WORLD, &held, MPI_STATUS_IGNORE);
    is_held = 1;
}

/* Tests buffered, synchronous and persistent sends. */
static void modes(int round)
{
    static char room[100000];
    static int out[3][500], in[3][500];
    static MPI_Request persistent[2], synchronous[2];
    static int is_made, is_open;
    if (!is_made) {
        MPI_Buffer_attach(room, sizeof room);
        MPI_Send_init(out[0], 500, MPI_INT, right, 300, MPI_COMM_WORLD, &persistent[0]);
        MPI_Recv_init(in[0], 500, MPI_INT, left, 300, MPI_COMM_WORLD, &persistent[1]);
        is_made = 1;
    }
    if (is_open) {
        MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE);
        check_words(in[0], 500, 40, left, round - 1);
        MPI_Recv(in[1], 500, MPI_INT, left, 301, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_words(in[1], 500, 41, left, round - 1);
        MPI_Waitall(2, synchronous, MPI_STATUSES_IGNORE);
        check_words(in[2], 500, 42, left, round - 1);
    }
    if (is_over) {
        void *attached;
        int bytes;
        MPI_Buffer_detach(&attached, &bytes);
        return;
    }
    fill(out[0], 500, 40, round);
    MPI_Startall(2, persistent);
    fill(out[1], 500, 41, round);
    MPI_Bsend(out[1], 500, MPI_INT, right, 301, MPI_COMM_WORLD);
    fill(out[2], 500, 42, round);
    MPI_Issend(out[2], 500, MPI_INT, right, 302, MPI_COMM_WORLD, &synchronous[0]);
    MPI_Irecv(in[2], 500, MPI_INT, left, 302, MPI_COMM_WORLD, &synchronous[1]);
    is_open = 1;
}

/* Collectives, blocking and not. */
static void collectives(int round)
{
    static int mine[1000], all[1000], open_mine[5000], open_all[5000];
    static MPI_Request request;
    static int is_open;
    if (is_open) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < 5000; i++) {
            unsigned expected = 0;
            for (int from = 0; from < size; from++)
                expected += (unsigned)(word(50, from, round - 1, i) & 0xffff);
            CHECK((unsigned)open_all[i] == expected);
        }
        sum = sum * 31 + (unsigned)open_all[7];
    }
    if (is_over)
        return;
    for (int i = 0; i < 5000; i++)
        open_mine[i] = word(50, rank, round, i) & 0xffff;
    MPI_Iallreduce(open_mine, open_all, 5000, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    is_open = 1;
    for (int count = 1; count <= 1000; count *= 10) {
        for (int i = 0; i < count; i++)
            mine[i] = word(51, rank, round, i) & 0xffff;
        MPI_Allreduce(mine, all, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < count; i++) {
            int expected = 0;
            for (int from = 0; from < size; from++)
                if ((word(51, from, round, i) & 0xffff) > expected)
                    expected = word(51, from, round, i) & 0xffff;
            CHECK(all[i] == expected);
        }
    }
    if (rank == round % size)
        fill(mine, 1000, 52, round);
    MPI_Bcast(mine, 1000, MPI_INT, round % size, MPI_COMM_WORLD);
    check_words(mine, 1000, 52, round % size, round);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Operations that the kernel's packet program may do: small, some of them open from one round to the next. */
static void in_kernel(int round)
{
    static long mine[16], all[16], open_mine[4], open_all[4], again_mine, again_all;
    static MPI_Request open[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, again = MPI_REQUEST_NULL;
    long expected;
    if (again == MPI_REQUEST_NULL) {
        MPI_Allreduce_init(&again_mine, &again_all, 1, MPI_LONG, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &again);
    } else {
        MPI_Waitall(2, open, MPI_STATUSES_IGNORE);
        MPI_Wait(&again, MPI_STATUS_IGNORE);
        for (int i = 0; i < 4; i++) {
            expected = 0;
            for (int from = 0; from < size; from++)
                expected += word(60, from, round - 1, i) & 0xffff;
            CHECK_EQUAL(open_all[i], expected);
        }
        CHECK_EQUAL(again_all, round - 1 + size - 1);
        sum = sum * 31 + (unsigned long)(open_all[3] * (rank + 1));
    }
    if (is_over) {
        MPI_Request_free(&again);
        return;
    }
    again_mine = round + rank;
    MPI_Start(&again);
    for (int i = 0; i < 4; i++)
        open_mine[i] = word(60, rank, round, i) & 0xffff;
    MPI_Iallreduce(open_mine, open_all, 4, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &open[0]);
    MPI_Ibarrier(MPI_COMM_WORLD, &open[1]);
    for (int root = 0; root < size; root++) {
        int words[100];
        if (rank == root)
            fill(words, 100, 61, round);
        MPI_Bcast(words, 100, MPI_INT, root, MPI_COMM_WORLD);
        check_words(words, 100, 61, root, round);
    }
    for (int i = 0; i < 16; i++)
        mine[i] = word(62, rank, round, i) & 0xffff;
    MPI_Allreduce(mine, all, 16, MPI_LONG, MPI_MIN, MPI_COMM_WORLD);
    expected = 0xffff;
    for (int from = 0; from < size; from++)
        if ((word(62, from, round, 15) & 0xffff) < expected)
            expected = word(62, from, round, 15) & 0xffff;
    CHECK_EQUAL(all[15], expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Tests a derived type, and a message to a communicator of two groups. */
static void shapes(int round)
{
    static MPI_Datatype column;
    static MPI_Comm half, between;
    static int matrix[100][100], in[100][100], is_made;
    if (!is_made) {
        MPI_Type_vector(100, 1, 100, MPI_INT, &column);
        MPI_Type_commit(&column);
        if (size > 1) {
            MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
            MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 77, &between);
        }
        is_made = 1;
    }
    if (is_over)
        return;
    int at = round % 100;
    for (int i = 0; i < 100; i++)
        matrix[i][at] = word(60, rank, round, i);
    MPI_Sendrecv(&matrix[0][at], 1, column, right, 400, &in[0][at], 1, column, left, 400, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 100; i++)
        CHECK(in[i][at] == word(60, left, round, i));
    if (size > 1) {
        int mine = rank + round, all = 0, expected = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, between);
        for (int from = 0; from < size; from++)
            expected += from % 2 != rank % 2 ? from + round : 0;
        CHECK(all == expected);
    }
}

/* Tests windows: open epochs of all kinds. */
static void windows(int round)
{
    static MPI_Win fenced, locked, shared;
    static int *memory, *counter, *common, is_made;
    if (!is_made) {
        MPI_Win_allocate(1000 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &fenced);
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &locked);
        *counter = 0;
        MPI_Comm node;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
        MPI_Win_allocate_shared(100 * sizeof(int), sizeof(int), MPI_INFO_NULL, node, &common, &shared);
        MPI_Win_lock_all(0, shared);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, locked);
        MPI_Win_fence(0, fenced);
        is_made = 1;
    } else {
        MPI_Win_fence(0, fenced);
        check_words(memory, 1000, 70, left, round - 1);
        MPI_Win_fence(0, fenced);
    }
    if (is_over) {
        MPI_Win_unlock_all(locked);
        MPI_Win_unlock_all(shared);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, fenced);
        if (rank == 0)
            CHECK(*counter == round * size);
        MPI_Win_free(&fenced);
        MPI_Win_free(&locked);
        MPI_Win_free(&shared);
        return;
    }
    static int out[1000];
    fill(out, 1000, 70, round);
    MPI_Put(out, 1000, MPI_INT, right, 0, 1000, MPI_INT, fenced);
    int one = 1, before = 0;
    MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, locked);
    MPI_Win_flush(0, locked);
    CHECK(before >= 0 && before < (round + 1) * size);
    fill(common, 100, 71, round);
    MPI_Win_sync(shared);
}

/* Tests partitioned communication. Half of the partitions of a round become ready in the next. */
static void partitioned(int round)
{
    static int out[8][50], in[8][50], is_open;
    static MPI_Request requests[2];
    if (!requests[0]) {
        MPI_Psend_init(out, 8, 50, MPI_INT, right, 500, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, 8, 50, MPI_INT, left, 500, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    }
    if (is_open) {
        MPI_Pready_range(4, 7, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int part = 0; part < 8; part++)
            check_words(in[part], 50, 90 + part, left, round - 1);
    }
    if (is_over) {
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        return;
    }
    for (int part = 0; part < 8; part++)
        fill(out[part], 50, 90 + part, round);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 3, requests[0]);
    is_open = 1;
}

/* Receives that nothing comes for, taken back a round later. */
static void cancelled(int round)
{
    static int in[10];
    static MPI_Request request;
    static int is_open;
    if (is_open) {
        MPI_Status status;
        int was_cancelled;
        MPI_Cancel(&request);
        MPI_Wait(&request, &status);
        MPI_Test_cancelled(&status, &was_cancelled);
        CHECK(was_cancelled);
        sum = sum * 31 + (unsigned)round;
    }
    is_open = !is_over;
    if (is_open)
        MPI_Irecv(in, 10, MPI_INT, left, 600, MPI_COMM_WORLD, &request);
}

/* A window that is exposed to one neighbour and accessed at the other from one round to the next. */
static void exposed(int round)
{
    static MPI_Win window;
    static MPI_Group of_left, of_right;
    static int *memory, out[500], is_open;
    if (!memory) {
        MPI_Group world;
        MPI_Win_allocate(500 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 1, &left, &of_left);
        MPI_Group_incl(world, 1, &right, &of_right);
    }
    if (is_open) {
        MPI_Win_complete(window);
        MPI_Win_wait(window);
        check_words(memory, 500, 100, left, round - 1);
    }
    if (is_over) {
        MPI_Win_free(&window);
        return;
    }
    fill(out, 500, 100, round);
    MPI_Win_post(of_left, 0, window);
    MPI_Win_start(of_right, 0, window);
    MPI_Put(out, 500, MPI_INT, right, 0, 500, MPI_INT, window);
    is_open = 1;
}

/* An open file that grows and is truncated. The next round reads the write that a round has started. */
static const char *file_name;

static void file(int round)
{
    static MPI_File open;
    static MPI_Request request;
    static int out[100], in[100], is_made;
    MPI_Offset at = ((MPI_Offset)round * size + rank) * (MPI_Offset)sizeof out;
    MPI_Offset before = at - size * (MPI_Offset)sizeof out;
    if (!file_name)
        return;
    if (is_made) {
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_File_read_at(open, before, in, 100, MPI_INT, MPI_STATUS_IGNORE);
        check_words(in, 100, 110, rank, round - 1);
    } else {
        MPI_File_open(MPI_COMM_WORLD, file_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &open);
    }
    is_made = 1;
    if (is_over) {
        MPI_File_close(&open);
        return;
    }
    fill(out, 100, 110, round);
    MPI_File_iwrite_at(open, at, out, 100, MPI_INT, &request);
}

struct lane {
    MPI_Comm comm;
    int number, rounds;
    unsigned long sum;
};

static void *communicate(void *given)
{
    struct lane *lane = given;
    static int out[4][5000], in[4][5000];
    for (int round = 0; round < lane->rounds; round++) {
        if (lane->number == 0 && round == lane->rounds - 1)
            wait_at_gate();
        for (int i = 0; i < 5000; i++)
            out[lane->number][i] = word(80 + lane->number, rank, round, i);
        MPI_Sendrecv(out[lane->number], 5000, MPI_INT, right, 1, in[lane->number], 5000, MPI_INT, left, 1, lane->comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < 5000; i++) {
            CHECK(in[lane->number][i] == word(80 + lane->number, left, round, i));
            lane->sum = lane->sum * 31 + (unsigned)in[lane->number][i];
        }
    }
    return NULL;
}

static void threads(int rounds)
{
    static struct lane lanes[4];
    pthread_t numbers[4];
    for (int i = 0; i < 4; i++) {
        lanes[i].number = i;
        lanes[i].rounds = rounds;
        MPI_Comm_dup(MPI_COMM_WORLD, &lanes[i].comm);
        pthread_create(&numbers[i], NULL, communicate, &lanes[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(numbers[i], NULL);
        sum = sum * 31 + lanes[i].sum;
        MPI_Comm_free(&lanes[i].comm);
    }
}

/* Computes without MPI for a number of seconds, and until the gate is open. */
static void compute(int seconds)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    unsigned long x = 1, steps = 0;
    do {
        for (int i = 0; i < 1000000; i++)
            x = x * 6364136223846793005ul + 1442695040888963407ul;
        steps++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begun.tv_sec < seconds || is_closed());
    sum += steps > 0 && x != 0;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, provided;
    const char *kind = argc > 2 ? argv[2] : "all";
    struct { const char *name; void (*round)(int); } kinds[] = {
        { "eager", eager }, { "longer", longer }, { "longest", longest }, { "unexpected", unexpected }, { "modes", modes },
        { "collectives", collectives }, { "shapes", shapes }, { "windows", windows }, { "partitioned", partitioned },
        { "cancelled", cancelled }, { "exposed", exposed }, { "file", file }, { "kernel", in_kernel },
    };
    file_name = getenv("KEPT_FILE");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    double begun = MPI_Wtime();
    if (!strcmp(kind, "threads")) {
        threads(rounds);
    } else if (!strcmp(kind, "compute")) {
        if (rank == 0) {
            printf("computes\n");
            fflush(stdout);
        }
        compute(rounds);
    } else {
        for (int round = 0; round <= rounds; round++) {
            is_over = round == rounds;
            if (round == rounds - 1)
                wait_at_gate();
            for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
                if (!strcmp(kind, kinds[i].name) || !strcmp(kind, "all"))
                    kinds[i].round(round);
            if (rank == 0 && !is_over && round % (rounds / 10 + 1) == 0) {
                printf("round %d\n", round);
                fflush(stdout);
            }
        }
    }
    CHECK(MPI_Wtime() >= begun);
    unsigned long all = 0;
    MPI_Reduce(&sum, &all, 1, MPI_UNSIGNED_LONG, MPI_BXOR, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("checksum %lx\n", all);
        fflush(stdout);
    }
    MPI_Finalize();
    return check_failures != 0;
}
