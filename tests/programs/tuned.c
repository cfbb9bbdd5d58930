/* Loops of collectives with every result checked, for runs in which algorithms are tried (TUTTI_TUNE=on).
 *
 * usage: tuned KIND N      (N rounds)
 *   loop                            four non-blocking operations
 *   blocking, alone, persistent     operations of these forms
 *   copies                          the same on one communicator after the other
 *   wishes                          info keys and the control variable change on the way
 *   changing                        each round on a new duplicate
 *   mixed                           operations in random order
 *   kinds                           operations of equal bytes whose operators differ
 *   bits                            sums whose bits must stay the same
 *   ahead                           a root far ahead of a rank that waits for a message first */
#include "check.h"

enum { MOST = 1 << 14, STREAM = 400 };

static int in[MOST], out[MOST * 16], whole[MOST];
static double parts[512], sums[512];

static double part(int rank, int round, int i)
{
    return 1.0 / (1 + rank) + round + i * 0.1;
}

static void broadcast(int round, int count, int root)
{
    MPI_Request request;
    for (int i = 0; i < count; i++)
        whole[i] = check_rank == root ? round + i : -1;
    MPI_Ibcast(whole, count, MPI_INT, root, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i += 7)
        CHECK_EQUAL(whole[i], round + i);
}

static void exchange(int round, int count)
{
    MPI_Request request;
    int flag = 0;
    for (int i = 0; i < count * check_size; i++)
        in[i] = round * 3 + check_rank * 1000 + i;
    MPI_Ialltoall(in, count, MPI_INT, out, count, MPI_INT, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    for (int from = 0; from < check_size; from++)
        for (int i = 0; i < count; i += 3)
            CHECK_EQUAL(out[from * count + i], round * 3 + from * 1000 + check_rank * count + i);
}

/* Checks that the bits are the same in every round: only algorithms that combine in the same order are
 * tried. */
static void sum(int round)
{
    MPI_Request request;
    double first[512];
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < 512; i++)
            parts[i] = part(check_rank, round % 5, i);
        MPI_Iallreduce(parts, sums, 512, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(!again || !memcmp(first, sums, sizeof sums));
        memcpy(first, sums, sizeof sums);
    }
}

