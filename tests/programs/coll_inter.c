/* Collective operations on intercommunicators, in all forms, for several divisions of the world and every
 * root. */
#include "check.h"

enum { MOST = 64, FORMS = 3 };

static MPI_Comm inter;
static int rank, mine, theirs, side;
static int into[MOST * MOST], from[MOST * MOST], counts[MOST], places[MOST], more[MOST], spots[MOST];

/* Returns element `at` of the data of a rank of a group. */
static int token(int group, int who, int at)
{
    return (group + 1) * 100000 + who * 1000 + at;
}

static void fill(int count)
{
    for (int i = 0; i < count; i++)
        from[i] = token(side, rank, i);
    for (int i = 0; i < MOST * MOST; i++)
        into[i] = -1;
}

/* The forms that return a request: form 1 is non-blocking, form 2 persistent. */
#define START(form, name, ...)                                                                           \
    do {                                                                                                 \
        MPI_Request request_;                                                                            \
        if ((form) == 1) {                                                                               \
            MPI_I##name(__VA_ARGS__, &request_);                                                         \
            MPI_Wait(&request_, MPI_STATUS_IGNORE);                                                      \
        }                                                                                                \
    } while (0)

#define KEEP(form, name, ...)                                                                            \
    do {                                                                                                 \
        MPI_Request request_;                                                                            \
        if ((form) == 2) {                                                                               \
            MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_);                                    \
            for (int again_ = 0; again_ < 2; again_++) {                                                 \
                MPI_Start(&request_);                                                                    \
                MPI_Wait(&request_, MPI_STATUS_IGNORE);                                                  \
            }                                                                                            \
            MPI_Request_free(&request_);                                                                 \
        }                                                                                                \
    } while (0)

static void rooted(int form, int group, int root, int count)
{
    int here = side == group, argument = here ? (rank == root ? MPI_ROOT : MPI_PROC_NULL) : root;
    int is_root = argument == MPI_ROOT, other = 1 - group, total = 0;
    fill(count * theirs);
    int *buffer = is_root ? from : into;
    if (form == 0)
        MPI_Bcast(buffer, count, MPI_INT, argument, inter);
    START(form, bcast, buffer, count, MPI_INT, argument, inter);
    KEEP(form, Bcast, buffer, count, MPI_INT, argument, inter);
    for (int i = 0; i < count && !here; i++)
        CHECK_EQUAL(into[i], token(group, root, i));

    fill(count * theirs);
    if (form == 0)
        MPI_Gather(from, count, MPI_INT, into, count, MPI_INT, argument, inter);
    START(form, gather, from, count, MPI_INT, into, count, MPI_INT, argument, inter);
    KEEP(form, Gather, from, count, MPI_INT, into, count, MPI_INT, argument, inter);
    for (int i = 0; i < count * theirs && is_root; i++)
        CHECK_EQUAL(into[i], token(other, i / count, i % count));

    fill(count * theirs);
    if (form == 0)
        MPI_Scatter(from, count, MPI_INT, into, count, MPI_INT, argument, inter);
    START(form, scatter, from, count, MPI_INT, into, count, MPI_INT, argument, inter);
    KEEP(form, Scatter, from, count, MPI_INT, into, count, MPI_INT, argument, inter);
    for (int i = 0; i < count && !here; i++)
        CHECK_EQUAL(into[i], token(group, root, rank * count + i));

    for (int i = 0; i < theirs; i++) {
        counts[i] = (i % 3) * count;
        places[i] = total;
        total += counts[i] + 1;
    }
    int own = (rank % 3) * count;
    fill(total > own ? total : own);
    if (form == 0)
        MPI_Gatherv(from, own, MPI_INT, into, counts, places, MPI_INT, argument, inter);
    START(form, gatherv, from, own, MPI_INT, into, counts, places, MPI_INT, argument, inter);
    KEEP(form, Gatherv, from, own, MPI_INT, into, counts, places, MPI_INT, argument, inter);
    for (int who = 0; who < theirs && is_root; who++) {
        for (int i = 0; i < counts[who]; i++)
            CHECK_EQUAL(into[places[who] + i], token(other, who, i));
        CHECK_EQUAL(into[places[who] + counts[who]], -1);
    }
    fill(total);
    if (form == 0)
        MPI_Scatterv(from, counts, places, MPI_INT, into, own, MPI_INT, argument, inter);
    START(form, scatterv, from, counts, places, MPI_INT, into, own, MPI_INT, argument, inter);
    KEEP(form, Scatterv, from, counts, places, MPI_INT, into, own, MPI_INT, argument, inter);
    int before = 0;
    for (int i = 0; i < rank; i++)
        before += (i % 3) * count + 1;
    for (int i = 0; i < own && !here; i++)
        CHECK_EQUAL(into[i], token(group, root, before + i));

    fill(count);
    if (form == 0)
        MPI_Reduce(from, into, count, MPI_INT, MPI_SUM, argument, inter);
    START(form, reduce, from, into, count, MPI_INT, MPI_SUM, argument, inter);
    KEEP(form, Reduce, from, into, count, MPI_INT, MPI_SUM, argument, inter);
    for (int i = 0; i < count && is_root; i++) {
        int sum = 0;
        for (int who = 0; who < theirs; who++)
            sum += token(other, who, i);
        CHECK_EQUAL(into[i], sum);
    }
}

