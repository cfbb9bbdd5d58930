/* Datatypes (MPI-5, chapter 5). */
#include "rows.h"

static MPI_Comm self = MPI_COMM_SELF;

/* Size and extent of predefined types. */
static void predefined(void)
{
    static const struct {
        const char *name;
        MPI_Datatype type;
        int size;
    } rows[] = {
        {"MPI_CHAR", MPI_CHAR, 1}, {"MPI_SHORT", MPI_SHORT, 2}, {"MPI_INT", MPI_INT, 4}, {"MPI_LONG", MPI_LONG, sizeof(long)},
        {"MPI_LONG_LONG", MPI_LONG_LONG, 8}, {"MPI_SIGNED_CHAR", MPI_SIGNED_CHAR, 1}, {"MPI_UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, 1},
        {"MPI_UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, 2}, {"MPI_UNSIGNED", MPI_UNSIGNED, 4}, {"MPI_UNSIGNED_LONG", MPI_UNSIGNED_LONG, sizeof(long)},
        {"MPI_UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, 8}, {"MPI_FLOAT", MPI_FLOAT, 4}, {"MPI_DOUBLE", MPI_DOUBLE, 8},
        {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, sizeof(long double)}, {"MPI_WCHAR", MPI_WCHAR, sizeof(wchar_t)}, {"MPI_C_BOOL", MPI_C_BOOL, 1},
        {"MPI_INT8_T", MPI_INT8_T, 1}, {"MPI_INT16_T", MPI_INT16_T, 2}, {"MPI_INT32_T", MPI_INT32_T, 4}, {"MPI_INT64_T", MPI_INT64_T, 8},
        {"MPI_UINT8_T", MPI_UINT8_T, 1}, {"MPI_UINT16_T", MPI_UINT16_T, 2}, {"MPI_UINT32_T", MPI_UINT32_T, 4}, {"MPI_UINT64_T", MPI_UINT64_T, 8},
        {"MPI_C_COMPLEX", MPI_C_COMPLEX, 8}, {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, 16}, {"MPI_BYTE", MPI_BYTE, 1},
        {"MPI_PACKED", MPI_PACKED, 1}, {"MPI_AINT", MPI_AINT, sizeof(MPI_Aint)}, {"MPI_COUNT", MPI_COUNT, sizeof(MPI_Count)}, {"MPI_OFFSET", MPI_OFFSET, sizeof(MPI_Offset)},
        {"MPI_2INT", MPI_2INT, 8}, {"MPI_SHORT_INT", MPI_SHORT_INT, 6}, {"MPI_DOUBLE_INT", MPI_DOUBLE_INT, 12}, {"MPI_FLOAT_INT", MPI_FLOAT_INT, 8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int size = -1, length, numbers[4];
        char name[MPI_MAX_OBJECT_NAME];
        MPI_Count large;
        MPI_Type_size(rows[i].type, &size);
        ROW("5.1.5", rows[i].name, size, rows[i].size);
        MPI_Type_size_c(rows[i].type, &large);
        ROW("5.1.5", rows[i].name, large, rows[i].size);
        MPI_Type_get_envelope(rows[i].type, &numbers[0], &numbers[1], &numbers[2], &numbers[3]);
        ROW("5.1.13", rows[i].name, numbers[3], MPI_COMBINER_NAMED);
        MPI_Type_get_name(rows[i].type, name, &length);
        if (strcmp(rows[i].name, "MPI_LONG_LONG"))
            TEXT("7.8", "name of a predefined type", name, rows[i].name);
        ROW("7.8", "length of its name", length, strlen(name));
        MPI_Datatype copy = rows[i].type;
        REFUSED("5.1.9", "free of a predefined type", MPI_Type_free(&copy), MPI_ERR_TYPE);
        ALLOWED("5.1.9", "commit of a predefined type", MPI_Type_commit(&copy));
    }
}

static void bounds(MPI_Datatype type, const char *what, long lower, long extent, long true_lower, long true_extent, int size)
{
    MPI_Aint lb, ext, tlb, text;
    MPI_Count large[4];
    int bytes;
    MPI_Type_get_extent(type, &lb, &ext);
    MPI_Type_get_true_extent(type, &tlb, &text);
    MPI_Type_size(type, &bytes);
    ROW("5.1.7", what, lb, lower);
    ROW("5.1.7", what, ext, extent);
    ROW("5.1.8", what, tlb, true_lower);
    ROW("5.1.8", what, text, true_extent);
    ROW("5.1.5", what, bytes, size);
    MPI_Type_get_extent_c(type, &large[0], &large[1]);
    MPI_Type_get_true_extent_c(type, &large[2], &large[3]);
    HOLDS("5.1.7", what, large[0] == lower && large[1] == extent && large[2] == true_lower && large[3] == true_extent);
    MPI_Type_free(&type);
}

static void constructors(void)
{
    MPI_Datatype type, inner;
    int lengths[] = {1, 2}, places[] = {2, 0}, sizes[] = {4, 6}, parts[] = {2, 3}, starts[] = {1, 2};
    MPI_Aint bytes[] = {8, -4};
    MPI_Datatype types[] = {MPI_INT, MPI_CHAR};
    MPI_Type_contiguous(3, MPI_INT, &type);
    bounds(type, "contiguous", 0, 12, 0, 12, 12);
    MPI_Type_contiguous(0, MPI_INT, &type);
    bounds(type, "contiguous of nothing", 0, 0, 0, 0, 0);
    MPI_Type_vector(2, 1, 3, MPI_INT, &type);
    bounds(type, "vector", 0, 16, 0, 16, 8);
    MPI_Type_vector(2, 1, -3, MPI_INT, &type);
    bounds(type, "vector with a negative stride", -12, 16, -12, 16, 8);
    MPI_Type_create_hvector(2, 1, 12, MPI_INT, &type);
    bounds(type, "hvector", 0, 16, 0, 16, 8);
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    bounds(type, "indexed", 0, 12, 0, 12, 12);
    MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type);
    bounds(type, "hindexed", -4, 16, -4, 16, 12);
    MPI_Type_create_indexed_block(2, 1, places, MPI_INT, &type);
    bounds(type, "indexed_block", 0, 12, 0, 12, 8);
    MPI_Type_create_hindexed_block(2, 1, bytes, MPI_INT, &type);
    bounds(type, "hindexed_block", -4, 16, -4, 16, 8);
    MPI_Type_create_struct(2, lengths, (MPI_Aint[]){0, 4}, types, &type);
    bounds(type, "struct with an epsilon", 0, 8, 0, 6, 6);
    MPI_Type_create_resized(MPI_INT, -2, 20, &type);
    bounds(type, "resized", -2, 20, 0, 4, 4);
    MPI_Type_create_resized(MPI_INT, 0, 0, &type);
    bounds(type, "resized to nothing", 0, 0, 0, 4, 4);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    bounds(type, "subarray in C's order", 0, 96, 32, 36, 24);
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    bounds(type, "subarray in Fortran's order", 0, 96, 36, 40, 24);
    MPI_Type_contiguous(2, MPI_SHORT, &inner);
    MPI_Type_dup(inner, &type);
    MPI_Type_free(&inner);
    bounds(type, "dup outlives its origin", 0, 4, 0, 4, 4);
    MPI_Type_create_darray(4, 1, 1, (int[]){10}, (int[]){MPI_DISTRIBUTE_BLOCK}, (int[]){MPI_DISTRIBUTE_DFLT_DARG}, (int[]){4}, MPI_ORDER_C, MPI_INT, &type);
    bounds(type, "darray of blocks", 0, 40, 12, 12, 12);
    MPI_Type_create_darray(2, 1, 1, (int[]){5}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){1}, (int[]){2}, MPI_ORDER_C, MPI_INT, &type);
    bounds(type, "darray of cycles", 0, 20, 4, 12, 8);
}

static void refused(void)
{
    MPI_Datatype type = MPI_DATATYPE_NULL, types[] = {MPI_DATATYPE_NULL};
    int zero = 0, minus = -1, numbers[4], pair[] = {4, 4}, big[] = {5, 5}, none[] = {0, 0};
    MPI_Aint at = 0;
    REFUSED("5.1.2", "contiguous of a negative count", MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    REFUSED("5.1.2", "contiguous of MPI_DATATYPE_NULL", MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    REFUSED("5.1.2", "vector of a negative count", MPI_Type_vector(-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    REFUSED("5.1.2", "vector of blocks of negative length", MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_ARG);
    REFUSED("5.1.2", "indexed of a block of negative length", MPI_Type_indexed(1, &minus, &zero, MPI_INT, &type), MPI_ERR_ARG);
    REFUSED("5.1.2", "struct with MPI_DATATYPE_NULL", MPI_Type_create_struct(1, (int[]){1}, &at, types, &type), MPI_ERR_TYPE);
    REFUSED("5.1.3", "subarray larger than the array", MPI_Type_create_subarray(2, pair, big, none, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    REFUSED("5.1.3", "subarray that starts below zero", MPI_Type_create_subarray(1, pair, (int[]){1}, &minus, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG);
    REFUSED("5.1.3", "subarray in no order", MPI_Type_create_subarray(1, pair, (int[]){1}, none, 4711, MPI_INT, &type), MPI_ERR_ARG);
    REFUSED("5.1.9", "free of MPI_DATATYPE_NULL", MPI_Type_free(&type), MPI_ERR_TYPE);
    REFUSED("5.1.9", "commit of MPI_DATATYPE_NULL", MPI_Type_commit(&type), MPI_ERR_TYPE);
    REFUSED("5.1.13", "envelope of MPI_DATATYPE_NULL", MPI_Type_get_envelope(MPI_DATATYPE_NULL, &numbers[0], &numbers[1], &numbers[2], &numbers[3]), MPI_ERR_TYPE);
    REFUSED("5.1.13", "contents of a predefined type", MPI_Type_get_contents(MPI_INT, 0, 0, 0, numbers, &at, types), MPI_ERR_TYPE);
    REFUSED("5.1.10", "dup of MPI_DATATYPE_NULL", MPI_Type_dup(MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    HOLDS("5.1", "nothing was made", type == MPI_DATATYPE_NULL);
}

static void decoding(void)
{
    MPI_Datatype type, types[4];
    int integers[16], ni, na, nd, combiner;
    MPI_Aint addresses[4];
    MPI_Count counts[8], nl, nc[3];
    MPI_Type_vector(3, 2, 5, MPI_DOUBLE, &type);
    MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner);
    HOLDS("5.1.13", "envelope of a vector", ni == 3 && na == 0 && nd == 1 && combiner == MPI_COMBINER_VECTOR);
    MPI_Type_get_contents(type, 3, 0, 1, integers, addresses, types);
    HOLDS("5.1.13", "contents of a vector", integers[0] == 3 && integers[1] == 2 && integers[2] == 5 && types[0] == MPI_DOUBLE);
    REFUSED("5.1.13", "contents with too few places", MPI_Type_get_contents(type, 2, 0, 1, integers, addresses, types), MPI_ERR_ARG);
    MPI_Type_free(&type);
    MPI_Type_vector_c(3, 2, 5, MPI_DOUBLE, &type);
    REFUSED("5.1.13", "envelope of a type of large counts by the function of small ones", MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner), MPI_ERR_TYPE);
    MPI_Type_get_envelope_c(type, &nc[0], &nc[1], &nl, &nc[2], &combiner);
    HOLDS("5.1.13", "envelope of a type of large counts", nc[0] == 0 && nc[1] == 0 && nl == 3 && nc[2] == 1 && combiner == MPI_COMBINER_VECTOR);
    MPI_Type_get_contents_c(type, 0, 0, 3, 1, integers, addresses, counts, types);
    HOLDS("5.1.13", "contents of a type of large counts", counts[0] == 3 && counts[2] == 5 && types[0] == MPI_DOUBLE);
    MPI_Type_free(&type);
    MPI_Type_create_resized(MPI_INT, 4, 12, &type);
    MPI_Type_get_contents(type, 0, 2, 1, integers, addresses, types);
    HOLDS("5.1.13", "contents of a resized type", addresses[0] == 4 && addresses[1] == 12 && types[0] == MPI_INT);
    MPI_Type_free(&type);
    MPI_Type_dup(MPI_INT, &type);
    MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner);
    HOLDS("5.1.13", "envelope of a dup", ni == 0 && na == 0 && nd == 1 && combiner == MPI_COMBINER_DUP);
    MPI_Type_free(&type);
    MPI_Type_create_struct(2, (int[]){1, 2}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_CHAR}, &type);
    MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner);
    HOLDS("5.1.13", "envelope of a struct", ni == 3 && na == 2 && nd == 2 && combiner == MPI_COMBINER_STRUCT);
    MPI_Type_get_contents(type, 3, 2, 2, integers, addresses, types);
    HOLDS("5.1.13", "contents of a struct", integers[0] == 2 && integers[2] == 2 && addresses[1] == 8 && types[1] == MPI_CHAR);
    MPI_Type_free(&type);
    MPI_Type_create_subarray(2, (int[]){4, 6}, (int[]){2, 3}, (int[]){1, 2}, MPI_ORDER_FORTRAN, MPI_INT, &type);
    MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner);
    HOLDS("5.1.13", "envelope of a subarray", ni == 8 && na == 0 && nd == 1 && combiner == MPI_COMBINER_SUBARRAY);
    MPI_Type_get_contents(type, 8, 0, 1, integers, addresses, types);
    HOLDS("5.1.13", "contents of a subarray", integers[0] == 2 && integers[1] == 4 && integers[4] == 3 && integers[6] == 2 && integers[7] == MPI_ORDER_FORTRAN);
    MPI_Type_free(&type);
    MPI_Type_create_f90_real(6, 30, &type);
    MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner);
    HOLDS("5.1.13", "envelope of a real of Fortran", ni == 2 && na == 0 && nd == 0 && combiner == MPI_COMBINER_F90_REAL);
    REFUSED("19.1.9", "free of a real of Fortran", MPI_Type_free(&type), MPI_ERR_TYPE);
}

static void packing(void)
{
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, position = 0, size, n;
    MPI_Count elements, large;
    MPI_Aint external, at = 0;
    char buffer[256];
    MPI_Datatype pair;
    MPI_Status status;
    MPI_Pack_size(4, MPI_INT, self, &size);
    HOLDS("5.2", "pack size of four integers", size >= 16);
    ALLOWED("5.2", "pack", MPI_Pack(out, 4, MPI_INT, buffer, sizeof buffer, &position, self));
    HOLDS("5.2", "moves the position", position >= 16 && position <= size);
    size = position, position = 0;
    ALLOWED("5.2", "unpack", MPI_Unpack(buffer, size, &position, in, 4, MPI_INT, self));
    HOLDS("5.2", "gives the same", position == size && in[3] == 4);
    position = 0;
    REFUSED("5.2", "pack into too little room", MPI_Pack(out, 4, MPI_INT, buffer, 10, &position, self), MPI_ERR_TRUNCATE);
    position = 0;
    REFUSED("5.2", "unpack of more than there is", MPI_Unpack(buffer, 10, &position, in, 4, MPI_INT, self), MPI_ERR_TRUNCATE);
    MPI_Pack_external_size("external32", 4, MPI_INT, &external);
    ROW("5.3", "external size of four integers", external, 16);
    MPI_Pack_external_size("external32", 1, MPI_LONG_DOUBLE, &external);
    ROW("14.5.2", "external size of a long double", external, 16);
    MPI_Pack_external_size("external32", 1, MPI_LONG, &external);
    ROW("14.5.2", "external size of a long", external, 4);
    MPI_Pack_external_size("external32", 1, MPI_WCHAR, &external);
    ROW("14.5.2", "external size of a wide character", external, 2);
    MPI_Pack_external("external32", out, 1, MPI_INT, buffer, sizeof buffer, &at);
    HOLDS("14.5.2", "external32 is big-endian", at == 4 && buffer[3] == 1 && buffer[0] == 0);
    at = 0, in[0] = 0;
    MPI_Unpack_external("external32", buffer, 4, &at, in, 1, MPI_INT);
    ROW("5.3", "unpack of external data", in[0], 1);
    REFUSED("5.3", "a representation that is not known", MPI_Pack_external("nonsense", out, 1, MPI_INT, buffer, sizeof buffer, &at), MPI_ERR_ARG);

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Sendrecv(out, 3, MPI_INT, 0, 1, in, 2, pair, 0, 1, self, &status);
    MPI_Get_count(&status, pair, &n);
    ROW("5.1.11", "count of one and a half items", n, MPI_UNDEFINED);
    MPI_Get_elements(&status, pair, &n);
    ROW("5.1.11", "elements of them", n, 3);
    MPI_Get_elements_c(&status, pair, &elements);
    ROW("5.1.11", "the same as a large count", elements, 3);
    MPI_Status_set_elements_c(&status, MPI_INT, (MPI_Count)1 << 33);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("5.1.11", "a count that an int cannot hold", n, MPI_UNDEFINED);
    MPI_Get_count_c(&status, MPI_INT, &large);
    ROW("5.1.11", "as a large count", large, (MPI_Count)1 << 33);
    MPI_Type_free(&pair);
    MPI_Type_contiguous(0, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Status_set_elements(&status, MPI_INT, 0);
    MPI_Get_count(&status, pair, &n);
    ROW("3.2.5", "count of no bytes in a type of size zero", n, 0);
    MPI_Type_free(&pair);
    MPI_Type_contiguous_c((MPI_Count)1 << 34, MPI_BYTE, &pair);
    MPI_Type_size(pair, &n);
    ROW("5.1.5", "a size that an int cannot hold", n, MPI_UNDEFINED);
    MPI_Type_size_c(pair, &large);
    ROW("5.1.5", "as a large count", large, (MPI_Count)1 << 34);
    MPI_Type_free(&pair);
}

/* Duplicates and what they keep (5.1.10), types of no size, attributes. */
static void duplicates(void)
{
    MPI_Datatype type, copy, empty;
    int x[2] = {1, 2}, y[2] = {0}, size, key, flag;
    MPI_Aint lb, extent;
    void *value;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_dup(type, &copy);
    REFUSED("5.1.10", "a duplicate of a type that is not committed", MPI_Sendrecv(x, 1, copy, 0, 1, y, 1, copy, 0, 1, self, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    MPI_Type_free(&copy);
    MPI_Type_commit(&type);
    ALLOWED("5.1.9", "commit twice", MPI_Type_commit(&type));
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_set_attr(type, key, x);
    MPI_Type_dup(type, &copy);
    ALLOWED("5.1.10", "a duplicate of a committed type", MPI_Sendrecv(x, 1, copy, 0, 1, y, 1, copy, 0, 1, self, MPI_STATUS_IGNORE));
    ROW("5.1.10", "sends the same", y[1], 2);
    MPI_Type_get_attr(copy, key, &value, &flag);
    HOLDS("7.7.4", "and has the attributes", flag && value == x);
    MPI_Type_free(&copy);
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&key);
    MPI_Type_create_struct(0, NULL, NULL, NULL, &empty);
    MPI_Type_commit(&empty);
    MPI_Type_size(empty, &size);
    ROW("5.1.2", "size of a struct of nothing", size, 0);
    ALLOWED("3.2", "messages of it", MPI_Sendrecv(x, 1, empty, 0, 1, y, 1, empty, 0, 1, self, MPI_STATUS_IGNORE));
    MPI_Type_free(&empty);
    MPI_Type_create_struct(2, (int[]){1, 0}, (MPI_Aint[]){0, 100}, (MPI_Datatype[]){MPI_INT, MPI_INT}, &empty);
    MPI_Type_get_extent(empty, &lb, &extent);
    ROW("5.1.2", "a block of no items has no place", extent, 4);
    MPI_Type_free(&empty);
    MPI_Type_indexed(0, NULL, NULL, MPI_INT, &empty);
    MPI_Type_get_extent(empty, &lb, &extent);
    HOLDS("5.1.2", "an indexed type of no blocks", lb == 0 && extent == 0);
    MPI_Type_free(&empty);
    MPI_Type_create_resized(MPI_INT, -8, 4, &type);
    MPI_Type_contiguous(3, type, &copy);
    MPI_Type_get_extent(copy, &lb, &extent);
    HOLDS("5.1.7", "items of a resized type", lb == -8 && extent == 12);
    MPI_Type_free(&copy);
    MPI_Type_free(&type);
    MPI_Type_create_f90_real(MPI_UNDEFINED, 300, &type);
    MPI_Type_size(type, &size);
    ROW("19.1.9", "real by its range alone", size, 8);
    MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &type);
    MPI_Type_size(type, &size);
    ROW("19.1.9", "complex by its precision alone", size, 8);
    REFUSED("19.1.9", "real by nothing", MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &type), MPI_ERR_ARG);
}

/* Pairs for all values and indices that MPI_MINLOC can have (6.9.4). */
static void pairs(void)
{
    const MPI_Datatype values[] = {MPI_INT8_T, MPI_UINT16_T, MPI_INT, MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_AINT, MPI_COUNT};
    const MPI_Datatype indices[] = {MPI_INT8_T, MPI_SHORT, MPI_UNSIGNED, MPI_LONG, MPI_OFFSET};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (size_t j = 0; j < sizeof indices / sizeof *indices; j++) {
            MPI_Datatype pair = MPI_DATATYPE_NULL, types[2];
            char in[64] = {0}, out[64] = {0};
            int numbers[4], sizes[3];
            MPI_Type_get_value_index(values[i], indices[j], &pair);
            HOLDS("6.9.4", "a pair of numbers", pair != MPI_DATATYPE_NULL);
            if (pair == MPI_DATATYPE_NULL)
                continue;
            MPI_Type_size(pair, &sizes[0]);
            MPI_Type_size(values[i], &sizes[1]);
            MPI_Type_size(indices[j], &sizes[2]);
            ROW("6.9.4", "its size", sizes[0], sizes[1] + sizes[2]);
            ALLOWED("6.9.4", "a reduction of it", MPI_Allreduce(in, out, 1, pair, MPI_MAXLOC, self));
            REFUSED("6.9.4", "a sum of it", MPI_Allreduce(in, out, 1, pair, MPI_SUM, self), MPI_ERR_OP);
            MPI_Type_get_envelope(pair, &numbers[0], &numbers[1], &numbers[2], &numbers[3]);
            if (numbers[3] != MPI_COMBINER_VALUE_INDEX)
                continue;
            HOLDS("5.1.13", "its envelope", numbers[0] == 0 && numbers[1] == 0 && numbers[2] == 2);
            MPI_Type_get_contents(pair, 0, 0, 2, numbers, (MPI_Aint[1]){0}, types);
            HOLDS("5.1.13", "its contents", types[0] == values[i] && types[1] == indices[j]);
        }
}

static void addresses(void)
{
    int numbers[4];
    MPI_Aint first, last;
    MPI_Get_address(&numbers[0], &first);
    MPI_Get_address(&numbers[3], &last);
    ROW("5.1.5", "difference of addresses", MPI_Aint_diff(last, first), 12);
    ROW("5.1.5", "sum of an address and a displacement", MPI_Aint_add(first, 12), last);
    HOLDS("5.1.12", "address of MPI_BOTTOM", MPI_Get_address(MPI_BOTTOM, &first) == MPI_SUCCESS && first == 0);
}

/* Types by size and by digits, pairs (5.1.13, 6.9.4, 19.1.9). */
static void found(void)
{
    MPI_Datatype type, other;
    int size, numbers[4];
    MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 8, &type);
    MPI_Type_size(type, &size);
    ROW("19.1.9", "integer of 8 bytes", size, 8);
    MPI_Type_match_size(MPI_TYPECLASS_REAL, 4, &type);
    MPI_Type_size(type, &size);
    ROW("19.1.9", "real of 4 bytes", size, 4);
    MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &type);
    MPI_Type_size(type, &size);
    ROW("19.1.9", "complex of 16 bytes", size, 16);
    REFUSED("19.1.9", "integer of 3 bytes", MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 3, &type), MPI_ERR_ARG);
    REFUSED("19.1.9", "a class that is none", MPI_Type_match_size(4711, 4, &type), MPI_ERR_ARG);
    MPI_Type_create_f90_integer(9, &type);
    MPI_Type_create_f90_integer(9, &other);
    HOLDS("19.1.9", "the same digits give the same type", type == other);
    MPI_Type_size(type, &size);
    ROW("19.1.9", "integer of 9 digits", size, 4);
    REFUSED("19.1.9", "integer of too many digits", MPI_Type_create_f90_integer(400, &type), MPI_ERR_ARG);
    REFUSED("19.1.9", "real of too many digits", MPI_Type_create_f90_real(400, 10, &type), MPI_ERR_ARG);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &type);
    HOLDS("6.9.4", "pair of double and int", type == MPI_DOUBLE_INT);
    MPI_Type_get_value_index(MPI_INT, MPI_INT, &type);
    HOLDS("6.9.4", "pair of int and int", type == MPI_2INT);
    MPI_Type_get_value_index(MPI_INT, MPI_FLOAT, &type);
    HOLDS("6.9.4", "no pair with an index of floating point", type == MPI_DATATYPE_NULL);
    MPI_Type_get_value_index(MPI_C_DOUBLE_COMPLEX, MPI_INT, &type);
    HOLDS("6.9.4", "no pair with a complex value", type == MPI_DATATYPE_NULL);
    REFUSED("6.9.4", "pair of MPI_DATATYPE_NULL", MPI_Type_get_value_index(MPI_DATATYPE_NULL, MPI_INT, &type), MPI_ERR_TYPE);
    MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &type);
    if (type != MPI_DATATYPE_NULL) {
        struct pair {
            double value;
            int64_t index;
        } mine = {check_rank % 2, 40 - check_rank}, least = {0, 0};
        other = type;
        MPI_Type_get_envelope(type, &numbers[0], &numbers[1], &numbers[2], &numbers[3]);
        ROW("6.9.4", "combiner of a pair without a name", numbers[3], MPI_COMBINER_VALUE_INDEX);
        REFUSED("6.9.4", "free of a pair without a name", MPI_Type_free(&other), MPI_ERR_TYPE);
        HOLDS("6.9.4", "it stays", other == type);
        MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT64_T, &other);
        HOLDS("6.9.4", "the same pair again", other == type);
        ALLOWED("6.9.4", "reduction with it", MPI_Allreduce(&mine, &least, 1, type, MPI_MINLOC, MPI_COMM_WORLD));
        HOLDS("6.9.4", "least value and its least index", least.value == 0 && least.index == 40 - (check_size - 1) / 2 * 2);
    }
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    predefined();
    constructors();
    refused();
    decoding();
    packing();
    duplicates();
    pairs();
    addresses();
    found();
    return rows_end();
}
