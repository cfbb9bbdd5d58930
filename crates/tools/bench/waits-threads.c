/* waits.c at MPI_THREAD_MULTIPLE, for the programs threads_*. Other programs need a lower level. */
#define WITH_THREADS
#include "waits.c"
