/* A job that hangs: hangs KIND A B. Ranks A and B are the guilty ones; all others do what is right. Before
 * that, all ranks work well for a moment. tests/cases/test_hangs.py knows for each kind which ranks and calls
 * are at fault. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, a, b;
static double big[1 << 17];
static MPI_Comm world;

static void work_well(void)
{
    for (int turn = 0; turn < 3; turn++) {
        int mine = rank, other = -1, sum = 0;
        MPI_Sendrecv(&mine, 1, MPI_INT, (rank + 1) % size, 1, &other, 1, MPI_INT, (rank + size - 1) % size, 1, world, MPI_STATUS_IGNORE);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, world);
    }
}

static void receive(int source, int tag, MPI_Comm comm)
{
    int number;
    MPI_Recv(&number, 1, MPI_INT, source, tag, comm, MPI_STATUS_IGNORE);
}

static void send(int to, int tag, MPI_Comm comm)
{
    MPI_Send(&rank, 1, MPI_INT, to, tag, comm);
}

static void finish(void)
{
    MPI_Barrier(world);
}

/* Both receive first. */
static void head_to_head(void)
{
    if (rank == a || rank == b) {
        int other = rank == a ? b : a;
        receive(other, 5, world);
        send(other, 5, world);
    }
    finish();
}

/* All ranks receive first, in a ring. */
static void ring(void)
{
    receive((rank + 1) % size, 9, world);
    send((rank + size - 1) % size, 9, world);
    finish();
}

/* Both send a long message first. */
static void sends_first(void)
{
    if (rank == a || rank == b) {
        int other = rank == a ? b : a;
        MPI_Send(big, 1 << 17, MPI_DOUBLE, other, 6, world);
        MPI_Recv(big, 1 << 17, MPI_DOUBLE, other, 6, world, MPI_STATUS_IGNORE);
    }
    finish();
}

static void tags(void)
{
    if (rank == a)
        receive(b, 7, world);
    if (rank == b)
        send(a, 8, world);
    finish();
}

static void tags_long(void)
{
    if (rank == a)
        MPI_Recv(big, 1 << 17, MPI_DOUBLE, b, 7, world, MPI_STATUS_IGNORE);
    if (rank == b)
        MPI_Send(big, 1 << 17, MPI_DOUBLE, a, 8, world);
    finish();
}

static void communicators(void)
{
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    MPI_Comm_set_name(copy, "copy");
    if (rank == a)
        receive(b, 7, copy);
    if (rank == b)
        send(a, 7, world);
    finish();
}

static void wrong_source(void)
{
    if (rank == a)
        receive((b + 1) % size == a ? (b + 2) % size : (b + 1) % size, 7, world);
    if (rank == b)
        send(a, 7, world);
    finish();
}

static void missing_send(void)
{
    if (rank == a)
        receive(b, 4, world);
    finish();
}

static void missing_receive(void)
{
    if (rank == b)
        MPI_Ssend(&rank, 1, MPI_INT, a, 4, world);
    finish();
}

/* The two halves call the barriers of two communicators in another order. */
static void barrier_order(void)
{
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    MPI_Comm_set_name(copy, "copy");
    MPI_Barrier(rank == a ? copy : world);
    MPI_Barrier(rank == a ? world : copy);
}

/* Rank A leaves out one reduction, and then waits for a message. */
static void missing_collective(void)
{
    int sum;
    if (rank != a)
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world);
    else
        receive(b, 3, world);
    finish();
}

static void waitall(void)
{
    MPI_Request requests[2];
    int numbers[2];
    if (rank == a) {
        MPI_Irecv(&numbers[0], 1, MPI_INT, b, 1, world, &requests[0]);
        MPI_Irecv(&numbers[1], 1, MPI_INT, b, 2, world, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    if (rank == b) {
        send(a, 1, world);
        send(a, 3, world);
    }
    finish();
}

static void waitany(void)
{
    MPI_Request requests[2];
    int numbers[2], which;
    if (rank == a) {
        MPI_Irecv(&numbers[0], 1, MPI_INT, b, 11, world, &requests[0]);
        MPI_Irecv(&numbers[1], 1, MPI_INT, b, 12, world, &requests[1]);
        MPI_Waitany(2, requests, &which, MPI_STATUS_IGNORE);
    }
    finish();
}

static void any_source(void)
{
    if (rank == a)
        receive(MPI_ANY_SOURCE, 2, world);
    finish();
}

static void probe(void)
{
    MPI_Status status;
    if (rank == a)
        MPI_Probe(b, 21, world, &status);
    if (rank == b)
        send(a, 22, world);
    finish();
}

static void lock(void)
{
    int memory = 0;
    MPI_Win window;
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, world, &window);
    if (rank == a)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b, 0, window);
    MPI_Barrier(world);
    if (rank == b)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, b, 0, window);
    MPI_Barrier(world);
    if (rank == a || rank == b)
        MPI_Win_unlock(b, window);
    MPI_Win_free(&window);
}

