/* Long messages that their receiver copies out of its sender's mapped memory. The data must be right even if
 * that memory is changed or unmapped. */
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST (1 << 20)
#define ROUNDS 60

static unsigned char *inbox;
static int left, right;

static unsigned char value(int from, int round, size_t at)
{
    return (unsigned char)(from * 37 + round * 101 + at * 7 + (at >> 9));
}

static void fill(unsigned char *data, size_t bytes, int round)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = value(check_rank, round, i);
}

static void compare(size_t bytes, int from, int round, const char *what)
{
    for (size_t i = 0; i < bytes; i++)
        if (inbox[i] != value(from, round, i)) {
            check_say(__FILE__, __LINE__, "%s, round %d: byte %zu of %zu is wrong", what, round, i, bytes);
            return;
        }
}

/* Sends to the right and receives from the left. The data are overwritten as soon as this is allowed. */
static void pass_on(unsigned char *data, size_t bytes, int round, const char *what)
{
    MPI_Request request;
    fill(data, bytes, round);
    MPI_Isend(data, (int)bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &request);
    MPI_Recv(inbox, MOST, MPI_BYTE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    memset(data, 0xee, bytes);
    compare(bytes, left, round, what);
}

/* Tests one buffer, in parts of many lengths that begin anywhere on a page. */
static void parts(void)
{
    unsigned char *data = malloc(MOST + 4096);
    for (int round = 0; round < ROUNDS; round++)
        pass_on(data + round % 3 * 1000, 40000 + (size_t)round * 15000, round, "parts");
    free(data);
}

/* Tests memory that is freed and allocated: allocators return the same addresses again. */
static void come_and_go(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        size_t bytes = (size_t)(1 + round % 4) * 100000;
        unsigned char *data = malloc(bytes), *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pass_on(data, bytes, round, "malloc");
        pass_on(pages, bytes, round + 1, "mmap");
        munmap(pages, bytes);
        free(data);
    }
}

/* Sends the same memory to all, several times at once, also in persistent operations. It is received in
 * another order and in part. */
static void to_all(void)
{
    unsigned char *data = malloc(MOST);
    MPI_Request *requests = malloc(2 * (size_t)check_size * sizeof *requests);
    for (int round = 0; round < ROUNDS / 2; round++) {
        int n = 0, bytes = MOST / 2 + round, planned = round % 2;
        fill(data, MOST, round);
        for (int to = 0; to < check_size; to++)
            for (int tag = 0; tag < 2 && to != check_rank; tag++, n++)
                if (planned)
                    MPI_Send_init(data, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[n]);
                else
                    MPI_Issend(data, bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[n]);
        if (planned)
            MPI_Startall(n, requests);
        for (int i = 1; i < check_size; i++)
            for (int tag = 1; tag >= 0; tag--) {
                int from = (check_rank + i) % check_size;
                MPI_Recv(inbox, MOST, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                compare((size_t)bytes, from, round, "to all");
            }
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; planned && i < n; i++)
            MPI_Request_free(&requests[i]);
    }
    free(requests);
    free(data);
}

/* Into every other item; into too little room, which is an error that leaves the rest alone; and taken
 * back. */
static void odd_receives(void)
{
    unsigned char *data = malloc(MOST / 2);
    MPI_Datatype holes;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Type_vector(MOST / 8, 2, 4, MPI_BYTE, &holes);
    MPI_Type_commit(&holes);
    for (int round = 0; round < ROUNDS / 2; round++) {
        MPI_Request request;
        int kind = round % 3, class, cancelled = 0;
        fill(data, MOST / 4, round);
        memset(inbox, 0xee, MOST);
        MPI_Isend(data, MOST / 4, MPI_BYTE, right, kind, comm, &request);
        if (kind == 0) {
            MPI_Recv(inbox, 1, holes, left, kind, comm, MPI_STATUS_IGNORE);
            for (size_t i = 0; i < MOST / 4; i++)
                inbox[i] = inbox[i / 2 * 4 + i % 2];
            compare(MOST / 4, left, round, "holes");
        } else if (kind == 1) {
            int code = MPI_Recv(inbox, 50001, MPI_BYTE, left, kind, comm, MPI_STATUS_IGNORE);
            MPI_Error_class(code, &class);
            CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
            CHECK_EQUAL(inbox[50001], 0xee);
        } else {
            MPI_Status status;
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &cancelled);
            CHECK(cancelled);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
    }
    MPI_Type_free(&holes);
    MPI_Comm_free(&comm);
    free(data);
}

/* Checks that a child has the memory as it was, and that writes of parent and child do not affect each
 * other. */
static void children(void)
{
    unsigned char *data = malloc(MOST);
    for (int round = 0; round < ROUNDS / 3; round++)
        pass_on(data, MOST, round, "before the fork");
    fill(data, MOST, 1);
    pid_t child = fork();
    if (child == 0) {
        int right_data = data[5] == value(check_rank, 1, 5) && data[MOST - 1] == value(check_rank, 1, MOST - 1);
        memset(data, 0x11, MOST);
        _exit(right_data ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(data[77], value(check_rank, 1, 77));
    for (int round = 0; round < ROUNDS / 3; round++)
        pass_on(data, MOST, round, "after the fork");
    free(data);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    inbox = malloc(MOST);
    parts();
    come_and_go();
    to_all();
    odd_receives();
    children();
    free(inbox);
    return check_end();
}
