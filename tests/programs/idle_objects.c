/* Measures the cost of calls beside many idle objects: instructions of rank 0, first without the objects and
 * then with them. It also checks that the calls work. The calls are those of progress: a probe and a test
 * without result, a message sent, and a message received that has already arrived.
 *
 * usage: idle_objects windows|communicators|requests|ports N
 *
 * One line a call: `NAME BEFORE WITH`; -1 where nobody may step through a process.
 */
#include "check.h"
#include "steps.h"

#define REPEATS 3
#define NEVER_SENT 77
#define PING 78
#define IDLE 79

static MPI_Request unmatched;
static int partner, never, received;

static void probe(void)
{
    int there;
    MPI_Iprobe(MPI_ANY_SOURCE, NEVER_SENT, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    CHECK(!there);
}

static void test(void)
{
    int done;
    MPI_Test(&unmatched, &done, MPI_STATUS_IGNORE);
    CHECK(!done);
}

static void send(void)
{
    long x = 5;
    MPI_Send(&x, 1, MPI_LONG, partner, PING, MPI_COMM_WORLD);
}

static void receive(void)
{
    long x = 0;
    MPI_Recv(&x, 1, MPI_LONG, partner, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    received += x == 5;
}

static void nothing(void)
{
}

static const struct {
    const char *name;
    void (*call)(void);
} CALLS[] = {{"nothing", nothing}, {"probe", probe}, {"test", test}, {"send", send}, {"receive", receive}};
enum { NUMBER = sizeof CALLS / sizeof *CALLS };

/* Measures the least instructions of each call. The partner sends the messages to be received, and receives
 * those that are sent. */
static void count(long *least)
{
    MPI_Irecv(&never, 1, MPI_INT, partner, NEVER_SENT, MPI_COMM_WORLD, &unmatched);
    for (int i = 0; i < NUMBER; i++) {
        least[i] = -1;
        for (int repeat = 0; repeat < REPEATS; repeat++) {
            if (check_rank && CALLS[i].call == send)
                receive();
            else if (check_rank && CALLS[i].call == receive)
                send();
            if (check_rank == 0) {
                if (CALLS[i].call == receive)
                    MPI_Probe(partner, PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                long steps = steps_of(CALLS[i].call);
                least[i] = least[i] < 0 || steps < least[i] ? steps : least[i];
            }
        }
    }
    MPI_Cancel(&unmatched);
    MPI_Wait(&unmatched, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_Win *windows;
static MPI_Comm *communicators;
static MPI_Request *requests;
static char (*ports)[MPI_MAX_PORT_NAME];
static int cell[2];

static void make(const char *kind, int n)
{
    windows = check_memory((size_t)n * sizeof *windows);
    communicators = check_memory((size_t)n * sizeof *communicators);
    requests = check_memory((size_t)n * sizeof *requests), ports = check_memory((size_t)n * sizeof *ports);
    for (int i = 0; i < n; i++) {
        if (*kind == 'w')
            MPI_Win_create(cell, sizeof cell, sizeof *cell, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[i]);
        else if (*kind == 'c')
            MPI_Comm_dup(MPI_COMM_WORLD, &communicators[i]);
        else if (*kind == 'r')
            MPI_Recv_init(&cell[0], 1, MPI_INT, partner, IDLE, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Open_port(MPI_INFO_NULL, ports[i]);
    }
}

/* Uses every hundredth object once, and frees all. */
static void use_and_free(const char *kind, int n)
{
    for (int i = 0; i < n; i++) {
        int is_used = i % 100 == 99, x = 3 * i;
        if (*kind == 'w') {
            if (is_used) {
                MPI_Win_fence(0, windows[i]);
                MPI_Put(&x, 1, MPI_INT, partner, 1, 1, MPI_INT, windows[i]);
                MPI_Win_fence(0, windows[i]);
                CHECK_EQUAL(cell[1], 3 * i);
            }
            MPI_Win_free(&windows[i]);
        } else if (*kind == 'c') {
            if (is_used) {
                MPI_Bcast(&x, 1, MPI_INT, 0, communicators[i]);
                CHECK_EQUAL(x, 3 * i);
            }
            MPI_Comm_free(&communicators[i]);
        } else if (*kind == 'r') {
            if (is_used) {
                MPI_Start(&requests[i]);
                MPI_Send(&x, 1, MPI_INT, partner, IDLE, MPI_COMM_WORLD);
                MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
                CHECK_EQUAL(cell[0], 3 * i);
            }
            MPI_Request_free(&requests[i]);
        } else {
            CHECK(strlen(ports[i]) > 0);
            MPI_Close_port(ports[i]);
        }
    }
}

int main(int argc, char **argv)
{
    long before[NUMBER], with[NUMBER];
    int n = argc > 2 ? atoi(argv[2]) : 0;
    const char *kind = argc > 1 ? argv[1] : "windows";
    steps_begin();
    check_begin(&argc, &argv);
    partner = check_rank ^ 1;
    count(before);
    count(before);
    make(kind, n);
    count(with);
    use_and_free(kind, n);
    if (check_rank == 0)
        for (int i = 0; i < NUMBER; i++)
            printf("%s %ld %ld\n", CALLS[i].name, before[i], with[i]);
    CHECK_EQUAL(received, 3 * REPEATS);
    int status = check_end();
    steps_end();
    return status;
}
