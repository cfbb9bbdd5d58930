/* Collective operations that do not fit each other: rank 0 (or the last one) starts one kind, the others
 * start another one. Whoever cannot complete it is told. Where all have completed, as each side only sends,
 * somebody is told in the next operation on the communicator, or when it is freed. Every ordered pair of
 * kinds has a communicator of its own, and many pairs wait at the same time.
 *
 * usage: misfits FORM FORM [SECONDS [KIND KIND]]
 *        FORM: b blocking, n non-blocking, p persistent; SECONDS until a wait counts as one without end; only
 *        that pair of kinds
 */
#include "check.h"
#include <pthread.h>

/* Operations of one kind that fit here or there, though the standard says that they do not (MPI-5 section
 * 6.12). */
enum { MAY = 2 };

enum { ITEMS = 8, BYTES = 1 << 12, TOGETHER = 320 };

/* Outcomes of an operation: still waiting, completed, or an error was returned. */
enum { WAITS, OVER, TOLD, OUTCOMES };

static const char *const kinds[] = { "barrier",   "bcast",      "gather",   "gatherv",   "scatter",   "scatterv",
                                     "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce",
                                     "allreduce", "reduce_scatter_block", "reduce_scatter", "scan", "exscan" };

enum { KINDS = sizeof kinds / sizeof *kinds };

struct attempt {
    MPI_Comm comm;
    MPI_Request request;
    char form;
    int kind, mine, theirs, odd, fits;
    char *from, *to;
    /* Of the operation, of the next one, and of giving up the communicator. */
    volatile int outcome[3];
    char why[MPI_MAX_ERROR_STRING];
    pthread_t thread;
};

static int *counts, *places, *byte_places;
static MPI_Datatype *types;
static double seconds = 8;

/* Does a blocking operation, begins another one. */
static int begin(struct attempt *a)
{
    const MPI_Datatype t = MPI_INT;
    const int n = ITEMS;
    void *from = a->from, *to = a->to;
    int code = MPI_ERR_INTERN;
#define KIND(number, Name, name, ...)                                                                    \
    case number:                                                                                         \
        code = a->form == 'b'   ? MPI_##Name(__VA_ARGS__)                                                \
               : a->form == 'n' ? MPI_I##name(__VA_ARGS__, &a->request)                                  \
                                : MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &a->request);            \
        break
    switch (a->kind) {
        KIND(0, Barrier, barrier, a->comm);
        KIND(1, Bcast, bcast, from, n, t, 0, a->comm);
        KIND(2, Gather, gather, from, n, t, to, n, t, 0, a->comm);
        KIND(3, Gatherv, gatherv, from, n, t, to, counts, places, t, 0, a->comm);
        KIND(4, Scatter, scatter, from, n, t, to, n, t, 0, a->comm);
        KIND(5, Scatterv, scatterv, from, counts, places, t, to, n, t, 0, a->comm);
        KIND(6, Allgather, allgather, from, n, t, to, n, t, a->comm);
        KIND(7, Allgatherv, allgatherv, from, n, t, to, counts, places, t, a->comm);
        KIND(8, Alltoall, alltoall, from, n, t, to, n, t, a->comm);
        KIND(9, Alltoallv, alltoallv, from, counts, places, t, to, counts, places, t, a->comm);
        KIND(10, Alltoallw, alltoallw, from, counts, byte_places, types, to, counts, byte_places, types, a->comm);
        KIND(11, Reduce, reduce, from, to, n, t, MPI_SUM, 0, a->comm);
        KIND(12, Allreduce, allreduce, from, to, n, t, MPI_SUM, a->comm);
        KIND(13, Reduce_scatter_block, reduce_scatter_block, from, to, n, t, MPI_SUM, a->comm);
        KIND(14, Reduce_scatter, reduce_scatter, from, to, counts, t, MPI_SUM, a->comm);
        KIND(15, Scan, scan, from, to, n, t, MPI_SUM, a->comm);
        KIND(16, Exscan, exscan, from, to, n, t, MPI_SUM, a->comm);
    }
    return code == MPI_SUCCESS && a->form == 'p' ? MPI_Start(&a->request) : code;
}

static void ends(struct attempt *a, int which, int code)
{
    int length;
    if (code != MPI_SUCCESS)
        MPI_Error_string(code, a->why, &length);
    a->outcome[which] = code == MPI_SUCCESS ? OVER : TOLD;
}

static void *apart(void *argument)
{
    struct attempt *a = argument;
    int code = begin(a);
    ends(a, 0, code == MPI_SUCCESS && a->form == 'p' ? MPI_Wait(&a->request, MPI_STATUS_IGNORE) : code);
    return NULL;
}

/* Starts an attempt. A call that may wait runs in a thread of its own. */
static void launch(struct attempt *a)
{
    if (a->form != 'n') {
        CHECK_EQUAL(pthread_create(&a->thread, NULL, apart, a), 0);
        return;
    }
    int code = begin(a);
    if (code != MPI_SUCCESS)
        ends(a, 0, code);
}

/* Waits until all are over, or for so long. */
static void attend(struct attempt *all, int count)
{
    const double end = MPI_Wtime() + seconds;
    for (int waiting = 1; waiting && MPI_Wtime() < end;) {
        waiting = 0;
        for (struct attempt *a = all; a < all + count; a++) {
            int flag = 0, code;
            if (a->outcome[0] != WAITS)
                continue;
            waiting = 1;
            if (a->form != 'n') {
                MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
                continue;
            }
            code = MPI_Test(&a->request, &flag, MPI_STATUS_IGNORE);
            if (code != MPI_SUCCESS || flag)
                ends(a, 0, code);
        }
    }
}

