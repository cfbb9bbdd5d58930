/* Spawned processes: `spawn HOW CHILDREN`; the program starts itself with `child HOW`. */
#include "check.h"
#include <unistd.h>

enum { LONG_COUNT = 1 << 20 };

/* Sends messages of all sizes between all members of both groups, with and without wildcards. */
static void talk(MPI_Comm inter, int is_parent)
{
    int rank, size, remote;
    MPI_Comm_rank(inter, &rank);
    MPI_Comm_size(inter, &size);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Request *requests = malloc((size_t)remote * sizeof *requests);
    int *words = malloc((size_t)remote * sizeof *words);
    for (int to = 0; to < remote; to++) {
        words[to] = 1000 * rank + to + (is_parent ? 0 : 500000);
        MPI_Isend(&words[to], 1, MPI_INT, to, 7, inter, &requests[to]);
    }
    for (int i = 0; i < remote; i++) {
        MPI_Status status;
        int word;
        MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 7, inter, &status);
        CHECK_EQUAL(word, 1000 * status.MPI_SOURCE + rank + (is_parent ? 500000 : 0));
    }
    MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        int *out = malloc(LONG_COUNT * sizeof *out), *in = malloc(LONG_COUNT * sizeof *in);
        for (int i = 0; i < LONG_COUNT; i++)
            out[i] = i * 7 + is_parent;
        MPI_Sendrecv(out, LONG_COUNT, MPI_INT, 0, 8, in, LONG_COUNT, MPI_INT, 0, 8, inter, MPI_STATUS_IGNORE);
        for (int i = 0; i < LONG_COUNT; i += 999)
            CHECK_EQUAL(in[i], i * 7 + !is_parent);
        free(out);
        free(in);
    }
    free(words);
    free(requests);
}

/* Merges the two groups and tests collectives of several sizes. */
static void together(MPI_Comm inter, int high)
{
    MPI_Comm all, twin, even;
    int rank, size, local, remote, sum;
    MPI_Comm_size(inter, &local);
    MPI_Comm_remote_size(inter, &remote);
    MPI_Intercomm_merge(inter, high, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    CHECK_EQUAL(size, local + remote);
    CHECK_EQUAL(high ? rank >= remote : rank < local, 1);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    CHECK_EQUAL(sum, size * (size - 1) / 2);
    for (int count = 1; count <= 1 << 18; count *= 64) {
        int *data = calloc((size_t)count, sizeof *data);
        for (int root = 0; root < size; root++) {
            for (int i = 0; i < count; i++)
                data[i] = rank == root ? root + i : -1;
            MPI_Bcast(data, count, MPI_INT, root, all);
            CHECK_EQUAL(data[count - 1], root + count - 1);
        }
        int *from = calloc((size_t)count * (size_t)size, sizeof *from);
        for (int i = 0; i < count; i++)
            data[i] = rank;
        MPI_Allgather(data, count, MPI_INT, from, count, MPI_INT, all);
        for (int i = 0; i < size; i++)
            CHECK_EQUAL(from[(size_t)i * count + count - 1], i);
        free(from);
        free(data);
    }
    MPI_Comm_dup(all, &twin);
    MPI_Comm_split(twin, rank % 2, 0, &even);
    MPI_Barrier(even);
    MPI_Comm_free(&even);
    MPI_Comm_free(&twin);
    MPI_Barrier(all);
    MPI_Comm_free(&all);
}

static void spawn_self(char *program, const char *how, int count, MPI_Comm comm, MPI_Comm *inter)
{
    char *arguments[] = { "child", (char *)how, NULL };
    int codes[16], rank;
    for (int i = 0; i < 16; i++)
        codes[i] = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_spawn(rank ? NULL : program, rank ? NULL : arguments, rank ? -1 : count, MPI_INFO_NULL, 0, comm, inter, codes);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(codes[i], MPI_SUCCESS);
}

/* Runs a child that connects to the children of another spawn. */
static void sibling(MPI_Comm parent, int is_right)
{
    MPI_Comm all, between;
    MPI_Intercomm_merge(parent, 1, &all);
    MPI_Intercomm_create(is_right ? MPI_COMM_WORLD : all, 0, is_right ? all : MPI_COMM_NULL, 0, 11, &between);
    talk(between, !is_right);
    together(between, is_right);
    MPI_Comm_disconnect(&between);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&parent);
}

