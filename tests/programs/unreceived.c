/* Messages that no rank receives: MPI_Finalize must return, whatever is still queued. */
#include "check.h"

int main(int argc, char **argv)
{
    static char text[8000];
    check_begin(&argc, &argv);
    int count = argc > 1 ? atoi(argv[1]) : 500;
    for (int i = 0; i < count; i++) {
        MPI_Request request;
        MPI_Isend(text, i % 7 ? 30 : (int)sizeof text, MPI_CHAR, (check_rank + 1) % check_size, i, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    return check_end();
}
