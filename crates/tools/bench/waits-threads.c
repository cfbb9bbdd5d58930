/* waits.c at MPI_THREAD_MULTIPLE, for the programs threads_*: the other programs are measured at the level that they need. */
#define WITH_THREADS
#include "waits.c"
