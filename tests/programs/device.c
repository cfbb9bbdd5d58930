/* Hands MPI memory that the processor cannot use, as that of a device is.
 * usage: device send|receive|bcast BYTES */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    int rank, class = MPI_SUCCESS, bytes = argc > 2 ? atoi(argv[2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char *device = mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *host = malloc((size_t)bytes);
    memset(host, 7, (size_t)bytes);
    if (!strcmp(argv[1], "send") && rank == 0)
        MPI_Send(device, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else if (!strcmp(argv[1], "send"))
        MPI_Recv(host, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!strcmp(argv[1], "receive") && rank == 0)
        MPI_Send(host, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else if (!strcmp(argv[1], "receive"))
        class = MPI_Recv(device, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Bcast(rank ? device : host, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (class != MPI_SUCCESS) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(class, text, &length);
        MPI_Error_class(class, &class);
        printf("%s %s\n", class == MPI_ERR_BUFFER ? "MPI_ERR_BUFFER" : "another class", text);
    }
    MPI_Finalize();
    return 0;
}
