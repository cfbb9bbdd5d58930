/* Is kept while it holds the lock of the loader, which knows its owner by the number of the thread; takes it
 * again afterwards.
 * argument: a file; the program waits until it is there */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

static int wait_at(struct dl_phdr_info *info, size_t bytes, void *gate)
{
    (void)info, (void)bytes;
    puts("holds it");
    fflush(stdout);
    while (access(gate, F_OK))
        usleep(2000);
    return 1;
}

static int count(struct dl_phdr_info *info, size_t bytes, void *number)
{
    (void)info, (void)bytes;
    ++*(int *)number;
    return 0;
}

int main(int argc, char **argv)
{
    int number = 0;
    MPI_Init(&argc, &argv);
    dl_iterate_phdr(wait_at, argv[1]);
    dl_iterate_phdr(count, &number);
    if (number > 2 && dlopen("libm.so.6", RTLD_NOW))
        puts("ok");
    return MPI_Finalize();
}
