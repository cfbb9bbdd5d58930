/* Makes the mistakes that Tutti reports, one for each word: see tests/cases/test_reports.py. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static int rank, size;

APART static void send_far(void)
{
    int number = 1;
    MPI_Send(&number, 1, MPI_INT, 77, 5, MPI_COMM_WORLD); /* far */
}

/* At -O1 the load is the first instruction of its line. */
APART static int load(const volatile int *where, volatile int *other)
{
    *other = 1;
    return *where; /* crash */
}

/* Forks a process that ends as `how` says. */
static void fork_one(const char *how)
{
    pid_t child = fork();
    if (child == 0) {
        if (!strcmp(how, "abort"))
            MPI_Abort(MPI_COMM_WORLD, 5);
        int other;
        load(NULL, &other);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("the child has ended by %d\n", WTERMSIG(status));
}

/* Sends three messages from rank 0 to rank 1, which posts two receives. None matches. */
static void match_nothing(void)
{
    static int numbers[3];
    MPI_Request request;
    if (rank == 0)
        for (int i = 0; i < 3; i++) {
            MPI_Isend(&numbers[i], 1, MPI_INT, 1, 5 + i / 2, MPI_COMM_WORLD, &request);
            MPI_Request_free(&request);
        }
    if (rank == 1) {
        MPI_Irecv(&numbers[0], 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
        MPI_Irecv(&numbers[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &request);
    }
}

static void act(int argc, char **argv)
{
    const char *what = argv[1], *word = argc > 2 ? argv[2] : "";
    int number = 0;
    if (!strcmp(what, "far"))
        send_far();
    else if (!strcmp(what, "buffer"))
        MPI_Send(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    else if (!strcmp(what, "count"))
        MPI_Bcast(&number, -1, MPI_INT, 0, MPI_COMM_SELF);
    else if (!strcmp(what, "type"))
        MPI_Bcast(&number, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_SELF);
    else if (!strcmp(what, "open")) {
        MPI_File file;
        MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
        MPI_File_open(MPI_COMM_WORLD, word, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    } else if (!strcmp(what, "hang")) {
        if (rank == atoi(word)) {
            puts("computes"), fflush(stdout);
            for (;;)
                pause();
        }
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(what, "crash"))
        load(NULL, &number);
    else if (!strcmp(what, "call"))
        ((void (*)(void))(strlen(what) - 4))(); /* call */
    else if (!strcmp(what, "fork") && rank == 1)
        fork_one(word);
    else if (!strcmp(what, "unmatched"))
        match_nothing();
    else if (!strcmp(what, "start") && rank == 0) {
        char command[4096];
        snprintf(command, sizeof command, "'%s' %s", argv[0], word);
        printf("status %d\n", WEXITSTATUS(system(command)));
    } else if (!strcmp(what, "alone"))
        printf("%d of %d\n", rank, size);
}

int main(int argc, char **argv)
{
    if (!strcmp(argv[1], "forgot"))
        MPI_Comm_rank(MPI_COMM_WORLD, &rank); /* forgot */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    act(argc, argv);
    if (!strcmp(argv[1], "late")) {
        MPI_Finalize();
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    MPI_Finalize();
    return !strcmp(argv[1], "returns") && rank == 1 ? atoi(argv[2]) : 0;
}
