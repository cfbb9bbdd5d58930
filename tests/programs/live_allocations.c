/* Checks that objects that are created and freed again and again leave no memory allocated. Counts the
 * allocations of this process that are alive.
 * arguments: CYCLES [KIND] */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long live_bytes, live_count;

static void *counted(void *memory)
{
    if (memory) {
        atomic_fetch_add(&live_bytes, (long)malloc_usable_size(memory));
        atomic_fetch_add(&live_count, 1);
    }
    return memory;
}

static void uncount(void *memory)
{
    if (memory) {
        atomic_fetch_sub(&live_bytes, (long)malloc_usable_size(memory));
        atomic_fetch_sub(&live_count, 1);
    }
}

void *malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void *memalign(size_t align, size_t bytes) { return counted(__libc_memalign(align, bytes)); }
void *aligned_alloc(size_t align, size_t bytes) { return counted(__libc_memalign(align, bytes)); }
int posix_memalign(void **memory, size_t align, size_t bytes)
{
    *memory = counted(__libc_memalign(align, bytes));
    return *memory || !bytes ? 0 : ENOMEM;
}
void *realloc(void *memory, size_t bytes)
{
    uncount(memory);
    void *moved = __libc_realloc(memory, bytes);
    counted(moved ? moved : bytes ? memory : NULL);
    return moved;
}
void free(void *memory)
{
    uncount(memory);
    __libc_free(memory);
}

static int rank, size, to, from;
static MPI_Comm half, between;
static MPI_Group everybody;

#define DUP(d) MPI_Comm d; MPI_Comm_dup(MPI_COMM_WORLD, &d)
#define WORLD MPI_COMM_WORLD
#define IGNORE MPI_STATUS_IGNORE

static void use(MPI_Comm comm)
{
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    MPI_Barrier(comm);
}

static void done(MPI_Comm comm)
{
    if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

/* Communicators. */
static void dup_(void) { DUP(d); done(d); }
static void dup_used(void) { DUP(d); for (int i = 0; i < 8; i++) use(d); done(d); }
static void dup_with_info(void) { MPI_Comm d; MPI_Info info; MPI_Info_create(&info); MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(WORLD, info, &d); MPI_Info_free(&info); done(d); }
static void idup(void) { MPI_Comm d; MPI_Request r; MPI_Comm_idup(WORLD, &d, &r); MPI_Wait(&r, IGNORE); done(d); }
static void split(void) { MPI_Comm d; MPI_Comm_split(WORLD, rank % 2, 0, &d); use(d); done(d); }
static void split_type(void) { MPI_Comm d; MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &d); done(d); }
static void create(void) { MPI_Comm d; MPI_Comm_create(WORLD, everybody, &d); done(d); }
static void create_group(void) { DUP(d); MPI_Comm x; MPI_Comm_create_group(d, everybody, 3, &x); done(x); done(d); }
static void create_from_group(void) { MPI_Comm d; MPI_Comm_create_from_group(everybody, "live", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &d); done(d); }
static void cart(void) { MPI_Comm d, x; int dims[1] = {size}, periods[1] = {1}, keep[1] = {1};
    MPI_Cart_create(WORLD, 1, dims, periods, 1, &d); MPI_Cart_sub(d, keep, &x); done(x); done(d); }
static void graph(void) { MPI_Comm d; int index[64], edges[64]; for (int i = 0; i < size; i++) { index[i] = i + 1; edges[i] = (i + 1) % size; }
    MPI_Graph_create(WORLD, size, index, edges, 0, &d); done(d); }
static void dist_graph(void) { MPI_Comm d; int degree = 1, weight = 1; MPI_Dist_graph_create(WORLD, 1, &rank, &degree, &to, &weight, MPI_INFO_NULL, 0, &d); done(d); }
static void dist_graph_adjacent(void) { MPI_Comm d; int got = 0, weight = 1; MPI_Dist_graph_create_adjacent(WORLD, 1, &from, &weight, 1, &to, &weight, MPI_INFO_NULL, 0, &d);
    MPI_Neighbor_allgather(&rank, 1, MPI_INT, &got, 1, MPI_INT, d); done(d); }
