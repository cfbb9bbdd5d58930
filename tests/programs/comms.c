/* Groups and communicators: made, compared, named, split, joined across, freed. */
#include "check.h"

/* Checks that a reduction and a ring work in a communicator, and that its messages stay in it. */
static void works(int line, MPI_Comm comm)
{
    int rank, size, total = -1, got = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, comm);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 5, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                 MPI_STATUS_IGNORE);
    if (total != size * (size - 1) / 2 || got != (rank + size - 1) % size)
        check_say(__FILE__, line, "sum %d, from the left %d, in %d of %d", total, got, rank, size);
}

static int compared(MPI_Comm one, MPI_Comm two)
{
    int result;
    MPI_Comm_compare(one, two, &result);
    return result;
}

static void groups(void)
{
    MPI_Group world, odd, even, all, none, reversed, same;
    int size, rank, result, places[64], n = check_size;
    int ranges[1][3] = {{n - 1, 0, -1}}, evens[1][3] = {{0, n - 1, 2}};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, evens, &even);
    MPI_Group_difference(world, even, &odd);
    MPI_Group_size(odd, &size);
    CHECK_EQUAL(size, n / 2);
    MPI_Group_union(even, odd, &all);
    MPI_Group_compare(all, world, &result);
    CHECK_EQUAL(result, n > 2 ? MPI_SIMILAR : MPI_IDENT);
    MPI_Group_intersection(even, odd, &none);
    CHECK(none == MPI_GROUP_EMPTY);
    MPI_Group_range_incl(world, 1, ranges, &reversed);
    MPI_Group_rank(reversed, &rank);
    CHECK_EQUAL(rank, n - 1 - check_rank);
    for (int i = 0; i < n; i++)
        places[i] = i;
    MPI_Group_translate_ranks(world, n, places, reversed, places);
    for (int i = 0; i < n; i++)
        CHECK_EQUAL(places[i], n - 1 - i);
    places[0] = n > 1;
    MPI_Group_translate_ranks(world, 1, places, even, places);
    CHECK_EQUAL(places[0], n > 1 ? MPI_UNDEFINED : 0);
    MPI_Group_excl(world, 0, NULL, &same);
    MPI_Group_compare(same, world, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Group_free(&same);
    MPI_Group_incl(world, 0, NULL, &same);
    CHECK(same == MPI_GROUP_EMPTY);
    MPI_Group_free(&world);
    MPI_Group_free(&odd);
    MPI_Group_free(&even);
    MPI_Group_free(&all);
    MPI_Group_free(&reversed);
    CHECK(world == MPI_GROUP_NULL);
}

static void copies(void)
{
    MPI_Comm copy, idle;
    MPI_Request request;
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag = 0, token = check_rank, back;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    CHECK_EQUAL(compared(copy, MPI_COMM_WORLD), MPI_CONGRUENT);
    CHECK_EQUAL(compared(copy, copy), MPI_IDENT);
    /* A message in one is not seen in the other. */
    MPI_Request sending;
    MPI_Isend(&token, 1, MPI_INT, check_rank, 5, copy, &sending);
    MPI_Iprobe(check_rank, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag);
    MPI_Recv(&back, 1, MPI_INT, check_rank, 5, copy, MPI_STATUS_IGNORE);
    MPI_Wait(&sending, MPI_STATUS_IGNORE);
    works(__LINE__, copy);
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(!strcmp(name, "MPI_COMM_WORLD"));
    MPI_Comm_set_name(copy, "copy");
    MPI_Comm_get_name(copy, name, &length);
    CHECK(length == 4 && !strcmp(name, "copy"));
    MPI_Comm_idup(copy, &idle, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    works(__LINE__, idle);
    MPI_Comm_free(&idle);
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL);
    for (int i = 0; i < 300; i++) { /* ids are used again */
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        if (i % 100 == 0)
            works(__LINE__, copy);
        MPI_Comm_free(&copy);
    }
}

/* Checks that the members of a shared communicator are the ranks of this host. */
static void is_of_this_host(MPI_Comm shared)
{
    int *ranks = malloc((size_t)check_size * sizeof *ranks), result;
    MPI_Group world, wanted, members;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, check_neighbours(ranks), ranks, &wanted);
    MPI_Comm_group(shared, &members);
    MPI_Group_compare(members, wanted, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Group_free(&world);
    MPI_Group_free(&wanted);
    MPI_Group_free(&members);
    free(ranks);
}

