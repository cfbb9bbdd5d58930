/* A crew of THREADS threads (defined before this is included) that do the same work. Each counts its errors
 * in `failures`. */
#include "check.h"
#include <pthread.h>

static long failures[THREADS];

static void in_threads(void *(*work)(void *), const char *what)
{
    pthread_t threads[THREADS];
    double start = MPI_Wtime();
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (failures[i])
            check_say(__FILE__, __LINE__, "%s: %ld wrong in thread %d", what, failures[i], i);
        failures[i] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (getenv("VERBOSE") && check_rank == 0)
        fprintf(stderr, "%s: %.3f s\n", what, MPI_Wtime() - start);
}
