/* Datatypes: the bytes that each constructor selects, its extent, decoding, packing. */
#include "check.h"
#include <stddef.h>

enum { BYTES = 4096 };

static unsigned char memory[BYTES], packed[2 * BYTES], other[BYTES];

static void fresh(void)
{
    for (int i = 0; i < BYTES; i++)
        memory[i] = (unsigned char)(i * 31 + i / 256);
}

/* Checks that `count` of `type` at memory + `base` give exactly the bytes at `offsets`, in this order. */
static void picks(int line, MPI_Datatype type, int count, int base, const int *offsets, int bytes)
{
    int size, at = 0, room = 0;
    fresh();
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    if (size * count != bytes)
        check_say(__FILE__, line, "size is %d for %d, not %d in all", size, count, bytes);
    MPI_Pack_size(count, type, MPI_COMM_WORLD, &room);
    if (room < bytes)
        check_say(__FILE__, line, "pack size %d is less than %d", room, bytes);
    MPI_Pack(memory + base, count, type, packed, sizeof packed, &at, MPI_COMM_WORLD);
    for (int i = 0; i < bytes && i < at; i++)
        if (packed[i] != memory[base + offsets[i]]) {
            check_say(__FILE__, line, "packed byte %d does not come from offset %d", i, offsets[i]);
            return;
        }
    int end = at;
    at = 0;
    memset(other, 0, sizeof other);
    MPI_Unpack(packed, end, &at, other + base, count, type, MPI_COMM_WORLD);
    for (int i = 0; i < bytes; i++)
        if (other[base + offsets[i]] != memory[base + offsets[i]]) {
            check_say(__FILE__, line, "unpacked byte %d did not go to offset %d", i, offsets[i]);
            return;
        }
    /* The same through a message to oneself. */
    memset(other, 0, sizeof other);
    MPI_Sendrecv(memory + base, count, type, 0, 0, other + base, count, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i++)
        if (other[base + offsets[i]] != memory[base + offsets[i]]) {
            check_say(__FILE__, line, "sent byte %d did not go to offset %d", i, offsets[i]);
            return;
        }
}

/* Writes the offsets of `items` ints that begin at `starts` (bytes). */
static int ints(int *offsets, const int *starts, int items)
{
    for (int i = 0; i < items; i++)
        for (int b = 0; b < 4; b++)
            offsets[4 * i + b] = starts[i] + b;
    return 4 * items;
}

static void extent_is(int line, MPI_Datatype type, long lower, long extent)
{
    MPI_Aint lb, ext;
    MPI_Type_get_extent(type, &lb, &ext);
    if (lb != lower || ext != extent)
        check_say(__FILE__, line, "bounds %ld, %ld, not %ld, %ld", (long)lb, (long)ext, lower, extent);
}

static void simple(void)
{
    int offsets[1024];
    MPI_Datatype type, wide;
    MPI_Type_contiguous(3, MPI_INT, &type);
    picks(__LINE__, type, 2, 0, offsets, ints(offsets, (int[]){0, 4, 8, 12, 16, 20}, 6));
    extent_is(__LINE__, type, 0, 12);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL);

    MPI_Type_vector(2, 2, 3, MPI_INT, &type);
    picks(__LINE__, type, 2, 0, offsets, ints(offsets, (int[]){0, 4, 12, 16, 20, 24, 32, 36}, 8));
    extent_is(__LINE__, type, 0, 20);
    MPI_Type_create_resized(type, -4, 32, &wide);
    extent_is(__LINE__, wide, -4, 32);
    picks(__LINE__, wide, 2, 8, offsets, ints(offsets, (int[]){0, 4, 12, 16, 32, 36, 44, 48}, 8));
    MPI_Aint lb, ext;
    MPI_Type_get_true_extent(wide, &lb, &ext);
    CHECK(lb == 0 && ext == 20);
    MPI_Type_free(&wide);
    MPI_Type_free(&type);

    MPI_Type_vector(3, 1, -2, MPI_INT, &type);
    picks(__LINE__, type, 1, 64, offsets, ints(offsets, (int[]){0, -8, -16}, 3));
    extent_is(__LINE__, type, -16, 20);
    MPI_Type_free(&type);

    MPI_Type_create_hvector(3, 1, 10, MPI_INT, &type);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, (int[]){0, 10, 20}, 3));
    MPI_Type_free(&type);
}

