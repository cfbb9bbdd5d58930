/* Random accesses through random views against a model in memory. files_random DIRECTORY SEED OPERATIONS
 * [HINT VALUE]
 *
 * Every rank draws the same numbers and so knows what all ranks write: it does all of that to its copy of the
 * file, and compares what it reads with the copy. Ranks write disjoint bytes; between a write and what reads
 * it all meet. */
#include "check.h"
#include "random.h"

enum { MOST = 200000 };
static unsigned char model[MOST], *data;
static MPI_File file;

/* A view in which each rank has every n-th piece, of one length or of several, or a tile of an array; or all
 * have all. */
struct view {
    MPI_Datatype type;
    MPI_Offset disp;
    int share; /* ranks have disjoint bytes */
};

static struct view make_view(unsigned kind, unsigned a, unsigned b, int rank, int ranks)
{
    struct view view = {MPI_BYTE, b, 0};
    MPI_Datatype inner;
    int piece = 1 + a % 300;
    if (kind == 1 || kind == 2) {
        /* Pieces in turn. */
        MPI_Type_contiguous(piece, MPI_BYTE, &inner);
        MPI_Type_create_resized(inner, 0, (MPI_Aint)piece * ranks + (kind == 2 ? (int)(b % 7) : 0), &view.type);
        MPI_Type_free(&inner);
        view.disp = b + (MPI_Offset)piece * rank;
        view.share = 1;
    } else if (kind == 3) {
        /* Pieces of two lengths. */
        int lengths[2] = {piece, 1 + b % 40}, places[2] = {0, piece * ranks};
        places[0] = piece * rank;
        places[1] += lengths[1] * rank;
        MPI_Type_indexed(2, lengths, places, MPI_BYTE, &inner);
        MPI_Type_create_resized(inner, 0, (MPI_Aint)(piece + lengths[1]) * ranks, &view.type);
        MPI_Type_free(&inner);
        view.disp = b;
        view.share = 1;
    } else if (kind == 4) {
        /* Columns of an array. */
        int sizes[2] = {1 + b % 30, ranks * (1 + a % 20)}, parts[2] = {sizes[0], 1 + a % 20}, starts[2] = {0, rank * (1 + (int)a % 20)};
        MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_BYTE, &view.type);
        view.share = 1;
    }
    if (view.type != MPI_BYTE)
        MPI_Type_commit(&view.type);
    return view;
}

/* Places in the file of `bytes` bytes from byte `first` of a view on, by packing numbers: slow and sure. */
static int places_of(struct view *view, MPI_Offset first, int bytes, int *places)
{
    int size, i = 0;
    MPI_Aint lb, extent;
    MPI_Type_size(view->type, &size);
    MPI_Type_get_extent(view->type, &lb, &extent);
    int *numbers = check_memory(sizeof(int) * (size_t)(extent + 1)), *map = check_memory(sizeof(int) * (size_t)size);
    unsigned char *in = check_memory((size_t)extent + 1), *out = check_memory((size_t)size);
    /* The map of one item, a byte of the index at a time. */
    memset(map, 0, sizeof(int) * (size_t)size);
    for (int shift = 0; shift < 24; shift += 8) {
        int position = 0;
        for (MPI_Aint k = 0; k < extent; k++)
            in[k] = (unsigned char)(k >> shift);
        MPI_Pack(in, 1, view->type, out, size, &position, MPI_COMM_SELF);
        for (int k = 0; k < size; k++)
            map[k] |= out[k] << shift;
    }
    for (i = 0; i < bytes; i++) {
        MPI_Offset at = first + i;
        MPI_Offset place = view->disp + at / size * extent + map[at % size];
        if (place >= MOST)
            break;
        places[i] = (int)place;
    }
    free(numbers), free(map), free(in), free(out);
    return i;
}

