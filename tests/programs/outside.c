/* A rank that has left a blocking call waits for the others by files, not by MPI: whatever they need of it
 * has left it with the call.
   Arguments: a folder that all ranks see, and which call. */
#include "check.h"

#include <unistd.h>

enum { PATIENCE_S = 60, PAUSE_US = 10000 };

static void say_that_we_left(const char *folder)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/%d", folder, check_rank);
    FILE *file = fopen(name, "w");
    CHECK(file && !fclose(file));
}

static void wait_until_left(const char *folder, int rank)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/%d", folder, rank);
    for (long waited_us = 0; access(name, F_OK); waited_us += PAUSE_US) {
        if (waited_us > PATIENCE_S * 1000000L) {
            fprintf(stderr, "rank %d: rank %d has not left its call\n", check_rank, rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        usleep(PAUSE_US);
    }
}

/* Sends a message to the rank half of the world away, by a call that ends when the message is sent. */
static void one_way(void)
{
    int half = check_size / 2, word = check_rank;
    if (check_rank < half)
        MPI_Send(&word, 1, MPI_INT, check_rank + half, 7, MPI_COMM_WORLD);
    else if (check_rank < 2 * half) {
        MPI_Recv(&word, 1, MPI_INT, check_rank - half, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(word, check_rank - half);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    const char *call = argv[2];
    int word = check_rank, sum = 0;
    if (!strcmp(call, "send"))
        one_way();
    else if (!strcmp(call, "barrier"))
        MPI_Barrier(MPI_COMM_WORLD);
    else if (!strcmp(call, "bcast")) {
        MPI_Bcast(&word, 1, MPI_INT, check_size - 1, MPI_COMM_WORLD);
        CHECK_EQUAL(word, check_size - 1);
    } else if (!strcmp(call, "allreduce")) {
        MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQUAL(sum, check_size * (check_size - 1) / 2);
    } else
        MPI_Abort(MPI_COMM_WORLD, 2);
    say_that_we_left(argv[1]);
    for (int rank = 0; rank < check_size; rank++)
        wait_until_left(argv[1], rank);
    return check_end();
}
