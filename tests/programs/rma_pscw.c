/* Post, start, complete, wait (MPI-5 section 12.5.2) on windows of each kind. Cases: groups that overlap,
 * empty groups, the own rank, and more puts than a log of short ones has room for. Further cases: epochs that
 * follow one another directly, and several windows at once. */
#include "check.h"
#include "random.h"

enum { ROOM = 4096, MOST = 16, ROUNDS = 60 };

static MPI_Group world;

/* A window and the own memory of it; the address of everybody's, where displacements are addresses. */
typedef struct { MPI_Win win; long *memory; MPI_Aint base[MOST]; int kind; } Room;

enum { CREATED, ALLOCATED, DYNAMIC, KINDS };
static long created[2][ROOM], dynamic[ROOM];

static Room room_of(int kind, int which)
{
    Room room = {.kind = kind, .memory = kind == CREATED ? created[which] : dynamic};
    MPI_Aint bytes = ROOM * sizeof(long);
    memset(room.base, 0, sizeof room.base);
    if (kind == CREATED)
        MPI_Win_create(room.memory, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &room.win);
    else if (kind == ALLOCATED)
        MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &room.memory, &room.win);
    else {
        MPI_Aint mine;
        MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &room.win);
        MPI_Win_attach(room.win, room.memory, bytes);
        MPI_Get_address(room.memory, &mine);
        MPI_Allgather(&mine, 1, MPI_AINT, room.base, 1, MPI_AINT, MPI_COMM_WORLD);
    }
    for (int i = 0; i < ROOM; i++)
        room.memory[i] = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    return room;
}

static void end_room(Room *room)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (room->kind == DYNAMIC)
        MPI_Win_detach(room->win, room->memory);
    MPI_Win_free(&room->win);
}

static MPI_Aint place(const Room *room, int rank, int item)
{
    return room->kind == DYNAMIC ? room->base[rank] + (MPI_Aint)sizeof(long) * item : item;
}

static void put(const Room *room, int rank, const long *from, int item, int count)
{
    MPI_Put(from, count, MPI_LONG, rank, place(room, rank, item), count, MPI_LONG, room->win);
}

static MPI_Group group_of(int count, const int *ranks)
{
    MPI_Group group;
    MPI_Group_incl(world, count, ranks, &group);
    return group;
}

static void wait_for(const Room *room, int by_test)
{
    int over = 0;
    if (!by_test)
        MPI_Win_wait(room->win);
    else
        while (!over)
            MPI_Win_test(room->win, &over);
}

/* Tests rounds in which every rank puts to some ranks. All draw the same targets, so each knows the
 * result. */
static void random_groups(const Room *room)
{
    static long out[64];
    for (int round = 0; round < ROUNDS; round++) {
        int goes[MOST][MOST], targets[MOST], origins[MOST], to = 0, from = 0, by_test = (int)draw(2);
        for (int a = 0; a < check_size; a++)
            for (int b = 0; b < check_size; b++)
                goes[a][b] = !draw(3);
        for (int rank = 0; rank < check_size; rank++) {
            if (goes[check_rank][rank])
                targets[to++] = rank;
            if (goes[rank][check_rank])
                origins[from++] = rank;
        }
        MPI_Group exposed = group_of(from, origins), accessed = group_of(to, targets);
        int count = (int)draw(64) + 1;
        MPI_Win_post(exposed, round % 2 ? MPI_MODE_NOSTORE : 0, room->win);
        MPI_Win_start(accessed, 0, room->win);
        for (int i = 0; i < count; i++)
            out[i] = round * 1000 + check_rank * 64 + i;
        for (int i = 0; i < to; i++) {
            put(room, targets[i], out, check_rank * 64, count);
            put(room, targets[i], out, check_rank * 64, 0);
        }
        memset(out, 0, sizeof out);
        MPI_Win_complete(room->win);
        wait_for(room, by_test);
        for (int i = 0; i < from; i++)
            for (int item = 0; item < count; item++)
                CHECK_EQUAL(room->memory[origins[i] * 64 + item], round * 1000 + origins[i] * 64 + item);
        MPI_Group_free(&exposed);
        MPI_Group_free(&accessed);
    }
}

/* Epochs of one origin and one target in a row, of which nothing else is between; then with data that were
 * got
   and combined. */
static void hand_over(const Room *room)
{
    int left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    MPI_Group from = group_of(1, &left), to = group_of(1, &right);
    for (long round = 0; round < 300; round++) {
        long mine = round * MOST + check_rank, old = -7, one = 1;
        MPI_Win_post(from, 0, room->win);
        MPI_Win_start(to, 0, room->win);
        put(room, right, &mine, 100 + (int)(round % 7), 1);
        if (round % 10 == 0)
            MPI_Get(&old, 1, MPI_LONG, right, place(room, right, 200), 1, MPI_LONG, room->win);
        MPI_Accumulate(&one, 1, MPI_LONG, right, place(room, right, 201), 1, MPI_LONG, MPI_SUM, room->win);
        MPI_Win_complete(room->win);
        MPI_Win_wait(room->win);
        CHECK_EQUAL(room->memory[100 + round % 7], round * MOST + left);
        CHECK_EQUAL(room->memory[201], round);
        if (round % 10 == 0)
            CHECK_EQUAL(old, -1);
    }
    MPI_Group_free(&from);
    MPI_Group_free(&to);
}

