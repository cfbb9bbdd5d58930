/* Io-servers that die, come back, and lose what was not synced. io_servers FILE COMMAND
 *
 * COMMAND is run by rank 0 with one word: `kill` ends one of the servers, `again` starts it, `swap` ends it
 * and starts it on a directory that has lost what was not synced. */
#include "check.h"

#include <unistd.h>

enum { BYTES = 1 << 16 };
static unsigned char data[BYTES], back[BYTES];
static const char *command;

static void run(const char *word)
{
    char line[4096];
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        snprintf(line, sizeof line, "%s %s", command, word);
        CHECK_EQUAL(system(line), 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* Writes or reads the data of every rank at its place. Each access goes to all servers. */
static int move(MPI_File file, int write, int round)
{
    MPI_Offset place = (MPI_Offset)check_rank * BYTES;
    int i;
    if (!write)
        return MPI_File_read_at(file, place, back, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
    for (i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 7 + round + check_rank);
    return MPI_File_write_at(file, place, data, BYTES, MPI_BYTE, MPI_STATUS_IGNORE);
}

static void succeeds(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "%s\n", text);
    CHECK_EQUAL(code, MPI_SUCCESS);
}

static void names_the_server(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "io-server") != NULL);
    CHECK(strstr(text, "one") != NULL);
}

int main(int argc, char **argv)
{
    MPI_File file;
    MPI_Info info;
    int code;
    check_begin(&argc, &argv);
    command = argv[2];
    MPI_Info_create(&info);
    MPI_Info_set(info, "striping_unit", "4096");
    succeeds(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    succeeds(move(file, 1, 1));
    succeeds(MPI_File_sync(file));
    succeeds(move(file, 1, 2));

    /* The server is killed: the call returns an error that names the server, and the job continues. */
    run("kill");
    code = move(file, 1, 3);
    CHECK_EQUAL(class_of(code), MPI_ERR_IO);
    names_the_server(code);
    CHECK_EQUAL(class_of(move(file, 0, 3)), MPI_ERR_IO);
    /* Only every second rank needs it, and all get the same class. */
    code = MPI_File_write_at_all(file, 4096 * (MPI_Offset)check_rank, data, 4096, MPI_BYTE, MPI_STATUS_IGNORE);
    CHECK_EQUAL(class_of(code), MPI_ERR_IO);

    /* The server is found again. Its data lay with the system of its host, so nothing was lost. */
    run("again");
    succeeds(move(file, 1, 4));
    succeeds(move(file, 0, 4));
    CHECK(!memcmp(data, back, BYTES));
    succeeds(MPI_File_sync(file));

    /* Data that was not synced is lost: the next sync and every later one report it. */
    succeeds(move(file, 1, 5));
    run("swap");
    move(file, 0, 5);
    CHECK_EQUAL(class_of(MPI_File_sync(file)), MPI_ERR_IO);
    CHECK_EQUAL(class_of(MPI_File_sync(file)), MPI_ERR_IO);
    CHECK_EQUAL(MPI_File_close(&file), MPI_SUCCESS);
    return check_end();
}