static void loop(int rounds)
{
    MPI_Comm copy;
    MPI_Request requests[2];
    int one = 1, all = 0;
    for (int round = 0; round < rounds; round++) {
        broadcast(round, 4000, 0);
        exchange(round, MOST / 16 / (check_size > 16 ? check_size : 16) * 2);
        sum(round);
        broadcast(round, 4000, 0);
        if (round % 16 == 0) {
            MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK_EQUAL(all, check_size);
        }
        if (round % 64 == 0) {
            MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
            MPI_Comm_idup(MPI_COMM_WORLD, &copy, &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            MPI_Comm_free(&copy);
            CHECK_EQUAL(all, check_size);
        }
    }
}

static void sum_of(MPI_Comm comm, int round, int count)
{
    for (int i = 0; i < count; i++)
        in[i] = round + i * (check_rank + 1);
    MPI_Allreduce(in, out, count, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < count; i += 5)
        CHECK_EQUAL(out[i], round * check_size + i * check_size * (check_size + 1) / 2);
}

static void broadcast_on(MPI_Comm comm, int round, int count, int root)
{
    for (int i = 0; i < count; i++)
        whole[i] = check_rank == root ? round - i : -1;
    MPI_Bcast(whole, count, MPI_INT, root, comm);
    for (int i = 0; i < count; i += 5)
        CHECK_EQUAL(whole[i], round - i);
}

/* Repeats one operation alone. Once its algorithm is decided, the operation is repeated unchanged. */
static void alone(int rounds)
{
    for (int round = 0; round < rounds; round++)
        broadcast_on(MPI_COMM_WORLD, round % 1000, 64, 0);
}

/* Repeats one operation alone, and then alternates several. */
static void blocking(int rounds)
{
    alone(rounds);
    for (int round = 0; round < rounds; round++)
        sum_of(MPI_COMM_WORLD, round % 1000, 64);
    for (int round = 0; round < rounds; round++) {
        sum_of(MPI_COMM_WORLD, round, 2000);
        broadcast(round, 1000, check_size - 1);
        for (int i = 0; i < 100; i++)
            whole[i] = check_rank == 0 ? round * i : -1;
        MPI_Bcast(whole, 100, MPI_INT, 0, MPI_COMM_WORLD);
        CHECK_EQUAL(whole[99], round * 99);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static void persistent(int rounds)
{
    static int sent[2][512], got[2][512], block[64 * 64], blocks[64 * 64];
    MPI_Request requests[3];
    for (int i = 0; i < 2; i++)
        MPI_Allreduce_init(sent[i], got[i], 512, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &requests[i]);
    MPI_Alltoall_init(block, 64, MPI_INT, blocks, 64, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
    for (int round = 0; round < rounds; round++) {
        int first = round % 3 == 0 ? check_rank % 2 : 0;
        for (int i = 0; i < 512; i++)
            sent[0][i] = sent[1][i] = round + i * check_rank;
        for (int i = 0; i < 64 * check_size; i++)
            block[i] = round + check_rank * 10000 + i;
        memset(got, 0, sizeof got);
        /* Starts need not be in the same order everywhere. */
        MPI_Start(&requests[first]);
        MPI_Start(&requests[2]);
        MPI_Start(&requests[!first]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 512; i += 7)
            for (int j = 0; j < 2; j++)
                CHECK_EQUAL(got[j][i], round * check_size + i * check_size * (check_size - 1) / 2);
        for (int from = 0; from < check_size; from++)
            CHECK_EQUAL(blocks[from * 64 + 7], round + from * 10000 + check_rank * 64 + 7);
        if (round % 50 == 49)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < 3; i++)
        MPI_Request_free(&requests[i]);
}

static void copies(int rounds)
{
    for (int copy = 0; copy < 4; copy++) {
        MPI_Comm comm;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int round = 0; round < rounds; round++)
            sum_of(comm, round, 512);
        MPI_Comm_free(&comm);
    }
}

/* Rounds on new duplicates, of the world and of a duplicate that learns more. */
static void changing(int rounds)
{
    MPI_Comm longer, comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &longer);
    for (int round = 0; round < rounds; round++) {
        MPI_Comm_dup(round % 2 ? longer : MPI_COMM_WORLD, &comm);
        for (int i = 0; i < 3; i++) {
            sum_of(comm, round, 1 + 60 * i);
            broadcast_on(comm, round, 1 + 60 * i, i % check_size);
            broadcast_on(longer, round, 3000, 0);
            sum_of(longer, round, 61);
        }
        MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&longer);
}

/* Operations whose order never repeats for long, blocking and not, between loops. */
static void mixed(int rounds)
{
    unsigned state = 3;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++) {
            state = state * 1664525 + 1013904223;
            switch ((round / 100 % 2 ? (unsigned)i : state >> 16) % 4) {
            case 0: sum_of(MPI_COMM_WORLD, round, 64); break;
            case 1: broadcast_on(MPI_COMM_WORLD, round, 64, 0); break;
            case 2: broadcast(round, 300, 0); break;
            case 3: exchange(round, 8); break;
            }
        }
    }
}

/* Multiplies 2x2 matrices. The operation does not commute. */
static void multiply(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) {
        int *a = (int *)left + 4 * i, *b = (int *)right + 4 * i;
        int c[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                    a[2] * b[1] + a[3] * b[3]};
        memcpy(b, c, sizeof c);
    }
}