/* Puts from all ranks to rank 0, more than there is room for as a log, contiguous and in pieces with gaps. */
static void many_puts(const Room *room)
{
    int zero = 0, all[MOST];
    static long out[ROOM];
    MPI_Datatype pairs;
    MPI_Type_vector(2, 1, 2, MPI_LONG, &pairs);
    MPI_Type_commit(&pairs);
    for (int i = 0; i < MOST; i++)
        all[i] = i;
    MPI_Group everybody = group_of(check_size, all), first = group_of(1, &zero);
    int share = ROOM / check_size / 4 * 4, start = check_rank * share;
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < share; i++)
            out[i] = round * 100000L + start + i;
        if (check_rank == 0)
            MPI_Win_post(everybody, 0, room->win);
        MPI_Win_start(first, 0, room->win);
        for (int i = 0; i < share; i++) {
            if (round == 3 && i % 4 == 0) {
                MPI_Put(out + i, 1, pairs, 0, place(room, 0, start + i), 1, pairs, room->win);
                MPI_Put(out + i + 1, 1, pairs, 0, place(room, 0, start + i + 1), 1, pairs, room->win);
            } else if (round != 3)
                put(room, 0, out + i, start + i, 1);
        }
        MPI_Win_complete(room->win);
        if (check_rank == 0) {
            MPI_Win_wait(room->win);
            for (int i = 0; i < share * check_size; i++)
                CHECK_EQUAL(room->memory[i], round * 100000L + i);
        }
    }
    MPI_Group_free(&everybody);
    MPI_Group_free(&first);
    MPI_Type_free(&pairs);
}

/* Tests MPI_MODE_NOCHECK. By a barrier both sides know that the posts are complete. */
static void unchecked(const Room *room)
{
    int left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    MPI_Group from = group_of(1, &left), to = group_of(1, &right);
    for (long round = 0; round < 20; round++) {
        long mine = 7000 + round * MOST + check_rank;
        MPI_Win_post(from, MPI_MODE_NOCHECK, room->win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_start(to, MPI_MODE_NOCHECK, room->win);
        put(room, right, &mine, 300, 1);
        MPI_Win_complete(room->win);
        MPI_Win_wait(room->win);
        CHECK_EQUAL(room->memory[300], 7000 + round * MOST + left);
    }
    MPI_Group_free(&from);
    MPI_Group_free(&to);
}

/* Epochs of two windows that overlap in time; calls that do not belong there leave them as they are. */
static void two_windows(const Room *one, const Room *other)
{
    int left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    MPI_Group from = group_of(1, &left), to = group_of(1, &right);
    MPI_Win_set_errhandler(one->win, MPI_ERRORS_RETURN);
    for (long round = 0; round < 50; round++) {
        long mine = 9000 + round * MOST + check_rank;
        MPI_Win_post(from, 0, one->win);
        MPI_Win_post(from, 0, other->win);
        CHECK_CLASS(MPI_Win_post(from, 0, one->win), MPI_ERR_RMA_SYNC);
        MPI_Win_start(to, 0, other->win);
        MPI_Win_start(to, 0, one->win);
        CHECK_CLASS(MPI_Win_start(to, 0, one->win), MPI_ERR_RMA_SYNC);
        CHECK_CLASS(MPI_Win_fence(0, one->win), MPI_ERR_RMA_SYNC);
        put(one, right, &mine, 400, 1);
        MPI_Win_complete(one->win);
        CHECK_CLASS(MPI_Win_complete(one->win), MPI_ERR_RMA_SYNC);
        MPI_Win_wait(one->win);
        CHECK_EQUAL(one->memory[400], 9000 + round * MOST + left);
        CHECK_CLASS(MPI_Win_wait(one->win), MPI_ERR_RMA_SYNC);
        mine += 100000;
        put(other, right, &mine, 400, 1);
        MPI_Win_complete(other->win);
        MPI_Win_wait(other->win);
        CHECK_EQUAL(other->memory[400], 109000 + round * MOST + left);
    }
    MPI_Group_free(&from);
    MPI_Group_free(&to);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    seed = argc > 1 ? strtoul(argv[1], NULL, 10) : seed;
    state = mix(seed);
    for (int kind = CREATED; kind < KINDS; kind++) {
        Room room = room_of(kind, 0);
        random_groups(&room);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < ROOM; i++)
            room.memory[i] = -1;
        MPI_Barrier(MPI_COMM_WORLD);
        hand_over(&room);
        unchecked(&room);
        MPI_Barrier(MPI_COMM_WORLD);
        many_puts(&room);
        Room second = room_of(CREATED, 1);
        two_windows(&room, &second);
        end_room(&second);
        end_room(&room);
    }
    MPI_Group_free(&world);
    return check_end();
}
