/* Ranks most of which talk to each other for the first time in the middle of a job.
 *
 * usage: late_contact [BYTES [SECONDS]]
 *
 * Rank 0 hears of all by a barrier, says "ready", and all stay away for SECONDS (1). Then everybody sends
 * BYTES (1000) to everybody, the nearest last, and looks at every value.
 */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv)
{
    long bytes = argc > 1 ? atol(argv[1]) : 1000;
    check_begin(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    if (check_rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    usleep((useconds_t)((argc > 2 ? atof(argv[2]) : 1) * 1e6));
    unsigned char *out = check_memory((size_t)bytes), *in = check_memory((size_t)bytes);
    for (int far = check_size - 1; far > 0; far--) {
        int to = (check_rank + far) % check_size, from = (check_rank + check_size - far) % check_size;
        for (long i = 0; i < bytes; i++)
            out[i] = (unsigned char)(i * 7 + check_rank * 31 + to);
        MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, 1, in, (int)bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (long i = 0; i < bytes; i++)
            if (in[i] != (unsigned char)(i * 7 + from * 31 + check_rank)) {
                check_say(__FILE__, __LINE__, "byte %ld from rank %d is %d", i, from, in[i]);
                break;
            }
    }
    free(out);
    free(in);
    return check_end();
}
