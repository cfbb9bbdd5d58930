/* Checks of a job that was started by another starter than Tutti's mpirun.
 *
 * number: ranks say which program of several they belong to. early: the last rank ends before MPI_Init. late:
 * it never calls it. wait: all wait for ever. session: a session without MPI_Init. */
#include "check.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static int number_of(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? -1 : atoi(text);
}

/* Returns the rank according to the starter's variables. */
static int rank_in_environment(void) {
    const char *names[] = {"PMIX_RANK", "PMI_RANK", "PMI_ID"};
    for (int i = 0; i < 3; i++)
        if (number_of(names[i]) >= 0)
            return number_of(names[i]);
    return -1;
}

static void session(void) {
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_finalize(&session);
    printf("session\n");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int last = rank_in_environment() == 2;
    if (strcmp(what, "early") == 0 && last)
        raise(SIGKILL);
    if (strcmp(what, "late") == 0 && last)
        for (;;)
            pause();
    if (strcmp(what, "session") == 0) {
        session();
        return 0;
    }
    MPI_Init(&argc, &argv);
    int rank, size, flag, *program;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "number") == 0) {
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &program, &flag);
        printf("rank %d of %d program %d\n", rank, size, flag ? *program : -1);
    }
    if (strcmp(what, "wait") == 0) {
        printf("waiting\n");
        fflush(stdout);
        MPI_Recv(NULL, 0, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