/* Sums up the number of ranks with each outcome. */
static void count_outcomes(const struct attempt *all, int count, int which, int (*sums)[OUTCOMES], MPI_Comm world)
{
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (int i = 0; i < count; i++)
        sums[i][all[i].outcome[which]] = 1;
    MPI_Allreduce(MPI_IN_PLACE, sums, count * OUTCOMES, MPI_INT, MPI_SUM, world);
}

/* Tries some pairs at the same time; how many are bad. */
static int try_pairs(struct attempt *all, int count, MPI_Comm world)
{
    static int sums[3][TOGETHER][OUTCOMES];
    int bad = 0;
    for (int i = 0; i < count; i++)
        launch(&all[i]);
    attend(all, count);
    count_outcomes(all, count, 0, sums[0], world);
    for (int i = 0; i < count; i++) {
        all[i].outcome[1] = OVER;
        if (sums[0][i][OVER] == check_size)
            ends(&all[i], 1, MPI_Barrier(all[i].comm));
    }
    count_outcomes(all, count, 1, sums[1], world);
    for (int i = 0; i < count; i++) {
        all[i].outcome[2] = OVER;
        if (sums[0][i][OVER] == check_size && sums[1][i][OVER] == check_size)
            ends(&all[i], 2, MPI_Comm_free(&all[i].comm));
    }
    count_outcomes(all, count, 2, sums[2], world);
    for (int i = 0; i < count; i++) {
        struct attempt *a = &all[i];
        int told = 0, waits = 0;
        for (int which = 0; which < 3; which++)
            told += sums[which][i][TOLD], waits += sums[which][i][WAITS];
        if (!waits && (a->fits == MAY || (a->fits ? !told : told)))
            continue;
        bad++;
        if (check_rank == a->odd || !a->odd || a->outcome[0] == WAITS)
            check_say(__FILE__, __LINE__, "%s at rank %d, %s elsewhere: %d over, %d told, %d wait; then %d told, %d wait; here %s",
                      kinds[a->mine], a->odd, kinds[a->theirs], sums[0][i][OVER], sums[0][i][TOLD], sums[0][i][WAITS],
                      told - sums[0][i][TOLD], waits - sums[0][i][WAITS], a->outcome[0] == WAITS ? "it waits" : a->why);
    }
    return bad;
}

int main(int argc, char **argv)
{
    static struct attempt all[TOGETHER];
    const char one = argc > 1 ? argv[1][0] : 'n', other = argc > 2 ? argv[2][0] : 'n';
    MPI_Comm world;
    int level, count = 0, tried = 0, bad = 0;
    MPI_Init_thread(&argc, &argv, one == 'n' && other == 'n' ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (argc > 3)
        seconds = atof(argv[3]);
    counts = check_memory((size_t)check_size * sizeof *counts);
    places = check_memory((size_t)check_size * sizeof *places);
    byte_places = check_memory((size_t)check_size * sizeof *byte_places);
    types = check_memory((size_t)check_size * sizeof *types);
    for (int i = 0; i < check_size; i++) {
        counts[i] = ITEMS;
        places[i] = i * ITEMS;
        byte_places[i] = i * ITEMS * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    /* A process remembers the latest 64 operations that were given up. A rank that waits in another thread
     * looks later. */
    const int together = one == 'p' || other == 'p' ? 48 : TOGETHER;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    for (int pair = 0; pair < 2 * KINDS * KINDS; pair++) {
        const int mine = pair / 2 / KINDS, theirs = pair / 2 % KINDS, odd = pair % 2 ? check_size - 1 : 0;
        const int last = pair == 2 * KINDS * KINDS - 1;
        const int chosen = argc < 6 || (!strcmp(kinds[mine], argv[4]) && !strcmp(kinds[theirs], argv[5]));
        /* With two ranks it makes no difference which one is the odd one. */
        if (chosen && (odd == 0 || check_size > 2)) {
            struct attempt *a = &all[count++];
            const int is_odd = check_rank == odd, w = 10, v = 9;
            /* Only the types of alltoallw are given otherwise. */
            const int same = mine == theirs || (mine == v && theirs == w) || (mine == w && theirs == v);
            const int fits = same && (one == 'p') == (other == 'p') ? one == other ? 1 : MAY : 0;
            const int kind = is_odd ? mine : theirs;
            a[0] = (struct attempt){ .form = is_odd ? one : other, .kind = kind, .mine = mine, .theirs = theirs,
                                     .odd = odd, .fits = fits, .request = MPI_REQUEST_NULL };
            a->from = calloc(BYTES, 1);
            a->to = calloc(BYTES, 1);
            memset(a->from, check_rank + 1, ITEMS * sizeof(int));
            MPI_Comm_dup(world, &a->comm);
            MPI_Comm_set_errhandler(a->comm, MPI_ERRORS_RETURN);
        }
        if (count == together || (last && count)) {
            const int wrong = try_pairs(all, count, world);
            tried += count;
            bad += wrong;
            /* A wait without end leaks a communicator and perhaps a thread. */
            for (int i = 0; i < count && !wrong; i++) {
                if (all[i].form != 'n')
                    pthread_join(all[i].thread, NULL);
                if (all[i].request != MPI_REQUEST_NULL)
                    MPI_Request_free(&all[i].request);
                if (all[i].comm != MPI_COMM_NULL)
                    MPI_Comm_free(&all[i].comm);
                free(all[i].from);
                free(all[i].to);
            }
            count = 0;
        }
    }
    if (check_rank == 0)
        printf("%d pairs, %d bad\n", tried, bad);
    if (bad) {
        fflush(NULL);
        MPI_Barrier(world);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return check_end();
}