static void intercomm(void) { DUP(d); MPI_Comm x; MPI_Intercomm_create(half, 0, d, (rank + 1) % 2, 1, &x); MPI_Barrier(x); done(x); done(d); }
static void intercomm_from_groups(void) { MPI_Comm x; MPI_Group mine, theirs; MPI_Comm_group(between, &mine); MPI_Comm_remote_group(between, &theirs);
    MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "inter", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &x); MPI_Group_free(&mine); MPI_Group_free(&theirs); done(x); }
static void merge(void) { MPI_Comm x, y; MPI_Comm_dup(between, &y); MPI_Intercomm_merge(y, rank % 2, &x); done(x); done(y); }
static void merge_same(void) { MPI_Comm x; MPI_Intercomm_merge(between, rank % 2, &x); use(x); done(x); }
static void inter_dup(void) { MPI_Comm x; MPI_Comm_dup(between, &x); MPI_Barrier(x); done(x); }
static void inter_idup(void) { MPI_Comm x; MPI_Request r; MPI_Comm_idup(between, &x, &r); MPI_Wait(&r, IGNORE); done(x); }
static void inter_split(void) { MPI_Comm x; MPI_Comm_split(between, 0, rank, &x); done(x); }
static void inter_create(void) { MPI_Comm x; MPI_Group mine; MPI_Comm_group(between, &mine); MPI_Comm_create(between, mine, &x); MPI_Group_free(&mine); done(x); }

/* Communicators that are freed while something is under way. */
static void late_receive(void) { DUP(d); int a = 1, b = 0; MPI_Request r, s; MPI_Irecv(&b, 1, MPI_INT, from, 0, d, &r); MPI_Barrier(WORLD);
    MPI_Isend(&a, 1, MPI_INT, to, 0, d, &s); done(d); MPI_Wait(&r, IGNORE); MPI_Wait(&s, IGNORE); }
static void late_wild_receive(void) { DUP(d); int a = 1, b = 0; MPI_Request r, s; MPI_Irecv(&b, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, d, &r); MPI_Barrier(WORLD);
    MPI_Issend(&a, 1, MPI_INT, to, 0, d, &s); done(d); MPI_Wait(&r, IGNORE); MPI_Wait(&s, IGNORE); }
static void late_cancel(void) { DUP(d); int b = 0; MPI_Request r; MPI_Irecv(&b, 1, MPI_INT, from, 9, d, &r); done(d); MPI_Cancel(&r); MPI_Wait(&r, IGNORE); }
static void late_barrier(void) { DUP(d); MPI_Request r; MPI_Ibarrier(d, &r); done(d); MPI_Wait(&r, IGNORE); }
static void late_bcast(void) { static char big[100000]; DUP(d); MPI_Request r; MPI_Ibcast(big, sizeof big, MPI_BYTE, 0, d, &r); done(d); MPI_Wait(&r, IGNORE); }
static void late_inter_barrier(void) { MPI_Comm x; MPI_Request r; MPI_Comm_dup(between, &x); MPI_Ibarrier(x, &r); done(x); MPI_Wait(&r, IGNORE); }
static void late_persistent(void) { DUP(d); int a = 1, b = 0; MPI_Request r, s; MPI_Send_init(&a, 1, MPI_INT, to, 0, d, &s); MPI_Recv_init(&b, 1, MPI_INT, from, 0, d, &r); done(d);
    for (int i = 0; i < 2; i++) { MPI_Start(&r); MPI_Start(&s); MPI_Wait(&r, IGNORE); MPI_Wait(&s, IGNORE); } MPI_Request_free(&r); MPI_Request_free(&s); }
