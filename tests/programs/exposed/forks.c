/* A thread that forks all the time, beside collectives and messages. The children check the memory of these
 * operations. */
#define _GNU_SOURCE
#include "exposed.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 2 << 20, ROUNDS = 150 };

static unsigned char *constant;
static volatile int is_over;
static long forks, wrong;

static void *fork_on(void *nothing)
{
    while (!is_over) {
        pid_t made = fork();
        if (made == 0) {
            for (int at = 0; at < BYTES; at += PAGE)
                if (constant[at] != (unsigned char)(check_rank + 1))
                    _exit(1);
            memset(constant, 0, BYTES);
            _exit(0);
        }
        int status = 1;
        waitpid(made, &status, 0);
        wrong += status != 0;
        forks++;
    }
    return nothing;
}

int main(int argc, char **argv)
{
    int level;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    constant = malloc(BYTES);
    unsigned char *changing = malloc(BYTES), *result = malloc(BYTES);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    memset(constant, check_rank + 1, BYTES);
    pthread_create(&thread, NULL, fork_on, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < BYTES; at += 512)
            changing[at] = (unsigned char)(round + check_rank + at);
        MPI_Allreduce(changing, result, BYTES, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
        for (int at = 0; at < BYTES; at += 512) {
            unsigned char expected = 0;
            for (int rank = 0; rank < check_size; rank++)
                expected ^= (unsigned char)(round + rank + at);
            CHECK_EQUAL(result[at], expected);
        }
        MPI_Sendrecv(changing, BYTES, MPI_BYTE, right, 0, result, BYTES, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(result[512], (unsigned char)(round + left + 512));
        MPI_Sendrecv(constant, BYTES, MPI_BYTE, right, 0, result, BYTES, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(result[BYTES - 1], left + 1);
        MPI_Bcast(result, BYTES, MPI_BYTE, round % check_size, MPI_COMM_WORLD);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    CHECK_EQUAL(wrong, 0);
    CHECK(forks > 0);
    return check_end();
}
