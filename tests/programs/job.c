/* Behaves in many ways, for tests of the launcher.
 *
 * usage: job WHAT [ARGUMENT]
 *   hello         rank and size              lines N       N lines in pieces a rank
 *   kill RANK     that rank dies of SIGKILL  segv RANK     of a wrong address
 *   exit STATUS   last rank exits early      abort CODE    last rank aborts
 *   return CODE   all end properly, rank 0 with CODE
 *   wait          all wait for a message that never comes; pids are printed first
 *   cat           rank 0 copies its input; the others must find none
 *   where         directory, one variable (JOB_TEST), processors allowed
 *   mismatch      rank 1 receives floats where rank 0 sent ints
 *   children      none has a child that it could wait for
 *   fatal         rank 0 gives a wrong rank under MPI_ERRORS_ARE_FATAL
 */
#include "check.h"
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void line(const char *format, long one, long two)
{
    printf(format, one, two);
    fflush(stdout);
}

static void forever(void)
{
    int word;
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 424242, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void pieces(int count)
{
    for (int i = 0; i < count; i++) {
        printf("<%d:", check_rank);
        fflush(stdout);
        line("line %ld of rank %ld>\n", i, check_rank);
    }
}

static void copy_input(void)
{
    int c, any = 0;
    while ((c = getchar()) != EOF) {
        any = 1;
        if (check_rank == 0)
            putchar(c);
    }
    if (check_rank != 0 && any)
        line("rank %ld has input%ld\n", check_rank, 0);
}

static void where(void)
{
    char text[4096];
    FILE *status = fopen("/proc/self/status", "r");
    const char *value = getenv("JOB_TEST");
    printf("directory %s\n", getcwd(text, sizeof text) ? text : "?");
    printf("variable %s\n", value ? value : "(none)");
    while (status && fgets(text, sizeof text, status))
        if (!strncmp(text, "Cpus_allowed_list:", 18))
            printf("processors %s", text + 19);
    fflush(stdout);
}

static void mismatch(void)
{
    int number = 7;
    float real = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (check_rank == 0) {
        MPI_Send(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else if (check_rank == 1) {
        int code = MPI_Recv(&real, 1, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE), class = 0;
        if (code)
            MPI_Error_class(code, &class);
        line(class == MPI_ERR_TYPE ? "refused%.0ld%.0ld\n" : "accepted %ld%.0ld\n", class, 0);
    }
}

static volatile uintptr_t nowhere = 8;

static void die(const char *what, long argument)
{
    if (!strcmp(what, "kill") && check_rank == argument)
        raise(SIGKILL);
    if (!strcmp(what, "segv") && check_rank == argument)
        *(volatile int *)nowhere = 1;
    if (!strcmp(what, "exit") && check_rank == check_size - 1)
        _exit((int)argument);
    if (!strcmp(what, "abort") && check_rank == check_size - 1)
        MPI_Abort(MPI_COMM_WORLD, (int)argument);
    if (!strcmp(what, "fatal") && check_rank == 0)
        MPI_Send(&argument, 1, MPI_INT, check_size + 9, 0, MPI_COMM_WORLD);
    forever();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "hello";
    long argument = argc > 2 ? atol(argv[2]) : 0;
    int status = 0;
    check_begin(&argc, &argv);
    if (!strcmp(what, "hello"))
        line("rank %ld of %ld\n", check_rank, check_size);
    else if (!strcmp(what, "lines"))
        pieces((int)argument);
    else if (!strcmp(what, "cat"))
        copy_input();
    else if (!strcmp(what, "where"))
        where();
    else if (!strcmp(what, "mismatch"))
        mismatch();
    else if (!strcmp(what, "children"))
        line(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? "none%.0ld%.0ld\n" : "a child%.0ld%.0ld\n", 0, 0);
    else if (!strcmp(what, "return"))
        status = check_rank == 0 ? (int)argument : 0;
    else {
        line("pid %ld %ld\n", getpid(), check_rank);
        MPI_Barrier(MPI_COMM_WORLD);
        if (strcmp(what, "wait"))
            die(what, argument);
        forever();
    }
    MPI_Finalize();
    return status;
}
