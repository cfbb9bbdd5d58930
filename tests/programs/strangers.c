/* Strangers at a port. The last rank, on another host than rank 0, opens many TCP connections to it and sends
 * nothing on them. Only then the ranks except rank 0 connect, one by one. Rank 0 accepts each.
 *
 * usage: strangers [CONNECTIONS]
 */
#include "check.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 1000 };

/* Opens connections to the address at the end of a port's name (":a.b.c.d:port"). */
static void open_many(const char *port, int *all, int count)
{
    struct sockaddr_in to = { .sin_family = AF_INET };
    char address[64] = "";
    const char *name = strchr(port, ':');
    for (int colons = 1; name && colons < 3; colons++)
        name = strchr(name + 1, ':');
    CHECK(name && strlen(name) < sizeof address);
    if (!name || strlen(name) >= sizeof address)
        return;
    strcpy(address, name + 1);
    char *number = strrchr(address, ':');
    CHECK(number != NULL);
    if (!number)
        return;
    *number++ = 0;
    to.sin_port = htons((uint16_t)atoi(number));
    CHECK_EQUAL(inet_pton(AF_INET, address, &to.sin_addr), 1);
    for (int i = 0; i < count; i++) {
        all[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQUAL(connect(all[i], (struct sockaddr *)&to, sizeof to), 0);
    }
}

int main(int argc, char **argv)
{
    static int strangers[MOST];
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    const int count = argc > 1 ? atoi(argv[1]) : 100;
    check_begin(&argc, &argv);
    CHECK(count <= MOST);
    if (check_rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (check_rank == check_size - 1)
        open_many(port, strangers, count);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int met = 1; met < check_size; met++) {
        int word = check_rank;
        if (check_rank == 0) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
            MPI_Recv(&word, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
            CHECK(word > 0 && word < check_size);
            MPI_Comm_disconnect(&inter);
        } else if (check_rank == met) {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
            MPI_Send(&word, 1, MPI_INT, 0, 1, inter);
            MPI_Comm_disconnect(&inter);
        }
    }
    if (check_rank == check_size - 1)
        for (int i = 0; i < count; i++)
            close(strangers[i]);
    if (check_rank == 0)
        MPI_Close_port(port);
    return check_end();
}