static void late_collective(void) { DUP(d); int a = 1, b = 0; MPI_Request r; MPI_Allreduce_init(&a, &b, 1, MPI_INT, MPI_SUM, d, MPI_INFO_NULL, &r); done(d);
    for (int i = 0; i < 2; i++) { MPI_Start(&r); MPI_Wait(&r, IGNORE); } MPI_Request_free(&r); }

/* Requests. */
static void persistent(void) { int a = 1, b = 0; MPI_Request r; MPI_Allreduce_init(&a, &b, 1, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &r); MPI_Start(&r); MPI_Wait(&r, IGNORE); MPI_Request_free(&r); }
static void persistent_unused(void) { MPI_Request r; MPI_Barrier_init(WORLD, MPI_INFO_NULL, &r); MPI_Request_free(&r); }
static void persistent_large(void) { static double a[20000], b[20000]; MPI_Request r; MPI_Allreduce_init(a, b, 20000, MPI_DOUBLE, MPI_SUM, WORLD, MPI_INFO_NULL, &r); MPI_Start(&r); MPI_Wait(&r, IGNORE); MPI_Request_free(&r); }
static void persistent_inter(void) { MPI_Request r; MPI_Barrier_init(between, MPI_INFO_NULL, &r); MPI_Start(&r); MPI_Wait(&r, IGNORE); MPI_Request_free(&r); }
static void persistent_many(void) { MPI_Request r[100]; int a = 1, b[100]; for (int i = 0; i < 100; i++) MPI_Allreduce_init(&a, &b[i], 1, MPI_INT, MPI_SUM, WORLD, MPI_INFO_NULL, &r[i]);
    MPI_Startall(100, r); MPI_Waitall(100, r, MPI_STATUSES_IGNORE); for (int i = 0; i < 100; i++) MPI_Request_free(&r[rank % 2 ? i : 99 - i]); }
static void partitioned(void) { int a = 1, b = 0, f = 0; MPI_Request r, s; MPI_Psend_init(&a, 1, 1, MPI_INT, to, 5, WORLD, MPI_INFO_NULL, &s); MPI_Precv_init(&b, 1, 1, MPI_INT, from, 5, WORLD, MPI_INFO_NULL, &r);
    MPI_Start(&r); MPI_Start(&s); MPI_Pready(0, s); while (!f) MPI_Parrived(r, 0, &f); MPI_Wait(&s, IGNORE); MPI_Wait(&r, IGNORE); MPI_Request_free(&s); MPI_Request_free(&r); }
static int query(void *extra, MPI_Status *status) { (void)extra; MPI_Status_set_elements(status, MPI_INT, 0); MPI_Status_set_cancelled(status, 0); status->MPI_SOURCE = 0; status->MPI_TAG = 0; return 0; }
static int free_(void *extra) { (void)extra; return 0; }
static int cancel_(void *extra, int complete) { (void)extra; (void)complete; return 0; }
static void generalised(void) { MPI_Request r; MPI_Grequest_start(query, free_, cancel_, NULL, &r); MPI_Grequest_complete(r); MPI_Wait(&r, IGNORE); }
static void matched(void) { DUP(d); int a = 1, b = 0; MPI_Message m; MPI_Request s; MPI_Isend(&a, 1, MPI_INT, to, 0, d, &s); MPI_Mprobe(MPI_ANY_SOURCE, 0, d, &m, IGNORE); MPI_Mrecv(&b, 1, MPI_INT, &m, IGNORE); MPI_Wait(&s, IGNORE); done(d); }
static void outstanding(void) { MPI_Request r[300]; for (int i = 0; i < 300; i++) MPI_Ibarrier(WORLD, &r[i]); MPI_Waitall(300, r, MPI_STATUSES_IGNORE); }
static void buffered(void) { DUP(d); char buffer[4096]; void *p; int n, a = 1, b; MPI_Comm_attach_buffer(d, buffer, sizeof buffer); MPI_Bsend(&a, 1, MPI_INT, to, 0, d); MPI_Recv(&b, 1, MPI_INT, from, 0, d, IGNORE); MPI_Comm_detach_buffer(d, &p, &n); done(d); }