static void splits(void)
{
    MPI_Comm part, shared, sub;
    MPI_Group world, group;
    int rank, size, n = check_size;
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &part);
    MPI_Comm_rank(part, &rank);
    MPI_Comm_size(part, &size);
    CHECK_EQUAL(size, check_rank % 2 ? n / 2 : (n + 1) / 2);
    CHECK_EQUAL(rank, (n - 1 - check_rank) / 2);
    works(__LINE__, part);
    MPI_Comm_free(&part);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank ? MPI_UNDEFINED : 0, 0, &part);
    CHECK((part == MPI_COMM_NULL) == (check_rank != 0));
    if (part != MPI_COMM_NULL)
        MPI_Comm_free(&part);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared);
    is_of_this_host(shared);
    works(__LINE__, shared);
    MPI_Comm_free(&shared);

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int range[1][3] = {{0, n / 2, 1}};
    MPI_Group_range_incl(world, 1, range, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &sub);
    CHECK((sub == MPI_COMM_NULL) == (check_rank > n / 2));
    if (sub != MPI_COMM_NULL) {
        works(__LINE__, sub);
        MPI_Comm_free(&sub);
    }
    if (check_rank <= n / 2) { /* only the members call */
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 9, &sub);
        works(__LINE__, sub);
        MPI_Comm_free(&sub);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
}

static void between(void)
{
    MPI_Comm half, inter, merged, copy;
    MPI_Group far;
    int high = check_rank >= check_size / 2, flag, size, rank, got = -1;
    if (check_size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, high, check_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, high ? 0 : check_size / 2, 3, &inter);
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag);
    MPI_Comm_test_inter(half, &flag);
    CHECK(!flag);
    MPI_Comm_remote_size(inter, &size);
    CHECK_EQUAL(size, high ? check_size / 2 : check_size - check_size / 2);
    MPI_Comm_remote_group(inter, &far);
    MPI_Group_size(far, &rank);
    CHECK_EQUAL(rank, size);
    MPI_Group_free(&far);
    MPI_Comm_rank(inter, &rank);
    if (rank < size && rank < check_size / 2) { /* each with its opposite number */
        MPI_Sendrecv(&check_rank, 1, MPI_INT, rank, 1, &got, 1, MPI_INT, rank, 1, inter, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, high ? rank : rank + check_size / 2);
    }
    MPI_Comm_dup(inter, &copy);
    CHECK_EQUAL(compared(copy, inter), MPI_CONGRUENT);
    MPI_Comm_free(&copy);
    MPI_Intercomm_merge(inter, high, &merged);
    CHECK_EQUAL(compared(merged, MPI_COMM_WORLD), MPI_CONGRUENT);
    works(__LINE__, merged);
    MPI_Comm_free(&merged);
    MPI_Intercomm_merge(inter, !high, &merged);
    MPI_Comm_rank(merged, &rank);
    CHECK_EQUAL(rank, high ? check_rank - check_size / 2 : check_rank + check_size - check_size / 2);
    works(__LINE__, merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* Tests the first operations of a communicator, which may take another path than later ones. Each kind of
 * operation is the first one once. Operations that wait for no rank and long ones come between. */
static void first_operations(void)
{
    static int all[1 << 14], mine[1 << 14];
    for (int first = 0; first < 8; first++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank, &comm);
        for (int step = 0; step < 24; step++) {
            int kind = (first + step) % 8, root = step % check_size, value = check_rank + step, got = -1;
            int count = step % 3 == 2 ? (1 << 14) / check_size : 1;
            MPI_Request request;
            for (int i = 0; i < count; i++)
                mine[i] = value + i;
            switch (kind) {
            case 0:
                MPI_Barrier(comm);
                break;
            case 1:
                MPI_Bcast(mine, count, MPI_INT, root, comm);
                CHECK_EQUAL(mine[count - 1], root + step + count - 1);
                break;
            case 2:
                MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, comm);
                CHECK_EQUAL(got, check_size * step + check_size * (check_size - 1) / 2);
                break;
            case 3:
                MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, comm);
                for (int i = 0; i < check_size; i++)
                    CHECK_EQUAL(all[i * count + count - 1], i + step + count - 1);
                break;
            case 4:
                MPI_Gather(mine, count, MPI_INT, all, count, MPI_INT, root, comm);
                CHECK(check_rank != root || all[(check_size - 1) * count] == check_size - 1 + step);
                break;
            case 5:
                MPI_Scatter(all, 1, MPI_INT, &got, 1, MPI_INT, root, comm);
                break;
            case 6:
                MPI_Ibcast(&value, 1, MPI_INT, root, comm, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                CHECK_EQUAL(value, root + step);
                break;
            default:
                for (int i = 0; i < check_size; i++)
                    mine[i] = check_rank * 100 + i;
                MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
                CHECK_EQUAL(all[check_size - 1], (check_size - 1) * 100 + check_rank);
            }
        }
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    works(__LINE__, MPI_COMM_WORLD);
    works(__LINE__, MPI_COMM_SELF);
    groups();
    copies();
    splits();
    between();
    first_operations();
    return check_end();
}
