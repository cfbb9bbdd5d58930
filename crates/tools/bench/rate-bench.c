/* tutti-bench.c at MPI_THREAD_MULTIPLE, for the operation `rate`. Other operations would be slower at that level. */
#define WITH_THREADS
#include "tutti-bench.c"