/* One loop of sums, then one of as many bytes with an operator for which other algorithms are right. */
static void kinds(int rounds)
{
    MPI_Datatype matrix;
    MPI_Op product;
    int right[4] = {1, 0, 0, 1};
    MPI_Type_contiguous(4, MPI_INT, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    for (int rank = 0; rank < check_size; rank++) {
        int one[4] = {1, rank % 3, rank % 2, 1}, again = 1;
        multiply(right, one, &again, &matrix);
        memcpy(right, one, sizeof one);
    }
    for (int part = 0; part < 4; part++) {
        for (int round = 0; round < rounds; round++) {
            if (part % 2 == 0) {
                sum_of(MPI_COMM_WORLD, round % 1000, 64);
                continue;
            }
            for (int i = 0; i < 16; i++) {
                int mine[4] = {1, check_rank % 3, check_rank % 2, 1};
                memcpy(in + 4 * i, mine, sizeof mine);
            }
            MPI_Allreduce(in, out, 16, matrix, product, MPI_COMM_WORLD);
            for (int i = 0; i < 64; i++)
                CHECK_EQUAL(out[i], right[i % 4]);
        }
    }
    MPI_Op_free(&product);
    MPI_Type_free(&matrix);
}

/* Checks that the same sums of doubles have the same bits in all rounds. */
static void bits(int rounds)
{
    static double mine[20000], all[20000], first[3][20000];
    const int counts[] = {1, 2, 100, 4000, 20000};
    for (int c = 0; c < 5; c++) {
        int count = counts[c], differ = 0;
        for (int i = 0; i < count; i++)
            mine[i] = check_rank + 1.0 / (i + 3);
        for (int round = 0; round < rounds; round++) {
            for (int kind = 0; kind < 3; kind++) {
                memset(all, 0, sizeof all);
                if (kind == 0)
                    MPI_Allreduce(mine, all, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                else if (kind == 1)
                    MPI_Reduce(mine, all, count, MPI_DOUBLE, MPI_SUM, check_size - 1, MPI_COMM_WORLD);
                else
                    MPI_Scan(mine, all, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
                if (round == 0)
                    memcpy(first[kind], all, sizeof all);
                differ += memcmp(first[kind], all, sizeof all) != 0;
            }
        }
        CHECK_EQUAL(differ, 0);
    }
}

static void say(MPI_Comm comm, const char *key, const char *value, int is_used)
{
    MPI_Info info, used;
    char got[64];
    int length = sizeof got, flag;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    MPI_Comm_set_info(comm, info);
    MPI_Comm_get_info(comm, &used);
    MPI_Info_get_string(used, key, &length, got, &flag);
    CHECK_EQUAL(flag && !strcmp(got, value), is_used);
    MPI_Info_free(&info);
    MPI_Info_free(&used);
}

static void write_tune(const char *word)
{
    int index, count, number, provided, name_length = 0, text_length = 0, verbosity, bind, scope, value = -1;
    MPI_Datatype datatype;
    MPI_T_enum words;
    MPI_T_cvar_handle handle;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    CHECK(!MPI_T_cvar_get_index("TUTTI_TUNE", &index));
    MPI_T_cvar_get_info(index, NULL, &name_length, &verbosity, &datatype, &words, NULL, &text_length, &bind,
                        &scope);
    MPI_T_enum_get_info(words, &count, NULL, &name_length);
    for (int i = 0; i < count; i++) {
        char name[32];
        int length = sizeof name, item;
        MPI_T_enum_get_item(words, i, &item, name, &length);
        if (!strcmp(name, word))
            value = item;
    }
    MPI_T_cvar_handle_alloc(index, NULL, &handle, &number);
    CHECK(!MPI_T_cvar_write(handle, &value));
    int read = -1;
    CHECK(!MPI_T_cvar_read(handle, &read));
    CHECK_EQUAL(read, value);
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
}

static void wishes(int rounds)
{
    const char *modes[] = {"off", "on", "known", "on"};
    MPI_Comm comm;
    MPI_Request request;
    MPI_Info info;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int turn = 0; turn < 8; turn++) {
        if (turn < 4)
            say(comm, "tutti_tune", modes[turn], 1);
        else
            write_tune(modes[turn - 4]);
        for (int round = 0; round < rounds; round++) {
            sum_of(comm, round, 256);
            if (round == rounds / 2)
                say(comm, "tutti_algorithm", "allreduce=ring", 1);
            if (round == rounds / 2 + 5)
                say(comm, "tutti_algorithm", "allreduce=nonsense", 0);
            if (round % 10 == 3)
                MPI_Pcontrol(0);
            if (round % 10 == 5)
                MPI_Pcontrol(1);
        }
    }
    MPI_Info_create(&info);
    MPI_Info_set(info, "tutti_algorithm", "allreduce=ring");
    MPI_Allreduce_init(in, out, 256, MPI_INT, MPI_SUM, comm, info, &request);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 256; i++)
            in[i] = round + i * (check_rank + 1);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQUAL(out[255], round * check_size + 255 * check_size * (check_size + 1) / 2);
    }
    MPI_Request_free(&request);
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
}

static void ahead(void)
{
    static int data[STREAM][64];
    MPI_Request requests[STREAM];
    if (check_rank == 1)
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < STREAM; i++) {
        for (int j = 0; j < 64; j++)
            data[i][j] = check_rank == 0 ? i * j : -1;
        MPI_Ibcast(data[i], 64, MPI_INT, 0, MPI_COMM_WORLD, &requests[i]);
    }
    if (check_rank == 0 && check_size > 1)
        MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Waitall(STREAM, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < STREAM; i++)
        CHECK_EQUAL(data[i][63], i * 63);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    const struct {
        const char *name;
        void (*run)(int);
    } parts[] = {{"loop", loop}, {"alone", alone}, {"blocking", blocking}, {"persistent", persistent},
                 {"copies", copies}, {"wishes", wishes}, {"changing", changing}, {"mixed", mixed},
                 {"kinds", kinds}, {"bits", bits}};
    for (size_t i = 0; argc > 2 && i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(argv[1], parts[i].name))
            parts[i].run(atoi(argv[2]));
    if (argc == 2)
        ahead();
    return check_end();
}
