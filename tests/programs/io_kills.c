/* Ranks that go on while io-servers are killed and come back. io_kills FILE STOP
 *
 * Until there is a file STOP, all ranks write and read blocks of their own, alone and together. Each error
 * has to be one of a server, and every byte that is read one that was acknowledged, or that was on its way
 * when its server died. In the end all is written again, synced and read. */
#include "check.h"
#include "random.h"

#include <unistd.h>

enum { BLOCKS = 6, BYTES = 24 << 10, MOST = 64 };
static unsigned char data[BYTES], back[BYTES];
/* For each block: the last acknowledged write, and later writes that failed. */
static int acknowledged[BLOCKS], tried[BLOCKS][MOST], tries[BLOCKS];
static long errors;
static double slowest;

static unsigned char byte_of(int block, int round, int at)
{
    return (unsigned char)(round * 37 + at * 7 + block * 11 + check_rank);
}

static MPI_Offset place_of(int block)
{
    return ((MPI_Offset)block * check_size + check_rank) * BYTES;
}

/* Returns 1 if the call succeeded. The text of an error must name a server, or report that another rank got
 * an error. */
static int went_well(int code, double began, int together)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length, class = -1;
    if (code == MPI_SUCCESS)
        return 1;
    double took = MPI_Wtime() - began;
    slowest = took > slowest ? took : slowest;
    errors++;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    int is_told = strstr(text, "io-server") || (together && strstr(text, "at another member"));
    if (class != MPI_ERR_IO || !is_told)
        check_say(__FILE__, __LINE__, "class %d: %s", class, text);
    return 0;
}

static int write_block(MPI_File file, int block, int round, int together)
{
    double began = MPI_Wtime();
    for (int i = 0; i < BYTES; i++)
        data[i] = byte_of(block, round, i);
    int (*write)(MPI_File, MPI_Offset, const void *, int, MPI_Datatype, MPI_Status *) =
        together ? MPI_File_write_at_all : MPI_File_write_at;
    if (went_well(write(file, place_of(block), data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE), began, together)) {
        acknowledged[block] = round;
        tries[block] = 0;
        return 1;
    }
    if (tries[block] < MOST)
        tried[block][tries[block]++] = round;
    return 0;
}

static int may_be(int block, int at, unsigned char byte)
{
    if (byte == (acknowledged[block] ? byte_of(block, acknowledged[block], at) : 0))
        return 1;
    for (int i = 0; i < tries[block]; i++)
        if (byte == byte_of(block, tried[block][i], at))
            return 1;
    return tries[block] == MOST;
}

static int read_block(MPI_File file, int block, int together)
{
    double began = MPI_Wtime();
    MPI_Status status;
    int count = 0, wrong = 0;
    memset(back, 0, BYTES);
    int code = together ? MPI_File_read_at_all(file, place_of(block), back, BYTES, MPI_BYTE, &status)
                        : MPI_File_read_at(file, place_of(block), back, BYTES, MPI_BYTE, &status);
    if (!went_well(code, began, together))
        return 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    for (int i = 0; i < BYTES; i++)
        wrong += !may_be(block, i, i < count ? back[i] : 0);
    if (wrong)
        check_say(__FILE__, __LINE__, "%d bytes of block %d are wrong, %d were read", wrong, block, count);
    return 1;
}

static int is_over(const char *stop)
{
    int over = check_rank == 0 && access(stop, F_OK) == 0;
    MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return over;
}

/* Checks that all servers are there again, and that the first access after each death got an error. */
static void in_the_end(MPI_File file)
{
    int patience = 400;
    for (int block = 0; block < BLOCKS; block++)
        while (!write_block(file, block, 100 + block, 0) && --patience > 0)
            usleep(10000);
    while (!went_well(MPI_File_sync(file), MPI_Wtime(), 1) && --patience > 0)
        usleep(10000);
    CHECK(patience > 0);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int block = 0; block < BLOCKS; block++) {
        CHECK_EQUAL(tries[block], 0);
        CHECK(read_block(file, block, 0));
    }
}

int main(int argc, char **argv)
{
    MPI_File file;
    check_begin(&argc, &argv);
    state = seed;
    const int amode = MPI_MODE_CREATE | MPI_MODE_RDWR;
    CHECK_EQUAL(MPI_File_open(MPI_COMM_WORLD, argv[1], amode, MPI_INFO_NULL, &file), MPI_SUCCESS);
    CHECK_EQUAL(MPI_File_set_size(file, (MPI_Offset)BLOCKS * check_size * BYTES), MPI_SUCCESS);
    if (check_rank == 0) {
        puts("going");
        fflush(stdout);
    }
    for (int round = 1; !is_over(argv[2]); round++) {
        int block = (int)draw(BLOCKS), together = (int)draw(2);
        if (draw(2))
            write_block(file, block, round, together);
        else
            read_block(file, block, together);
        if (draw(16) == 0)
            went_well(MPI_File_sync(file), MPI_Wtime(), 1);
        usleep(200);
    }
    in_the_end(file);
    MPI_Reduce(check_rank ? &errors : MPI_IN_PLACE, &errors, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(check_rank ? &slowest : MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (check_rank == 0)
        printf("%ld errors, the slowest after %.0f ms\n", errors, slowest * 1e3);
    CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
    return check_end();
}
