/* Random epochs of random accesses, against a copy of all memory that every rank computes. usage: rma_random
 * [SEED [ROUNDS]] */
#include "check.h"
#include "random.h"

enum { ITEMS = 600, MOST = 16 };

static long *memory, reference[MOST][ITEMS];
static MPI_Win win;
static MPI_Aint base[MOST];

/* A part of a window: `count` items from `first` on, each `stride` after the one before. */
typedef struct { int first, count, stride; } Part;

static Part draw_part(void)
{
    Part part;
    part.stride = (int)draw(3) + 1;
    part.count = draw(4) ? (int)draw(8) + 1 : (int)draw(ITEMS / 3) + 1;
    if (part.count > ITEMS / part.stride)
        part.count = ITEMS / part.stride;
    part.first = (int)draw((unsigned)(ITEMS - (part.count - 1) * part.stride));
    return part;
}

static MPI_Datatype type_of(Part part)
{
    MPI_Datatype type;
    MPI_Type_vector(part.count, 1, part.stride, MPI_LONG, &type);
    MPI_Type_commit(&type);
    return type;
}

static long combine(MPI_Op op, long a, long b)
{
    if (op == MPI_SUM) return a + b;
    if (op == MPI_BXOR) return a ^ b;
    if (op == MPI_MAX) return a > b ? a : b;
    return a & b;
}

/* Operations between opening and closing. Each rank draws those of all ranks and executes its own. */
enum { PUTS, SUMS, GETS, FETCHES, KINDS };

static void access_one(int origin, int target, int kind, MPI_Op op, unsigned long salt)
{
    static long out[ITEMS], in[ITEMS];
    Part part = draw_part();
    int typed = draw(2) || part.stride > 1, mine = origin == check_rank;
    /* The origin's items may have gaps too. */
    Part here = {0, part.count, part.count * 2 <= ITEMS ? (int)draw(2) + 1 : 1};
    MPI_Datatype there = type_of(part), type = type_of(here);
    MPI_Aint place = base[target] + part.first;
    int count = typed ? 1 : part.count;
    MPI_Datatype target_type = typed ? there : MPI_LONG;
    if (base[target])
        place = base[target] + (MPI_Aint)sizeof(long) * part.first;
    for (int i = 0; i < part.count; i++)
        out[i * here.stride] = (long)(mix(salt + (unsigned long)i) >> 8), in[i * here.stride] = -1;
    if (kind == PUTS && mine)
        MPI_Put(out, 1, type, target, place, count, target_type, win);
    if (kind == SUMS && mine)
        MPI_Accumulate(out, 1, type, target, place, count, target_type, op, win);
    if (kind == GETS && mine) {
        MPI_Get(in, 1, type, target, place, count, target_type, win);
        MPI_Win_flush(target, win);
        for (int i = 0; i < part.count; i++)
            CHECK_EQUAL(in[i * here.stride], reference[target][part.first + i * part.stride]);
    }
    if (kind == FETCHES && mine) { /* one origin for this target: what was there is known */
        MPI_Get_accumulate(out, 1, type, in, 1, type, target, place, count, target_type, op, win);
        MPI_Win_flush(target, win);
        for (int i = 0; i < part.count; i++)
            CHECK_EQUAL(in[i * here.stride], reference[target][part.first + i * part.stride]);
    }
    if (kind == PUTS)
        for (int i = 0; i < part.count; i++)
            reference[target][part.first + i * part.stride] = out[i * here.stride];
    if (kind == SUMS || kind == FETCHES)
        for (int i = 0; i < part.count; i++) {
            long *place_ = &reference[target][part.first + i * part.stride];
            *place_ = combine(op, out[i * here.stride], *place_);
        }
    if (mine && kind == PUTS)
        MPI_Win_flush_local(target, win);
    MPI_Type_free(&there);
    MPI_Type_free(&type);
}

static void round_of(void)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_BXOR, MPI_MAX, MPI_BAND};
    int kind = (int)draw(KINDS), all = (int)draw(2);
    MPI_Op op = ops[draw(4)];
    /* Puts and fetches: each target has one origin in a round; puts of one origin are ordered by flushes. */
    int shift = (int)draw((unsigned)check_size);
    if (all)
        MPI_Win_lock_all(0, win);
    for (int origin = 0; origin < check_size; origin++) {
        int accesses = (int)draw(4);
        for (int k = 0; k < accesses; k++) {
            int target = kind == PUTS || kind == FETCHES ? (origin + shift) % check_size : (int)draw((unsigned)check_size);
            unsigned long salt = mix(state);
            int mine = origin == check_rank;
            if (mine && !all)
                MPI_Win_lock(draw(2) ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0, win);
            else if (!all)
                draw(2);
            access_one(origin, target, kind, op, salt);
            if (mine && all)
                MPI_Win_flush(target, win);
            if (mine && !all)
                MPI_Win_unlock(target, win);
        }
    }
    if (all)
        MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win);
    for (int i = 0; i < ITEMS; i++)
        if (memory[i] != reference[check_rank][i])
            CHECK_EQUAL(memory[i], reference[check_rank][i]);
    MPI_Win_unlock(check_rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const MPI_Aint bytes = ITEMS * sizeof(long);
    int rounds, flavour;
    check_begin(&argc, &argv);
    if (check_size > MOST)
        MPI_Abort(MPI_COMM_WORLD, 2);
    operation = 0;
    state = seed = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
    rounds = argc > 2 ? atoi(argv[2]) : 60;
    for (flavour = 0; flavour < 3; flavour++) {
        memset(reference, 0, sizeof reference);
        memset(base, 0, sizeof base);
        if (flavour == 0) {
            MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
        } else {
            memory = check_memory((size_t)bytes);
            memset(memory, 0, (size_t)bytes);
            if (flavour == 1) {
                MPI_Win_create(memory, bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
            } else {
                MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
                MPI_Win_attach(win, memory, bytes);
                MPI_Get_address(memory, &base[check_rank]);
                MPI_Allgather(MPI_IN_PLACE, 0, MPI_AINT, base, 1, MPI_AINT, MPI_COMM_WORLD);
            }
            MPI_Barrier(MPI_COMM_WORLD);
        }
        for (int round = 0; round < rounds; round++, operation++)
            round_of();
        MPI_Win_free(&win);
        if (flavour)
            free(memory);
    }
    if (check_failures)
        fprintf(stderr, "rank %d: seed %lu, %lu rounds\n", check_rank, (unsigned long)seed, (unsigned long)operation);
    return check_end();
}
