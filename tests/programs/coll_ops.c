/* Every predefined operator on every kind of predefined type that it allows. */
#include "check.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 37 };

static long power_sum; /* 1 + 2 + ... + size */

/* Checks sum, product, extremes and bits of the integers (rank + 1 + i % 3). */
#define INTEGERS(c_type, mpi_type) OPERATE(c_type, mpi_type, 10)
#define ADDRESSES(c_type, mpi_type) OPERATE(c_type, mpi_type, 7) /* logical operators are not for them */
#define OPERATE(c_type, mpi_type, last_op)                                                               \
    do {                                                                                                 \
        c_type out[N], in[N];                                                                            \
        for (int i = 0; i < N; i++)                                                                      \
            out[i] = (c_type)(check_rank + 1 + i % 3);                                                   \
        for (int op = 0; op < (last_op); op++) {                                                         \
            memset(in, 0, sizeof in);                                                                    \
            MPI_Allreduce(out, in, N, mpi_type, ops[op], MPI_COMM_WORLD);                                \
            for (int i = 0; i < N; i++) {                                                                \
                c_type all = (c_type)(1 + i % 3);                                                        \
                for (int rank = 1; rank < check_size; rank++) {                                          \
                    c_type x = (c_type)(rank + 1 + i % 3);                                               \
                    switch (op) {                                                                        \
                    case 0: all = (c_type)(all + x); break;                                              \
                    case 1: all = (c_type)(all * x); break;                                              \
                    case 2: all = all < x ? all : x; break;                                              \
                    case 3: all = all > x ? all : x; break;                                              \
                    case 4: all = (c_type)(all & x); break;                                              \
                    case 5: all = (c_type)(all | x); break;                                              \
                    case 6: all = (c_type)(all ^ x); break;                                              \
                    case 7: all = (c_type)(all && x); break;                                             \
                    case 8: all = (c_type)(all || x); break;                                             \
                    default: all = (c_type)(!all != !x); break;                                          \
                    }                                                                                    \
                }                                                                                        \
                /* One rank alone has nothing to combine: its value need not become 0 or 1. */           \
                if (in[i] != all && !(check_size == 1 && op >= 7)) {                                     \
                    check_say(__FILE__, __LINE__, "%s, operator %d: item %d", #mpi_type, op, i);         \
                    break;                                                                               \
                }                                                                                        \
            }                                                                                            \
        }                                                                                                \
    } while (0)

#define NUMBERS(c_type, mpi_type)                                                                        \
    do {                                                                                                 \
        c_type out[N], in[N];                                                                            \
        for (int i = 0; i < N; i++)                                                                      \
            out[i] = (c_type)(check_rank + 1);                                                           \
        MPI_Allreduce(out, in, N, mpi_type, MPI_SUM, MPI_COMM_WORLD);                                    \
        for (int i = 0; i < N; i++)                                                                      \
            CHECK(in[i] == (c_type)power_sum);                                                           \
        MPI_Allreduce(out, in, N, mpi_type, MPI_PROD, MPI_COMM_WORLD);                                   \
        c_type product = 1;                                                                              \
        for (int rank = 0; rank < check_size; rank++)                                                    \
            product *= (c_type)(rank + 1);                                                               \
        CHECK(in[0] == product && in[N - 1] == product);                                                 \
    } while (0)

#define EXTREMES(c_type, mpi_type)                                                                       \
    do {                                                                                                 \
        c_type out[2] = {(c_type)(check_rank + 1), (c_type)(-check_rank)}, in[2];                        \
        MPI_Allreduce(out, in, 2, mpi_type, MPI_MAX, MPI_COMM_WORLD);                                    \
        CHECK(in[0] == (c_type)check_size && in[1] == (c_type)0);                                        \
        MPI_Allreduce(out, in, 2, mpi_type, MPI_MIN, MPI_COMM_WORLD);                                    \
        CHECK(in[0] == (c_type)1 && in[1] == (c_type)(1 - check_size));                                  \
    } while (0)

/* The extreme value, and the least index among equals. */
#define PAIRS(c_type, mpi_type)                                                                          \
    do {                                                                                                 \
        struct {                                                                                         \
            c_type value;                                                                                \
            int index;                                                                                   \
        } out[3] = {{0}}, in[3];                                                                         \
        out[0].value = (c_type)((check_rank * 7) % check_size);                                          \
        out[1].value = (c_type)4;                                                                        \
        out[2].value = (c_type)check_rank;                                                               \
        for (int i = 0; i < 3; i++)                                                                      \
            out[i].index = check_size - check_rank + i;                                                  \
        MPI_Allreduce(out, in, 3, mpi_type, MPI_MAXLOC, MPI_COMM_WORLD);                                 \
        CHECK(in[1].value == (c_type)4 && in[1].index == 2);                                             \
        CHECK(in[2].value == (c_type)(check_size - 1) && in[2].index == 3);                              \
        MPI_Allreduce(out, in, 3, mpi_type, MPI_MINLOC, MPI_COMM_WORLD);                                 \
        CHECK(in[0].value == (c_type)0);                                                                 \
        CHECK(in[1].value == (c_type)4 && in[1].index == 2);                                             \
        CHECK(in[2].value == (c_type)0 && in[2].index == check_size + 2);                                \
    } while (0)

static const MPI_Op *integer_ops(void)
{
    static MPI_Op ops[10];
    MPI_Op all[10] = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
    memcpy(ops, all, sizeof all);
    return ops;
}

static void integers(void)
{
    const MPI_Op *ops = integer_ops();
    INTEGERS(int, MPI_INT);
    INTEGERS(unsigned, MPI_UNSIGNED);
    INTEGERS(short, MPI_SHORT);
    INTEGERS(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGERS(long, MPI_LONG);
    INTEGERS(unsigned long, MPI_UNSIGNED_LONG);
    INTEGERS(long long, MPI_LONG_LONG);
    INTEGERS(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGERS(signed char, MPI_SIGNED_CHAR);
    INTEGERS(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGERS(char, MPI_CHAR);
    INTEGERS(int8_t, MPI_INT8_T);
    INTEGERS(uint8_t, MPI_UINT8_T);
    INTEGERS(int16_t, MPI_INT16_T);
    INTEGERS(uint16_t, MPI_UINT16_T);
    INTEGERS(int32_t, MPI_INT32_T);
    INTEGERS(uint32_t, MPI_UINT32_T);
    INTEGERS(int64_t, MPI_INT64_T);
    INTEGERS(uint64_t, MPI_UINT64_T);
    ADDRESSES(MPI_Aint, MPI_AINT);
    ADDRESSES(MPI_Offset, MPI_OFFSET);
    ADDRESSES(MPI_Count, MPI_COUNT);
}

static void logical_and_bytes(void)
{
    bool out[2] = {check_rank == 0, true}, in[2];
    unsigned char byte = (unsigned char)(1 << check_rank % 8), all = 0, every = 0;
    MPI_Allreduce(out, in, 2, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    CHECK(in[0] == (check_size == 1) && in[1]);
    MPI_Allreduce(out, in, 2, MPI_C_BOOL, MPI_LOR, MPI_COMM_WORLD);
    CHECK(in[0] && in[1]);
    MPI_Allreduce(out, in, 2, MPI_C_BOOL, MPI_LXOR, MPI_COMM_WORLD);
    CHECK(in[0] && in[1] == check_size % 2);
    for (int rank = 0; rank < check_size; rank++)
        every |= (unsigned char)(1 << rank % 8);
    MPI_Allreduce(&byte, &all, 1, MPI_BYTE, MPI_BOR, MPI_COMM_WORLD);
    CHECK_EQUAL(all, every);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    power_sum = (long)check_size * (check_size + 1) / 2;
    integers();
    logical_and_bytes();
    NUMBERS(float, MPI_FLOAT);
    NUMBERS(double, MPI_DOUBLE);
    NUMBERS(long double, MPI_LONG_DOUBLE);
    NUMBERS(float complex, MPI_C_FLOAT_COMPLEX);
    NUMBERS(double complex, MPI_C_DOUBLE_COMPLEX);
    NUMBERS(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
    EXTREMES(float, MPI_FLOAT);
    EXTREMES(double, MPI_DOUBLE);
    EXTREMES(long double, MPI_LONG_DOUBLE);
    EXTREMES(int, MPI_INT);
    PAIRS(int, MPI_2INT);
    PAIRS(float, MPI_FLOAT_INT);
    PAIRS(double, MPI_DOUBLE_INT);
    PAIRS(long, MPI_LONG_INT);
    PAIRS(short, MPI_SHORT_INT);
    PAIRS(long double, MPI_LONG_DOUBLE_INT);
    return check_end();
}