/* Windows and files. */
static void win_use(MPI_Win w) { int a = 1; MPI_Win_lock(MPI_LOCK_SHARED, to, 0, w); MPI_Put(&a, 1, MPI_INT, to, 0, 1, MPI_INT, w); MPI_Win_unlock(to, w); MPI_Win_free(&w); }
static void win_create(void) { int b = 0; MPI_Win w; MPI_Win_create(&b, 4, 4, MPI_INFO_NULL, WORLD, &w); win_use(w); }
static void win_allocate(void) { int *b; MPI_Win w; MPI_Win_allocate(64, 4, MPI_INFO_NULL, WORLD, &b, &w); win_use(w); }
static void win_shared(void) { int *b; MPI_Win w; MPI_Win_allocate_shared(64, 4, MPI_INFO_NULL, WORLD, &b, &w); MPI_Win_fence(0, w); MPI_Win_fence(0, w); MPI_Win_free(&w); }
static void win_dynamic(void) { MPI_Win w; static int b[16]; MPI_Win_create_dynamic(MPI_INFO_NULL, WORLD, &w); MPI_Win_attach(w, b, sizeof b); MPI_Win_detach(w, b); MPI_Win_free(&w); }
static void file(void) { MPI_File f; int a = 1; MPI_File_open(WORLD, "live_allocations.dat", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f);
    MPI_File_write_at_all(f, rank * 4, &a, 1, MPI_INT, IGNORE); MPI_File_close(&f); }

/* Objects of one process. */
static void type(MPI_Datatype t) { MPI_Type_commit(&t); MPI_Type_free(&t); }
static void types(void)
{
    MPI_Datatype t; int two[2] = {1, 2}, at[2] = {0, 3}, sizes[2] = {4, 4}, sub[2] = {2, 2}, start[2] = {1, 1}, psizes[2] = {1, 1};
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_BLOCK}, dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG};
    MPI_Aint there[2] = {0, 16}; MPI_Datatype both[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_contiguous(3, MPI_INT, &t); type(t); MPI_Type_vector(3, 2, 4, MPI_INT, &t); type(t); MPI_Type_create_hvector(3, 2, 40, MPI_INT, &t); type(t);
    MPI_Type_indexed(2, two, at, MPI_INT, &t); type(t); MPI_Type_create_hindexed(2, two, there, MPI_INT, &t); type(t);
    MPI_Type_create_indexed_block(2, 2, at, MPI_INT, &t); type(t); MPI_Type_create_hindexed_block(2, 2, there, MPI_INT, &t); type(t);
    MPI_Type_create_struct(2, two, there, both, &t); type(t); MPI_Type_create_subarray(2, sizes, sub, start, MPI_ORDER_C, MPI_INT, &t); type(t);
    MPI_Type_create_darray(1, 0, 2, sizes, distribs, dargs, psizes, MPI_ORDER_C, MPI_INT, &t); type(t);
    MPI_Type_dup(MPI_INT, &t); type(t); MPI_Type_create_resized(MPI_INT, 0, 64, &t); type(t);
}
static void type_used(void) { MPI_Datatype t; int a[8] = {0}, b[8]; MPI_Type_vector(3, 1, 2, MPI_INT, &t); MPI_Type_commit(&t); MPI_Bcast(a, 1, t, 0, WORLD); MPI_Sendrecv(a, 1, t, to, 0, b, 1, t, from, 0, WORLD, IGNORE); MPI_Type_free(&t); }
static void groups(void) { MPI_Group g, h, k; int zero[1] = {0}, range[1][3] = {{0, 0, 1}}; MPI_Comm_group(WORLD, &g); MPI_Group_incl(g, 1, zero, &h); MPI_Group_free(&h); MPI_Group_excl(g, 1, zero, &h); MPI_Group_free(&h);
    MPI_Group_range_incl(g, 1, range, &h); MPI_Group_union(g, h, &k); MPI_Group_free(&k); MPI_Group_intersection(g, h, &k); MPI_Group_free(&k); MPI_Group_difference(g, h, &k); MPI_Group_free(&k); MPI_Group_free(&h);
    MPI_Group_range_excl(g, 1, range, &h); MPI_Group_free(&h); MPI_Group_free(&g); }
