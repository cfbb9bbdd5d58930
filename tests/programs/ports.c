/* Ports: `ports within` halves of one job meet; `ports server SERVICE` and `ports client SERVICE` are two
 * jobs; `ports join` joins by a socket. */
#include "check.h"
#include <sys/socket.h>
#include <unistd.h>

static void talk(MPI_Comm inter, int high)
{
    MPI_Comm all;
    int rank, size, remote, sum = 0;
    MPI_Comm_remote_size(inter, &remote);
    MPI_Comm_rank(inter, &rank);
    MPI_Request *requests = malloc((size_t)remote * sizeof *requests);
    for (int to = 0; to < remote; to++)
        MPI_Isend(&rank, 1, MPI_INT, to, 3, inter, &requests[to]);
    for (int i = 0; i < remote; i++) {
        MPI_Status status;
        int word;
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status);
        CHECK_EQUAL(word, status.MPI_SOURCE);
    }
    MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
    free(requests);
    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK_EQUAL(sum, size * (size - 1) / 2);
    MPI_Comm_free(&all);
}

static void errors(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Close_port("nothing"), MPI_ERR_PORT);
    CHECK_CLASS(MPI_Lookup_name("tutti-no-such-service", MPI_INFO_NULL, port), MPI_ERR_NAME);
    CHECK_CLASS(MPI_Unpublish_name("tutti-no-such-service", MPI_INFO_NULL, "x"), MPI_ERR_SERVICE);
    CHECK_CLASS(MPI_Comm_connect("nothing", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    CHECK_CLASS(MPI_Comm_connect("tutti:0000000000000001:0000000000000001", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT);
    CHECK_CLASS(MPI_Comm_accept("nothing", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
}

/* Connects the halves of the world by a port, like two jobs. */
static void within(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, inter;
    int upper = check_rank >= check_size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, upper, check_rank, &half);
    for (int round = 0; round < 2; round++) {
        if (check_rank == 0)
            MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (upper)
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        else
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        talk(inter, upper);
        MPI_Comm_disconnect(&inter);
        if (check_rank == 0)
            MPI_Close_port(port);
    }
    MPI_Comm_free(&half);
}

static void join(void)
{
    int ends[2], sent = check_rank;
    MPI_Comm inter;
    if (check_size != 1 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return;
    if (fork() == 0) { /* a process that is on its own */
        char number[16];
        snprintf(number, sizeof number, "%d", ends[1]);
        close(ends[0]);
        unsetenv("TUTTI_JOB_FD");
        unsetenv("TUTTI_JOB_RANK");
        execl("/proc/self/exe", "ports", "joins", number, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    MPI_Comm_join(ends[0], &inter);
    CHECK(inter != MPI_COMM_NULL);
    if (inter != MPI_COMM_NULL) {
        MPI_Send(&sent, 1, MPI_INT, 0, 1, inter);
        talk(inter, 0);
        MPI_Comm_disconnect(&inter);
    }
}

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    const char *how = argc > 1 ? argv[1] : "within";
    const char *service = argc > 2 ? argv[2] : "";
    check_begin(&argc, &argv);
    if (!strcmp(how, "within")) {
        within();
        errors();
    } else if (!strcmp(how, "join")) {
        join();
    } else if (!strcmp(how, "joins")) {
        int word;
        MPI_Comm_join(atoi(service), &inter);
        MPI_Recv(&word, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
        talk(inter, 1);
        MPI_Comm_disconnect(&inter);
        MPI_Finalize();
        return check_failures != 0;
    } else if (!strcmp(how, "server") || !strcmp(how, "victim")) {
        if (check_rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Publish_name(service, MPI_INFO_NULL, port);
            MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
            CHECK_CLASS(MPI_Publish_name(service, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        }
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        talk(inter, 0);
        if (!strcmp(how, "victim")) {
            int word;
            MPI_Recv(&word, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
            printf("not ended\n");
        }
        MPI_Comm_disconnect(&inter);
        if (check_rank == 0) {
            MPI_Unpublish_name(service, MPI_INFO_NULL, port);
            MPI_Close_port(port);
        }
    } else {
        if (check_rank == 0) {
            MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
            for (int tries = 0; tries < 1000 && MPI_Lookup_name(service, MPI_INFO_NULL, port); tries++)
                usleep(10000);
        }
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        talk(inter, 1);
        if (!strcmp(how, "killer"))
            exit(5);
        MPI_Comm_disconnect(&inter);
    }
    return check_end();
}