static void indexed(void)
{
    int offsets[1024];
    MPI_Datatype type;
    MPI_Type_indexed(3, (int[]){2, 0, 1}, (int[]){5, 100, 1}, MPI_INT, &type);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, (int[]){20, 24, 4}, 3));
    extent_is(__LINE__, type, 4, 24);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed(2, (int[]){1, 2}, (MPI_Aint[]){6, 30}, MPI_INT, &type);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, (int[]){6, 30, 34}, 3));
    MPI_Type_free(&type);
    MPI_Type_create_indexed_block(2, 2, (int[]){4, 0}, MPI_INT, &type);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, (int[]){16, 20, 0, 4}, 4));
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){9, 1}, MPI_INT, &type);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, (int[]){9, 1}, 2));
    MPI_Type_free(&type);
}

struct record {
    char letter;
    double number;
    int list[3];
};

static void structs(void)
{
    int offsets[256], n = 0;
    MPI_Datatype type, two;
    MPI_Aint places[] = {offsetof(struct record, letter), offsetof(struct record, number), offsetof(struct record, list)};
    MPI_Type_create_struct(3, (int[]){1, 1, 3}, places, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_INT}, &type);
    for (int item = 0; item < 2; item++) {
        int base = item * (int)sizeof(struct record);
        offsets[n++] = base;
        for (int b = 0; b < 8; b++)
            offsets[n++] = base + (int)places[1] + b;
        for (int b = 0; b < 12; b++)
            offsets[n++] = base + (int)places[2] + b;
    }
    extent_is(__LINE__, type, 0, (long)sizeof(struct record)); /* padded as the compiler does */
    picks(__LINE__, type, 2, 0, offsets, n);
    MPI_Type_contiguous(2, type, &two);
    picks(__LINE__, two, 1, 0, offsets, n);
    MPI_Type_free(&two);
    MPI_Type_free(&type);
}

static void arrays(void)
{
    int offsets[1024], starts[64], n = 0;
    MPI_Datatype type;
    MPI_Type_create_subarray(3, (int[]){4, 5, 6}, (int[]){2, 3, 2}, (int[]){1, 1, 3}, MPI_ORDER_C, MPI_INT, &type);
    for (int i = 1; i < 3; i++)
        for (int j = 1; j < 4; j++)
            for (int k = 3; k < 5; k++)
                starts[n++] = 4 * ((i * 5 + j) * 6 + k);
    extent_is(__LINE__, type, 0, 4 * 4 * 5 * 6);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, starts, n));
    MPI_Type_free(&type);
    MPI_Type_create_subarray(2, (int[]){4, 5}, (int[]){2, 2}, (int[]){1, 2}, MPI_ORDER_FORTRAN, MPI_INT, &type);
    n = 0;
    for (int j = 2; j < 4; j++)
        for (int i = 1; i < 3; i++)
            starts[n++] = 4 * (j * 4 + i);
    picks(__LINE__, type, 1, 0, offsets, ints(offsets, starts, n));
    MPI_Type_free(&type);
}

/* Checks that the parts of a distributed array on all processes cover it once. */
static void distributed(int how, int argument)
{
    enum { ROWS = 10, COLUMNS = 7 };
    int seen[ROWS * COLUMNS] = {0}, whole[ROWS * COLUMNS], part[ROWS * COLUMNS], size, at;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        whole[i] = i;
    for (int rank = 0; rank < 6; rank++) {
        MPI_Datatype type;
        MPI_Type_create_darray(6, rank, 2, (int[]){ROWS, COLUMNS}, (int[]){how, MPI_DISTRIBUTE_BLOCK},
                               (int[]){argument, MPI_DISTRIBUTE_DFLT_DARG}, (int[]){3, 2}, MPI_ORDER_C, MPI_INT, &type);
        MPI_Type_commit(&type);
        extent_is(__LINE__, type, 0, 4 * ROWS * COLUMNS);
        MPI_Type_size(type, &size);
        at = 0;
        MPI_Pack(whole, 1, type, packed, sizeof packed, &at, MPI_COMM_WORLD);
        at = 0;
        MPI_Unpack(packed, size, &at, part, size / 4, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < size / 4; i++)
            seen[part[i]]++;
        MPI_Type_free(&type);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++)
        CHECK_EQUAL(seen[i], 1);
}