static void transfer(int write, unsigned way, MPI_Offset at, void *buffer, int bytes, int expected)
{
    MPI_Status status;
    MPI_Request request;
    int count = -1, code = MPI_SUCCESS;
    switch (way) {
    case 0:
        code = write ? MPI_File_write_at(file, at, buffer, bytes, MPI_BYTE, &status) : MPI_File_read_at(file, at, buffer, bytes, MPI_BYTE, &status);
        break;
    case 1:
        code = write ? MPI_File_write_at_all(file, at, buffer, bytes, MPI_BYTE, &status)
                     : MPI_File_read_at_all(file, at, buffer, bytes, MPI_BYTE, &status);
        break;
    case 2:
        code = write ? MPI_File_iwrite_at(file, at, buffer, bytes, MPI_BYTE, &request) : MPI_File_iread_at(file, at, buffer, bytes, MPI_BYTE, &request);
        MPI_Wait(&request, &status);
        break;
    case 3:
        code = write ? MPI_File_iwrite_at_all(file, at, buffer, bytes, MPI_BYTE, &request)
                     : MPI_File_iread_at_all(file, at, buffer, bytes, MPI_BYTE, &request);
        MPI_Wait(&request, &status);
        break;
    case 4:
        code = write ? MPI_File_write_at_all_begin(file, at, buffer, bytes, MPI_BYTE) : MPI_File_read_at_all_begin(file, at, buffer, bytes, MPI_BYTE);
        code = write ? MPI_File_write_at_all_end(file, buffer, &status) : MPI_File_read_at_all_end(file, buffer, &status);
        break;
    default: {
        /* Memory with gaps: every other byte. */
        MPI_Datatype gaps;
        unsigned char *wide = check_memory(2 * (size_t)bytes + 2);
        MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &gaps);
        MPI_Type_commit(&gaps);
        for (int i = 0; i < bytes; i++)
            wide[2 * i] = ((unsigned char *)buffer)[i];
        code = write ? MPI_File_write_at_all(file, at, wide, 1, gaps, &status) : MPI_File_read_at_all(file, at, wide, 1, gaps, &status);
        for (int i = 0; i < bytes; i++)
            ((unsigned char *)buffer)[i] = wide[2 * i];
        MPI_Type_free(&gaps);
        free(wide);
    }
    }
    CHECK_EQUAL(code, MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, expected);
}

int main(int argc, char **argv)
{
    char name[4096];
    MPI_Info info = MPI_INFO_NULL;
    check_begin(&argc, &argv);
    int *places = check_memory(sizeof(int) * MOST), operations = argc > 3 ? atoi(argv[3]) : 100, end = 0;
    data = check_memory(MOST);
    snprintf(name, sizeof name, "%s/random.%d", argc > 1 ? argv[1] : "/tmp", check_size);
    state = seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
    if (argc > 4) {
        MPI_Info_create(&info);
        for (int i = 4; i + 1 < argc; i += 2)
            MPI_Info_set(info, argv[i], argv[i + 1]);
    }
    if (check_rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file), MPI_SUCCESS);
    for (int done = 0; done < operations && !check_failures; done++) {
        unsigned kind = draw(5), a = draw(1000), b = draw(1000), way = draw(6), write = draw(2), base = draw(3);
        struct view mine = make_view(kind, a, b, check_rank, check_size);
        int most = 1 + (int)draw(base ? 900 : 20000);
        CHECK_EQUAL(MPI_File_set_view(file, mine.disp, MPI_BYTE, mine.type, "native", info), MPI_SUCCESS);
        for (int rank = 0; rank < check_size; rank++) {
            struct view view = make_view(kind, a, b, rank, check_size);
            MPI_Offset at = draw(500);
            int bytes = (int)draw((unsigned)most + 1), expected = 0;
            /* If each rank sees the whole file, each gets a part of its own. */
            if (!view.share)
                at = (MPI_Offset)rank * most;
            bytes = places_of(&view, at, bytes, places);
            if (write) {
                for (int i = 0; i < bytes; i++) {
                    unsigned char byte = (unsigned char)mix(seed + (uint64_t)done * 1000003 + (uint64_t)rank * 7919 + (uint64_t)i);
                    if (rank == check_rank)
                        data[i] = byte;
                    model[places[i]] = byte;
                    if (places[i] >= end)
                        end = places[i] + 1;
                }
                if (rank == check_rank)
                    transfer(1, way, at, data, bytes, bytes);
            } else if (rank == check_rank) {
                for (int i = 0; i < bytes; i++)
                    expected += places[i] < end;
                memset(data, 0xee, MOST);
                transfer(0, way, at, data, bytes, expected);
                for (int i = 0; i < expected; i++)
                    if (data[i] != model[places[i]]) {
                        check_say(__FILE__, __LINE__, "operation %d (seed %llu): byte %d is %d, not %d, kind %u way %u", done,
                                  (unsigned long long)seed, places[i], data[i], model[places[i]], kind, way);
                        break;
                    }
            }
            if (view.type != MPI_BYTE)
                MPI_Type_free(&view.type);
        }
        if (mine.type != MPI_BYTE)
            MPI_Type_free(&mine.type);
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        if (write && done % 4 == 0) {
            /* The whole file is compared: no other byte has changed. */
            MPI_Status status;
            int count;
            MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info);
            MPI_File_read_at(file, 0, data, MOST, MPI_BYTE, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQUAL(count, end);
            CHECK(!memcmp(data, model, (size_t)end));
        }
        /* The others still look. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&file);
    if (check_rank == 0)
        MPI_File_delete(name, MPI_INFO_NULL);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    return check_end();
}
