/* Programs of waits.c about objects that only exist: a ping-pong and a fruitless MPI_Iprobe beside n of them, and what it takes to make
 * and free them. */
#ifndef TUTTI_BENCH_WAITS_OBJECTS_H
#define TUTTI_BENCH_WAITS_OBJECTS_H

#include "waits.h"

#define PING_TAG 21
#define IDLE_TAG 22
#define MOST_OBJECTS 100000

enum objects { NOTHING, WINDOWS, COMMUNICATORS, REQUESTS, PORTS };

/* Objects of one kind, which are kept for the following cells: creating a thousand windows for each takes long. */
static struct {
    enum objects kind;
    int count;
    MPI_Win *windows;
    MPI_Comm *communicators;
    MPI_Request *requests;
    char (*ports)[MPI_MAX_PORT_NAME];
} held;

static char exposed[4096];
static int idle_buffer;

static int make_object(enum objects kind, int i)
{
    switch (kind) {
    case WINDOWS:
        return MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &held.windows[i]);
    case COMMUNICATORS: return MPI_Comm_dup(MPI_COMM_WORLD, &held.communicators[i]);
    case REQUESTS:
        return MPI_Recv_init(&idle_buffer, 1, MPI_INT, MPI_ANY_SOURCE, IDLE_TAG, MPI_COMM_WORLD, &held.requests[i]);
    case PORTS: return MPI_Open_port(MPI_INFO_NULL, held.ports[i]);
    default: return MPI_SUCCESS;
    }
}

static void free_object(int i)
{
    switch (held.kind) {
    case WINDOWS: MPI_Win_free(&held.windows[i]); break;
    case COMMUNICATORS: MPI_Comm_free(&held.communicators[i]); break;
    case REQUESTS: MPI_Request_free(&held.requests[i]); break;
    case PORTS: MPI_Close_port(held.ports[i]); break;
    default: break;
    }
}

static void drop_objects(struct cell *c)
{
    (void)c;
    for (int i = 0; i < held.count; i++)
        free_object(i);
    free(held.windows), free(held.communicators), free(held.requests), free(held.ports);
    memset(&held, 0, sizeof held);
}

/* Creates n objects of a kind and frees all others. If the library supports fewer, it frees all and returns 0. */
static int hold(struct cell *c, enum objects kind)
{
    size_t n = (size_t)c->n;
    int made = 0, all;
    if (held.kind == kind && held.count == c->n)
        return 1;
    drop_objects(c);
    held.kind = kind;
    held.windows = malloc(n * sizeof *held.windows), held.communicators = malloc(n * sizeof *held.communicators);
    held.requests = malloc(n * sizeof *held.requests), held.ports = malloc(n * sizeof *held.ports);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    while (made < c->n && make_object(kind, made) == MPI_SUCCESS)
        made++;
    held.count = made;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Allreduce(&made, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (all < c->n)
        drop_objects(c);
    return all == c->n;
}

static int hold_nothing(struct cell *c)
{
    c->n = 0;
    return hold(c, NOTHING);
}
static int hold_windows(struct cell *c) { return hold(c, WINDOWS); }
static int hold_communicators(struct cell *c) { return hold(c, COMMUNICATORS); }
static int hold_requests(struct cell *c) { return hold(c, REQUESTS); }
static int hold_ports(struct cell *c) { return hold(c, PORTS); }

/* Exchanges messages between the first and the last rank, and returns the time at rank 0. */
static double ping_pong(struct cell *c)
{
    int x = 0, last = c->ranks - 1;
    double start = MPI_Wtime();
    for (long i = 0; i < c->iterations; i++) {
        if (c->rank == 0) {
            MPI_Send(&x, 1, MPI_INT, last, PING_TAG, MPI_COMM_WORLD);
            MPI_Recv(&x, 1, MPI_INT, last, PING_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (c->rank == last) {
            MPI_Recv(&x, 1, MPI_INT, 0, PING_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(&x, 1, MPI_INT, 0, PING_TAG, MPI_COMM_WORLD);
        }
    }
    return c->rank == 0 ? MPI_Wtime() - start : 0;
}

/* n objects made, all alive, and freed: the time of one. Nothing is held afterwards. */
static double many(struct cell *c, enum objects kind)
{
    drop_objects(c);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    hold(c, kind);
    drop_objects(c);
    c->iterations = c->n;
    return MPI_Wtime() - start;
}

static double many_windows(struct cell *c) { return many(c, WINDOWS); }
static double many_communicators(struct cell *c) { return many(c, COMMUNICATORS); }

/* One made and freed after the other. */
static double one_window(struct cell *c)
{
    MPI_Win win;
    double start = MPI_Wtime();
    for (long i = 0; i < c->iterations; i++) {
        MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_free(&win);
    }
    return MPI_Wtime() - start;
}

static double one_communicator(struct cell *c)
{
    MPI_Comm comm;
    double start = MPI_Wtime();
    for (long i = 0; i < c->iterations; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_free(&comm);
    }
    return MPI_Wtime() - start;
}

#endif