static void infos(void) { MPI_Info a, b; MPI_Info_create(&a); MPI_Info_set(a, "key", "value"); MPI_Info_dup(a, &b); MPI_Info_free(&a); MPI_Info_free(&b); }
static void sum(void *in, void *out, int *n, MPI_Datatype *t) { (void)t; for (int i = 0; i < *n; i++) ((int *)out)[i] += ((int *)in)[i]; }
static void op(void) { MPI_Op o; int a = 1, b; MPI_Op_create(sum, 1, &o); MPI_Allreduce(&a, &b, 1, MPI_INT, o, WORLD); MPI_Op_free(&o); }
static void keyvals(void) { int k, t, w; MPI_Datatype d; DUP(c); MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &k, NULL); MPI_Comm_set_attr(c, k, NULL); done(c); MPI_Comm_free_keyval(&k);
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &t, NULL); MPI_Type_dup(MPI_INT, &d); MPI_Type_set_attr(d, t, NULL); MPI_Type_free(&d); MPI_Type_free_keyval(&t); MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &w, NULL); MPI_Win_free_keyval(&w); }
static void on_error(MPI_Comm *comm, int *code, ...) { (void)comm; (void)code; }
static void handlers(void) { MPI_Errhandler e; DUP(d); MPI_Comm_create_errhandler(on_error, &e); MPI_Comm_set_errhandler(d, e); MPI_Errhandler_free(&e); done(d); }
static void codes(void) { int class, code; MPI_Add_error_class(&class); MPI_Add_error_code(class, &code); MPI_Add_error_string(code, "text"); MPI_Remove_error_string(code); MPI_Remove_error_code(code); MPI_Remove_error_class(class); }
static void session(void) { MPI_Session s; MPI_Group g; MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &s); MPI_Group_from_session_pset(s, "mpi://WORLD", &g); MPI_Group_free(&g); MPI_Session_finalize(&s); }
static void memory(void) { void *p; MPI_Alloc_mem(1000, MPI_INFO_NULL, &p); MPI_Free_mem(p); }

/* Processes of other jobs, and of this one as if they were. */
static const char *own_program;
static void spawn(void) { MPI_Comm x; MPI_Comm_spawn(own_program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, WORLD, &x, MPI_ERRCODES_IGNORE); MPI_Barrier(x); MPI_Comm_disconnect(&x); }
static void port(void)
{
    char name[MPI_MAX_PORT_NAME] = ""; MPI_Comm x;
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, name);
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, WORLD);
    if (rank % 2) MPI_Comm_connect(name, MPI_INFO_NULL, 0, half, &x);
    else MPI_Comm_accept(name, MPI_INFO_NULL, 0, half, &x);
    MPI_Barrier(x);
    MPI_Comm_disconnect(&x);
    if (rank == 0) MPI_Close_port(name);
}
static void join(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener, fd; MPI_Comm x;
    if (rank > 1) return;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == 0) {
        listener = fd;
        bind(listener, (struct sockaddr *)&address, sizeof address); listen(listener, 1);
        getsockname(listener, (struct sockaddr *)&address, &bytes);
        MPI_Send(&address, sizeof address, MPI_BYTE, 1, 0, WORLD);
        fd = accept(listener, NULL, NULL);
        close(listener);
    } else {
        MPI_Recv(&address, sizeof address, MPI_BYTE, 0, 0, WORLD, IGNORE);
        connect(fd, (struct sockaddr *)&address, sizeof address);
    }
    MPI_Comm_join(fd, &x);
    MPI_Comm_disconnect(&x);
    close(fd);
}