static void taken_apart(void)
{
    int integers, addresses, types, combiner, i[8];
    MPI_Aint a[8];
    MPI_Datatype type, copy, inner[4];
    MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &types, &combiner);
    CHECK_EQUAL(combiner, MPI_COMBINER_NAMED);
    MPI_Type_vector(4, 2, 9, MPI_DOUBLE, &type);
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    CHECK(integers == 3 && addresses == 0 && types == 1 && combiner == MPI_COMBINER_VECTOR);
    MPI_Type_get_contents(type, 3, 0, 1, i, a, inner);
    CHECK(i[0] == 4 && i[1] == 2 && i[2] == 9 && inner[0] == MPI_DOUBLE);
    MPI_Type_dup(type, &copy);
    MPI_Type_get_envelope(copy, &integers, &addresses, &types, &combiner);
    CHECK_EQUAL(combiner, MPI_COMBINER_DUP);
    MPI_Type_get_contents(copy, 0, 0, 1, i, a, inner);
    MPI_Type_free(&inner[0]);
    MPI_Type_free(&copy);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed(2, (int[]){1, 3}, (MPI_Aint[]){40, 8}, MPI_SHORT, &type);
    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    CHECK(integers == 3 && addresses == 2 && types == 1 && combiner == MPI_COMBINER_HINDEXED);
    MPI_Type_get_contents(type, 3, 2, 1, i, a, inner);
    CHECK(i[0] == 2 && i[1] == 1 && i[2] == 3 && a[0] == 40 && a[1] == 8 && inner[0] == MPI_SHORT);
    MPI_Type_free(&type);
}

static void counted(void)
{
    MPI_Datatype pair;
    MPI_Status status;
    int three[3] = {1, 2, 3}, back[4], count, elements;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Sendrecv(three, 3, MPI_INT, 0, 1, back, 2, pair, 0, 1, MPI_COMM_SELF, &status);
    MPI_Get_count(&status, pair, &count);
    CHECK_EQUAL(count, MPI_UNDEFINED);
    MPI_Get_elements(&status, pair, &elements);
    CHECK_EQUAL(elements, 3);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 3);
    MPI_Status_set_elements(&status, pair, 2);
    MPI_Get_elements(&status, pair, &elements);
    CHECK_EQUAL(elements, 2);
    MPI_Type_free(&pair);
}

static void external(void)
{
    int32_t number = 0x01020304, back = 0;
    double real = 1.0, real_back = 0;
    MPI_Aint at = 0, size;
    unsigned char bytes[16];
    MPI_Pack_external_size("external32", 1, MPI_INT32_T, &size);
    CHECK_EQUAL(size, 4);
    MPI_Pack_external("external32", &number, 1, MPI_INT32_T, bytes, sizeof bytes, &at);
    MPI_Pack_external("external32", &real, 1, MPI_DOUBLE, bytes, sizeof bytes, &at);
    CHECK_EQUAL(at, 12);
    CHECK(bytes[0] == 1 && bytes[3] == 4 && bytes[4] == 0x3f && bytes[5] == 0xf0); /* big endian */
    at = 0;
    MPI_Unpack_external("external32", bytes, 12, &at, &back, 1, MPI_INT32_T);
    MPI_Unpack_external("external32", bytes, 12, &at, &real_back, 1, MPI_DOUBLE);
    CHECK(back == number && real_back == real);
}

static void names_and_addresses(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, x[4];
    MPI_Aint first, third;
    MPI_Datatype type;
    MPI_Type_get_name(MPI_DOUBLE, name, &length);
    CHECK(!strcmp(name, "MPI_DOUBLE"));
    MPI_Type_contiguous(4, MPI_CHAR, &type);
    MPI_Type_get_name(type, name, &length);
    CHECK(length == 0 && !name[0]);
    MPI_Type_set_name(type, "four");
    MPI_Type_get_name(type, name, &length);
    CHECK(length == 4 && !strcmp(name, "four"));
    MPI_Type_free(&type);
    MPI_Get_address(&x[0], &first);
    MPI_Get_address(&x[2], &third);
    CHECK_EQUAL(MPI_Aint_diff(third, first), 2 * (long)sizeof(int));
    CHECK(MPI_Aint_add(first, 2 * (MPI_Aint)sizeof(int)) == third);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type);
    MPI_Type_size(type, &length);
    CHECK_EQUAL(length, 8);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    simple();
    indexed();
    structs();
    arrays();
    distributed(MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG);
    distributed(MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG);
    distributed(MPI_DISTRIBUTE_CYCLIC, 2);
    taken_apart();
    counted();
    external();
    names_and_addresses();
    return check_end();
}
