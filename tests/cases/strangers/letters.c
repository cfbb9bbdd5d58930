/* Rank 0 sends messages of a known text to rank 1, which prints what it received. Serves tests that read or
 * change messages on their way. Arguments: number of messages, bytes of each, and optionally a file to which
 * they are written by MPI-IO. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char TEXT[] = "known-plain-text ";

static void fill(char *letter, int bytes, int number) {
    for (int at = 0; at < bytes; at++) letter[at] = TEXT[at % (sizeof TEXT - 1)];
    memcpy(letter, &number, sizeof number);
}

int main(int argc, char **argv) {
    int rank, letters = atoi(argv[1]), bytes = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char *letter = malloc(bytes), *expected = malloc(bytes);
    /* Connected before the first letter. */
    for (int round = 0; round < 50; round++) {
        int other = 1 - rank, one = round, got;
        MPI_Sendrecv(&one, 1, MPI_INT, other, 1, &got, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    int wrong = 0;
    for (int number = 0; number < letters; number++) {
        fill(expected, bytes, number);
        if (rank == 0) {
            MPI_Send(expected, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        } else {
            MPI_Recv(letter, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            wrong += memcmp(letter, expected, bytes) != 0;
        }
    }
    if (argc > 3) {
        MPI_File file;
        MPI_Status status;
        int failed = MPI_File_open(MPI_COMM_WORLD, argv[3], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        fill(expected, bytes, 0);
        for (int number = 0; number < letters && !failed; number++) {
            MPI_Offset place = (MPI_Offset)(2 * number + rank) * bytes;
            failed = MPI_File_write_at(file, place, expected, bytes, MPI_BYTE, &status);
            if (!failed) failed = MPI_File_read_at(file, place, letter, bytes, MPI_BYTE, &status);
            if (!failed) wrong += memcmp(letter, expected, bytes) != 0;
        }
        if (!failed) MPI_File_close(&file);
        if (failed) {
            char why[MPI_MAX_ERROR_STRING];
            int length;
            MPI_Error_string(failed, why, &length);
            fprintf(stderr, "the file: %s\n", why);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    }
    if (rank == 1 || wrong) printf("rank %d: %d of %d letters are wrong\n", rank, wrong, letters);
    fflush(stdout);
    free(letter);
    free(expected);
    MPI_Finalize();
    return 0;
}