static void exchanged(int form, int count)
{
    int other = 1 - side, width = count + side, width_of_theirs = count + other, total = 0, given = 0;
    fill(width);
    if (form == 0)
        MPI_Allgather(from, width, MPI_INT, into, width_of_theirs, MPI_INT, inter);
    START(form, allgather, from, width, MPI_INT, into, width_of_theirs, MPI_INT, inter);
    KEEP(form, Allgather, from, width, MPI_INT, into, width_of_theirs, MPI_INT, inter);
    for (int i = 0; i < width_of_theirs * theirs; i++)
        CHECK_EQUAL(into[i], token(other, i / width_of_theirs, i % width_of_theirs));

    for (int i = 0; i < theirs; i++) {
        counts[i] = (i % 3) * count;
        places[i] = total;
        total += counts[i];
    }
    fill((rank % 3) * count);
    if (form == 0)
        MPI_Allgatherv(from, (rank % 3) * count, MPI_INT, into, counts, places, MPI_INT, inter);
    START(form, allgatherv, from, (rank % 3) * count, MPI_INT, into, counts, places, MPI_INT, inter);
    KEEP(form, Allgatherv, from, (rank % 3) * count, MPI_INT, into, counts, places, MPI_INT, inter);
    for (int who = 0; who < theirs; who++)
        for (int i = 0; i < counts[who]; i++)
            CHECK_EQUAL(into[places[who] + i], token(other, who, i));

    fill(width * theirs);
    if (form == 0)
        MPI_Alltoall(from, width, MPI_INT, into, width_of_theirs, MPI_INT, inter);
    START(form, alltoall, from, width, MPI_INT, into, width_of_theirs, MPI_INT, inter);
    KEEP(form, Alltoall, from, width, MPI_INT, into, width_of_theirs, MPI_INT, inter);
    for (int i = 0; i < width_of_theirs * theirs; i++)
        CHECK_EQUAL(into[i], token(other, i / width_of_theirs, rank * width_of_theirs + i % width_of_theirs));

    total = 0;
    for (int i = 0; i < theirs; i++) {
        counts[i] = more[i] = (i + rank) % 3 * count;
        spots[i] = given;
        given += more[i];
        places[i] = total;
        total += counts[i];
    }
    fill(given);
    if (form == 0)
        MPI_Alltoallv(from, more, spots, MPI_INT, into, counts, places, MPI_INT, inter);
    START(form, alltoallv, from, more, spots, MPI_INT, into, counts, places, MPI_INT, inter);
    KEEP(form, Alltoallv, from, more, spots, MPI_INT, into, counts, places, MPI_INT, inter);
    for (int who = 0; who < theirs; who++) {
        int before = 0;
        for (int i = 0; i < rank; i++)
            before += (i + who) % 3 * count;
        for (int i = 0; i < counts[who]; i++)
            CHECK_EQUAL(into[places[who] + i], token(other, who, before + i));
    }
}