/* Kinds of objects. Cycles that touch files or map much memory are tried less often. */
static const struct kind { const char *name; void (*cycle)(void); int every; } KINDS[] = {
#define KIND(name) {#name, name, 1}
    KIND(dup_), KIND(dup_used), KIND(dup_with_info), KIND(idup), KIND(split), KIND(split_type), KIND(create), KIND(create_group),
    KIND(create_from_group), KIND(cart), KIND(graph), KIND(dist_graph), KIND(dist_graph_adjacent), KIND(intercomm),
    KIND(intercomm_from_groups), KIND(merge), KIND(merge_same), KIND(inter_dup), KIND(inter_idup), KIND(inter_split), KIND(inter_create),
    KIND(late_receive), KIND(late_wild_receive), KIND(late_cancel), KIND(late_barrier), KIND(late_bcast), KIND(late_inter_barrier),
    KIND(late_persistent), KIND(late_collective), KIND(persistent), KIND(persistent_unused), KIND(persistent_large), KIND(persistent_inter),
    {"persistent_many", persistent_many, 20}, KIND(partitioned), KIND(generalised), KIND(matched), {"outstanding", outstanding, 20}, KIND(buffered),
    {"win_create", win_create, 4}, {"win_allocate", win_allocate, 4}, {"win_shared", win_shared, 4}, {"win_dynamic", win_dynamic, 4}, {"file", file, 20},
    {"spawn", spawn, 50}, {"port", port, 20}, {"join", join, 20},
    KIND(types), KIND(type_used), KIND(groups), KIND(infos), KIND(op), KIND(keyvals), KIND(handlers), KIND(codes), KIND(session), KIND(memory),
};

enum { WINDOWS = 5 };

static long now_alive(void)
{
    for (int i = 0; i < 3; i++) MPI_Barrier(WORLD);
    return atomic_load(&live_bytes);
}

/* Returns the bytes that stay for each cycle. A leak shows in every window of cycles; a table that grows once
 * does not.
   */
static double measure(const struct kind *kind, int cycles)
{
    long least = INT64_MAX, before, each = cycles / kind->every / WINDOWS;
    if (each < 4) each = 4;
    for (int i = 0; i < each && i < 500; i++) kind->cycle();
    before = now_alive();
    for (int window = 0; window < WINDOWS; window++) {
        for (long i = 0; i < each; i++) kind->cycle();
        long after = now_alive();
        if (after - before < least) least = after - before;
        before = after;
    }
    return (double)least / each;
}

int main(int argc, char **argv)
{
    int bad = 0, cycles = argc > 1 ? atoi(argv[1]) : 400;
    MPI_Init(&argc, &argv);
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
        return MPI_Finalize();
    }
    own_program = argv[0];
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    MPI_Comm_group(WORLD, &everybody);
    MPI_Comm_split(WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, WORLD, (rank + 1) % 2, 1, &between);
    for (unsigned i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        if (argc > 2 && strcmp(argv[2], KINDS[i].name)) continue;
        double stays = measure(&KINDS[i], cycles), most;
        MPI_Allreduce(&stays, &most, 1, MPI_DOUBLE, MPI_MAX, WORLD);
        if (most >= 1) bad = 1;
        if (!rank && (most >= 1 || argc > 2)) printf("%s: %.1f bytes stay each time\n", KINDS[i].name, most);
        fflush(stdout);
    }
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
    MPI_Group_free(&everybody);
    if (!rank && !bad) printf("ok\n");
    MPI_Finalize();
    return bad;
}