static int child(int argc, char **argv)
{
    MPI_Comm parent, again;
    const char *how = argc > 2 ? argv[2] : "";
    MPI_Comm_get_parent(&parent);
    MPI_Comm_get_parent(&again);
    CHECK(parent != MPI_COMM_NULL && parent == again);
    if (!strcmp(how, "die")) {
        if (check_rank == 0)
            exit(5);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (!strcmp(how, "abort") && check_rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(how, "stay")) {
        printf("stays\n");
        fflush(stdout);
        pause();
    }
    if (!strcmp(how, "left") || !strcmp(how, "right")) {
        sibling(parent, !strcmp(how, "right"));
        MPI_Finalize();
        return check_failures != 0;
    }
    if (!strcmp(how, "lenient")) {
        CHECK_CLASS(MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT);
        CHECK_CLASS(MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    }
    talk(parent, 0);
    together(parent, 1);
    if (!strcmp(how, "nested")) {
        MPI_Comm grand;
        spawn_self(argv[0], "plain", 2, MPI_COMM_WORLD, &grand);
        talk(grand, 1);
        together(grand, 0);
        MPI_Comm_disconnect(&grand);
    }
    if (!strcmp(how, "long"))
        MPI_Send(&check_rank, 1, MPI_INT, 0, 99, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&parent);
    CHECK(parent == MPI_COMM_NULL);
    if (!strcmp(how, "late")) {
        usleep(100000);
        printf("late child\n");
        fflush(stdout);
        _exit(9);
    }
    if (!strcmp(how, "long"))
        sleep(1);
    long failures = check_failures;
    MPI_Finalize();
    return failures != 0;
}

/* Connects the children of two spawns through their parent. Only the parent knows both. */
static void siblings(char *program)
{
    MPI_Comm inter[2], all[2], between;
    for (int i = 0; i < 2; i++) {
        spawn_self(program, i ? "right" : "left", 2, MPI_COMM_WORLD, &inter[i]);
        MPI_Intercomm_merge(inter[i], 0, &all[i]);
    }
    /* The left family without the right children: leaders are parent 0 and child 0 of the right. */
    MPI_Intercomm_create(all[0], 0, all[1], check_size, 11, &between);
    talk(between, 1);
    together(between, 0);
    MPI_Comm_disconnect(&between);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_disconnect(&all[i]);
        MPI_Comm_disconnect(&inter[i]);
    }
}

static void refused(char *program)
{
    MPI_Comm inter;
    MPI_Info info;
    int codes[2] = { -1, -1 };
    char *arguments[] = { "child", "plain", NULL };
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_spawn("./no-such-program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN);
    if (check_rank == 0)
        CHECK(codes[0] != MPI_SUCCESS && codes[1] != MPI_SUCCESS);
    CHECK_CLASS(MPI_Comm_spawn("true", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE), MPI_ERR_SPAWN);
    CHECK_CLASS(MPI_Comm_spawn(program, arguments, -1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE),
        check_rank ? MPI_ERR_SPAWN : MPI_ERR_ARG);
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "no-such-host");
    CHECK_CLASS(MPI_Comm_spawn(program, arguments, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE), MPI_ERR_SPAWN);
    MPI_Info_free(&info);
    CHECK_CLASS(MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, check_size, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE), MPI_ERR_ROOT);
}

static void multiple(char *program)
{
    MPI_Comm inter;
    MPI_Info infos[2];
    char *commands[] = { program, program }, *plain[] = { "child", "plain", NULL }, *lenient[] = { "child", "lenient", NULL };
    char **arguments[] = { plain, lenient };
    int counts[] = { 1, 2 }, codes[3] = { -1, -1, -1 }, size;
    MPI_Info_create(&infos[0]);
    MPI_Info_set(infos[0], "wdir", "/");
    MPI_Info_set(infos[0], "soft", "0:1");
    MPI_Info_create(&infos[1]);
    MPI_Info_set(infos[1], "mpi_initial_errhandler", "mpi_errors_return");
    MPI_Comm_spawn_multiple(2, commands, arguments, counts, infos, 0, MPI_COMM_WORLD, &inter, codes);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(codes[i], MPI_SUCCESS);
    MPI_Comm_remote_size(inter, &size);
    CHECK_EQUAL(size, 3);
    talk(inter, 1);
    together(inter, 0);
    MPI_Comm_disconnect(&inter);
    MPI_Info_free(&infos[0]);
    MPI_Info_free(&infos[1]);
}

int main(int argc, char **argv)
{
    MPI_Comm inter, other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (argc > 1 && !strcmp(argv[1], "child"))
        return child(argc, argv);
    const char *how = argc > 1 ? argv[1] : "plain";
    int children = argc > 2 ? atoi(argv[2]) : 1;
    if (!strcmp(how, "refused")) {
        refused(argv[0]);
        return check_end();
    }
    if (!strcmp(how, "siblings")) {
        siblings(argv[0]);
        return check_end();
    }
    if (!strcmp(how, "hosts")) { /* where the ranks are on several hosts */
        for (int round = 0; round < 2; round++) {
            spawn_self(argv[0], "plain", children, MPI_COMM_WORLD, &inter);
            talk(inter, 1);
            together(inter, 0);
            MPI_Comm_disconnect(&inter);
        }
        spawn_self(argv[0], "plain", children, MPI_COMM_SELF, &inter);
        talk(inter, 1);
        together(inter, 0);
        MPI_Comm_disconnect(&inter);
        return check_end();
    }
    if (!strcmp(how, "multiple")) {
        multiple(argv[0]);
        return check_end();
    }
    MPI_Comm_get_parent(&inter);
    CHECK(inter == MPI_COMM_NULL);
    if (!strcmp(how, "each")) { /* every rank by itself, again and again */
        for (int round = 0; round < 3; round++) {
            spawn_self(argv[0], "plain", children, MPI_COMM_SELF, &inter);
            talk(inter, 1);
            together(inter, 0);
            MPI_Comm_disconnect(&inter);
        }
        return check_end();
    }
    spawn_self(argv[0], how, children, MPI_COMM_WORLD, &inter);
    if (!strcmp(how, "die") || !strcmp(how, "abort") || !strcmp(how, "stay")) {
        int word;
        MPI_Recv(&word, 1, MPI_INT, 0, 5, inter, MPI_STATUS_IGNORE);
        printf("not ended\n");
        return 0;
    }
    talk(inter, 1);
    together(inter, 0);
    if (!strcmp(how, "long"))
        for (int i = 0; check_rank == 0 && i < children; i++) {
            int word;
            MPI_Recv(&word, 1, MPI_INT, i, 99, inter, MPI_STATUS_IGNORE);
        }
    if (!strcmp(how, "twice")) {
        spawn_self(argv[0], "plain", 1, MPI_COMM_WORLD, &other);
        talk(other, 1);
        together(other, 0);
        MPI_Comm_disconnect(&other);
    }
    MPI_Comm_disconnect(&inter);
    if (!strcmp(how, "late")) {
        sleep(1);
        CHECK(1);
    }
    return check_end();
}
