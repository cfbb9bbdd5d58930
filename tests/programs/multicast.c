/* Broadcasts drawn at random: roots, datatypes, sizes, communicators, blocking and not, with pauses; between
 * them allgathers, allreduces and barriers. What every byte has to be is known everywhere.
 * usage: multicast [seed [broadcasts [largest [pauses in microseconds]]]] */
#include "check.h"
#include "random.h"

#include <unistd.h>

enum { COMMS = 4, UNDER_WAY = 3 };

/* One broadcast: its parameters, and this rank's memory for it. */
struct broadcast {
    uint64_t number;
    int count, form, root, rank;
    size_t bytes, extent;
    MPI_Datatype type;
    unsigned char *memory;
    MPI_Request request;
};

static unsigned char byte_of(uint64_t number, size_t place)
{
    return (unsigned char)(mix(number * 1000003 + place / 8) >> (place % 8 * 8));
}

static void begin(struct broadcast *it, MPI_Comm comm, unsigned largest)
{
    int size;
    static const unsigned steps[] = {1, 16, 700, 1400, 1500, 9000, 65000, 66000, 300000, 1 << 20, 8 << 20};
    unsigned most = steps[draw(11)];
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &it->rank);
    it->number = operation++;
    it->root = (int)draw((unsigned)size);
    it->form = (int)draw(3);
    it->bytes = draw(most > largest ? largest : most) + draw(2);
    it->type = MPI_BYTE, it->count = (int)it->bytes, it->extent = it->bytes;
    if (it->form == 1) {
        it->bytes = it->bytes / 8 * 8, it->count = (int)(it->bytes / 8), it->extent = it->bytes;
        it->type = MPI_DOUBLE;
    } else if (it->form == 2) {
        /* Every other three of six bytes. */
        it->count = (int)(it->bytes / 3), it->bytes = (size_t)it->count * 3;
        it->extent = (size_t)it->count * 6;
        MPI_Type_create_resized(MPI_BYTE, 0, 1, &it->type);
        MPI_Datatype three;
        MPI_Type_contiguous(3, it->type, &three);
        MPI_Type_free(&it->type);
        MPI_Type_create_resized(three, 0, 6, &it->type);
        MPI_Type_free(&three);
        MPI_Type_commit(&it->type);
    }
    it->memory = check_memory(it->extent);
    memset(it->memory, 0xEE, it->extent);
    if (it->rank == it->root)
        for (size_t i = 0; i < it->bytes; i++)
            it->memory[it->form == 2 ? i / 3 * 6 + i % 3 : i] = byte_of(it->number, i);
}

static void end(struct broadcast *it)
{
    for (size_t i = 0; i < it->bytes; i++) {
        unsigned char got = it->memory[it->form == 2 ? i / 3 * 6 + i % 3 : i];
        if (got != byte_of(it->number, i)) {
            check_say(__FILE__, __LINE__, "broadcast %llu of %zu bytes from %d: byte %zu is %d",
                      (unsigned long long)it->number, it->bytes, it->root, i, got);
            break;
        }
    }
    if (it->form == 2) {
        for (int i = 0; i < it->count; i++)
            CHECK(it->memory[(size_t)i * 6 + 4] == 0xEE);
        MPI_Type_free(&it->type);
    }
    free(it->memory);
}

/* Runs an operation in which every rank has data for all. */
static void exchange(MPI_Comm comm, unsigned largest)
{
    int size, rank;
    uint64_t number = operation++ * 1024;
    unsigned form = draw(4);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &rank);
    if (form == 0) {
        MPI_Barrier(comm);
    } else if (form == 1) {
        enum { MOST = 20 };
        uint64_t all[MOST], wanted[MOST] = {0};
        int count = 1 + (int)draw(MOST);
        for (int i = 0; i < count; i++) {
            for (int other = 0; other < size; other++)
                wanted[i] += mix(number + (uint64_t)(other * MOST + i));
            all[i] = mix(number + (uint64_t)(rank * MOST + i));
        }
        MPI_Allreduce(MPI_IN_PLACE, all, count, MPI_UINT64_T, MPI_SUM, comm);
        for (int i = 0; i < count; i++)
            CHECK(all[i] == wanted[i]);
    } else {
        size_t bytes = form == 2 ? draw(100) : draw(largest);
        unsigned char *mine = check_memory(bytes + 1), *all = check_memory(bytes * (size_t)size + 1);
        for (size_t i = 0; i < bytes; i++)
            mine[i] = byte_of(number + (uint64_t)rank, i);
        memset(all, 0xEE, bytes * (size_t)size + 1);
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm);
        for (int other = 0; other < size; other++)
            for (size_t i = 0; i < bytes; i++)
                if (all[(size_t)other * bytes + i] != byte_of(number + (uint64_t)other, i)) {
                    check_say(__FILE__, __LINE__, "allgather of %zu bytes: byte %zu of rank %d", bytes, i,
                              other);
                    i = bytes;
                }
        CHECK(all[bytes * (size_t)size] == 0xEE);
        free(mine);
        free(all);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    check_begin(&argc, &argv);
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 300;
    unsigned largest = argc > 3 ? (unsigned)atoi(argv[3]) : 100000;
    unsigned pauses = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
    seed = argc > 1 ? (uint64_t)atoll(argv[1]) : 1, state = seed;
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &comms[2]);
    MPI_Comm_split(MPI_COMM_WORLD, check_rank < check_size / 2, check_rank, &comms[3]);
    for (unsigned round = 0; round < rounds; round++) {
        struct broadcast all[UNDER_WAY];
        /* The same communicator for halves draws the same numbers, so all stay in step. */
        unsigned blocking = draw(3), several = blocking ? 1 : 1 + draw(UNDER_WAY), which = draw(COMMS);
        uint64_t late = mix(seed ^ (round * 77 + (uint64_t)check_rank)) % (pauses + 1);
        if (pauses && late % 8 == 0)
            usleep((useconds_t)late);
        if (draw(4) == 0)
            exchange(comms[which], largest);
        for (unsigned i = 0; i < several; i++) {
            begin(&all[i], comms[which], largest);
            if (blocking)
                MPI_Bcast(all[i].memory, all[i].count, all[i].type, all[i].root, comms[which]);
            else
                MPI_Ibcast(all[i].memory, all[i].count, all[i].type, all[i].root, comms[which],
                           &all[i].request);
        }
        /* Not in the order in which they began. */
        for (unsigned i = several; i-- > 0 && !blocking;)
            MPI_Wait(&all[i].request, MPI_STATUS_IGNORE);
        for (unsigned i = 0; i < several; i++)
            end(&all[i]);
    }
    for (int i = 0; i < COMMS; i++)
        MPI_Comm_free(&comms[i]);
    return check_end();
}
