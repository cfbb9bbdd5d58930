/* Prints the process, the session and the terminal (yes or no) of each rank. Rank 0 then starts one more
 * process that prints the same, except with `alone`. The parent stays until that process has ended.
 *
 * usage: session [alone]
 */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, child;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_get_parent(&parent);
    printf("%s pid %d group %d session %d terminal %s\n", parent == MPI_COMM_NULL ? "rank" : "spawned", getpid(), getpgrp(),
           getsid(0), open("/dev/tty", O_RDWR) < 0 ? "none" : "one");
    fflush(stdout);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
    } else if (argc < 2) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&child);
    }
    MPI_Finalize();
    return 0;
}
