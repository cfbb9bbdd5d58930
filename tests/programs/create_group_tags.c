/* Two threads of each rank make communicators of one group at the same time, with tags whose lower bits are
 * equal. */
#include "check.h"
#include <pthread.h>

enum { TIMES = 100, APART = 1 << 22 };

static MPI_Group groups[2];

static void *make(void *given)
{
    int which = *(int *)given, value, sum;
    for (int i = 0; i < TIMES; i++) {
        MPI_Comm comm;
        MPI_Comm_create_group(MPI_COMM_WORLD, groups[which], 5 + which * APART, &comm);
        value = which ? 1000 : 1;
        MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK_EQUAL(sum, value * check_size);
        MPI_Comm_free(&comm);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, reversed[64], which[2] = {0, 1};
    pthread_t threads[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    for (int i = 0; i < check_size; i++)
        reversed[i] = check_size - 1 - i;
    MPI_Comm_group(MPI_COMM_WORLD, &groups[0]);
    MPI_Group_incl(groups[0], check_size, reversed, &groups[1]);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, make, &which[(i + check_rank) % 2]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    MPI_Group_free(&groups[0]);
    MPI_Group_free(&groups[1]);
    return check_end();
}