static void combined(int form, int count)
{
    int other = 1 - side, all = mine * theirs * count, sum, before = 0, total = mine * theirs * count;
    fill(count);
    if (form == 0)
        MPI_Allreduce(from, into, count, MPI_INT, MPI_SUM, inter);
    START(form, allreduce, from, into, count, MPI_INT, MPI_SUM, inter);
    KEEP(form, Allreduce, from, into, count, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < count; i++) {
        sum = 0;
        for (int who = 0; who < theirs; who++)
            sum += token(other, who, i);
        CHECK_EQUAL(into[i], sum);
    }
    fill(all);
    int block = all / mine;
    if (form == 0)
        MPI_Reduce_scatter_block(from, into, block, MPI_INT, MPI_SUM, inter);
    START(form, reduce_scatter_block, from, into, block, MPI_INT, MPI_SUM, inter);
    KEEP(form, Reduce_scatter_block, from, into, block, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < block; i++) {
        sum = 0;
        for (int who = 0; who < theirs; who++)
            sum += token(other, who, rank * block + i);
        CHECK_EQUAL(into[i], sum);
    }
    for (int i = 0; i < mine; i++) {
        counts[i] = i == mine - 1 ? total : total / 2;
        before += i < rank ? counts[i] : 0;
        total -= counts[i];
    }
    fill(all);
    if (form == 0)
        MPI_Reduce_scatter(from, into, counts, MPI_INT, MPI_SUM, inter);
    START(form, reduce_scatter, from, into, counts, MPI_INT, MPI_SUM, inter);
    KEEP(form, Reduce_scatter, from, into, counts, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < counts[rank]; i++) {
        sum = 0;
        for (int who = 0; who < theirs; who++)
            sum += token(other, who, before + i);
        CHECK_EQUAL(into[i], sum);
    }
    if (form == 0)
        MPI_Barrier(inter);
    else if (form == 1) {
        MPI_Request request;
        MPI_Ibarrier(inter, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Request request;
        MPI_Barrier_init(inter, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
}

/* Starts all non-blocking operations at once, twice. */
static void outstanding(void)
{
    MPI_Request requests[6];
    int one[2] = {side + 1, side + 1}, got[2][MOST], sum[2], told[2] = {-1, -1};
    for (int i = 0; i < 2; i++) {
        int root = side == i ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
        told[i] = root == MPI_ROOT ? 40 + i : -1;
        MPI_Iallgather(&one[i], 1, MPI_INT, got[i], 1, MPI_INT, inter, &requests[3 * i]);
        MPI_Iallreduce(&one[i], &sum[i], 1, MPI_INT, MPI_SUM, inter, &requests[3 * i + 1]);
        MPI_Ibcast(&told[i], 1, MPI_INT, root, inter, &requests[3 * i + 2]);
    }
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(sum[i], theirs * (2 - side));
        CHECK_EQUAL(got[i][theirs - 1], 2 - side);
        if (side != i)
            CHECK_EQUAL(told[i], 40 + i);
    }
}

static void mistakes(void)
{
    int in = 1, out;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Bcast(&in, 1, MPI_INT, theirs, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Scan(&in, &out, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Allreduce(MPI_IN_PLACE, &out, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Neighbor_allgather(&in, 1, MPI_INT, &out, 1, MPI_INT, inter), MPI_ERR_TOPOLOGY);
}

static void divided(int colour, int first, int second, int checks_errors)
{
    MPI_Comm local;
    MPI_Comm_split(MPI_COMM_WORLD, colour, check_rank, &local);
    MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, colour ? first : second, 7, &inter);
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &mine);
    MPI_Comm_remote_size(inter, &theirs);
    side = colour;
    for (int form = 0; form < FORMS; form++) {
        for (int group = 0; group < 2; group++)
            for (int root = 0; root < (group == side ? mine : theirs); root++)
                rooted(form, group, root, 3);
        exchanged(form, 2);
        combined(form, 3);
    }
    outstanding();
    if (checks_errors)
        mistakes();
    MPI_Comm_free(&inter);
    MPI_Comm_free(&local);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    if (check_size > 1) {
        divided(check_rank % 2, 0, 1, argc > 1);
        divided(check_rank == 0, 1, 0, argc > 1);
        divided(check_rank >= check_size / 2, 0, check_size / 2, argc > 1);
    }
    return check_end();
}