static void post(void)
{
    int memory = 0;
    MPI_Win window;
    MPI_Group all, one;
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 1, &b, &one);
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, world, &window);
    if (rank == a)
        MPI_Win_start(one, 0, window);
    MPI_Barrier(world);
    MPI_Win_free(&window);
}

static void fence(void)
{
    int memory = 0;
    MPI_Win window;
    MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, world, &window);
    MPI_Win_fence(0, window);
    if (rank != a)
        MPI_Win_fence(0, window);
    MPI_Barrier(world);
    MPI_Win_free(&window);
}

static void partitioned(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank == a)
        MPI_Precv_init(big, 4, 8, MPI_DOUBLE, b, 3, world, MPI_INFO_NULL, &request);
    if (rank == b)
        MPI_Psend_init(big, 4, 8, MPI_DOUBLE, a, 3, world, MPI_INFO_NULL, &request);
    if (rank == a || rank == b)
        MPI_Start(&request);
    for (int part = 0; rank == b && part < 3; part++)
        MPI_Pready(part, request);
    if (rank == a || rank == b)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    finish();
}

/* Rank A calls the non-blocking barrier only after another one. */
static void nonblocking_collective(void)
{
    MPI_Request request;
    if (rank == a) {
        receive(b, 3, world);
        return;
    }
    MPI_Ibarrier(world, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void subgroup(void)
{
    MPI_Comm half;
    MPI_Comm_split(world, rank % 2, rank, &half);
    MPI_Comm_set_name(half, "half");
    if (rank != a)
        MPI_Barrier(half);
    finish();
}

static void gather(void)
{
    int *all = malloc(size * sizeof *all);
    if (rank != b)
        MPI_Gather(&rank, 1, MPI_INT, all, 1, MPI_INT, a, world);
    else
        receive(a, 31, world);
    finish();
}

static void file(void)
{
    MPI_File handle;
    char name[64] = "/tmp/hangs-XXXXXX";
    if (rank == 0)
        close(mkstemp(name));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, world);
    MPI_File_open(world, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &handle);
    if (rank != a)
        MPI_File_write_at_all(handle, 1024 * rank, big, 1024, MPI_BYTE, MPI_STATUS_IGNORE);
    finish();
}

static void itself(void)
{
    if (rank == a)
        MPI_Ssend(&rank, 1, MPI_INT, a, 1, world);
    finish();
}

static void *receive_in_thread(void *unused)
{
    receive(b, 41, world);
    return unused;
}

/* The main thread of rank A waits for another one, which waits for a message. */
static void thread(void)
{
    pthread_t other;
    if (rank == a) {
        pthread_create(&other, NULL, receive_in_thread, NULL);
        receive(b, 42, world);
        pthread_join(other, NULL);
    }
    finish();
}

/* No hang: rank A computes for some seconds. */
static void computes(void)
{
    if (rank == a) {
        double end = MPI_Wtime() + 4;
        while (MPI_Wtime() < end)
            ;
    }
    finish();
}

/* No hang: rank A sleeps for some seconds. */
static void sleeps(void)
{
    if (rank == a)
        sleep(4);
    finish();
}

/* No hang: rank A stops itself until somebody continues it. */
static void stops(void)
{
    if (rank == a) {
        puts("stops now");
        fflush(stdout);
        kill(getpid(), SIGSTOP);
    }
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
    {"head_to_head", head_to_head},
    {"ring", ring},
    {"sends_first", sends_first},
    {"tags", tags},
    {"tags_long", tags_long},
    {"communicators", communicators},
    {"wrong_source", wrong_source},
    {"missing_send", missing_send},
    {"missing_receive", missing_receive},
    {"barrier_order", barrier_order},
    {"missing_collective", missing_collective},
    {"waitall", waitall},
    {"waitany", waitany},
    {"any_source", any_source},
    {"probe", probe},
    {"lock", lock},
    {"post", post},
    {"fence", fence},
    {"partitioned", partitioned},
    {"nonblocking_collective", nonblocking_collective},
    {"subgroup", subgroup},
    {"gather", gather},
    {"file", file},
    {"itself", itself},
    {"thread", thread},
    {"computes", computes},
    {"sleeps", sleeps},
    {"stops", stops},
};

int main(int argc, char **argv)
{
    int level = argc > 1 && !strcmp(argv[1], "thread") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    MPI_Init_thread(&argc, &argv, level, &level);
    world = MPI_COMM_WORLD;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    a = argc > 2 ? atoi(argv[2]) : 0;
    b = argc > 3 ? atoi(argv[3]) : 1;
    work_well();
    for (unsigned at = 0; at < sizeof kinds / sizeof *kinds; at++)
        if (argc > 1 && !strcmp(argv[1], kinds[at].name))
            kinds[at].run();
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
