/* MPI_THREAD_MULTIPLE: four threads a rank exchange messages, and reduce on communicators of their own. */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 400 };

static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int number = *(int *)argument, right = (check_rank + 1) % check_size;
    int left = (check_rank + check_size - 1) % check_size, got, total, sizes[] = {1, 300, 6000, 60000};
    int count = sizes[number], *out = check_memory((size_t)count * sizeof(int)),
        *in = check_memory((size_t)count * sizeof(int));
    long wrong = 0;
    MPI_Status status;
    for (int round = 0; round < ROUNDS / (number + 1); round++) {
        MPI_Request request;
        for (int i = 0; i < count; i++)
            out[i] = check_rank * 1000 + number + round;
        /* All threads use one communicator: tags keep them apart. */
        MPI_Irecv(in, count, MPI_INT, left, number, MPI_COMM_WORLD, &request);
        MPI_Send(out, count, MPI_INT, right, number, MPI_COMM_WORLD);
        MPI_Wait(&request, &status);
        MPI_Get_count(&status, MPI_INT, &got);
        wrong += got != count || in[0] != left * 1000 + number + round || in[count - 1] != in[0];
        MPI_Allreduce(&round, &total, 1, MPI_INT, MPI_SUM, comms[number]);
        wrong += total != round * check_size;
    }
    free(out);
    free(in);
    *(int *)argument = wrong ? -1 : 0;
    return NULL;
}

/* Sends the message that the main thread waits for, from another thread of the same rank. */
static void *late_send(void *argument)
{
    int token = 6;
    (void)argument;
    MPI_Send(&token, 1, MPI_INT, check_rank, 90, MPI_COMM_WORLD);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, numbers[THREADS], token = 0, main_thread = 0;
    pthread_t threads[THREADS], late;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&provided);
    CHECK_EQUAL(provided, MPI_THREAD_MULTIPLE);
    MPI_Is_thread_main(&main_thread);
    CHECK(main_thread);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQUAL(numbers[i], 0);
        MPI_Comm_free(&comms[i]);
    }
    pthread_create(&late, NULL, late_send, NULL);
    MPI_Recv(&token, 1, MPI_INT, check_rank, 90, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(token, 6);
    pthread_join(late, NULL);
    return check_end();
}
