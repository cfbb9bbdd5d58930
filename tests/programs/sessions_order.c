/* Sessions and the world in the order of the letters of the first argument (MPI-5, 11.2.1 and 11.3). After
 * each
 * one all that is open is used.
 *
 * s, m: a session of the default level, of MPI_THREAD_MULTIPLE, used and closed
 * h, H: the same, left open
 * c: closes the one that was left open first
 * w, W: MPI_Init_thread for MPI_THREAD_FUNNELED, for MPI_THREAD_MULTIPLE
 * f: MPI_Finalize
 */
#include "check.h"
#include <pthread.h>

enum { MOST = 64, THREADS = 3 };

static const char *const LEVELS[] = { "MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE" };

static MPI_Session open_sessions[MOST];
static int is_multiple[MOST], first, last, world = -1, is_over;

static int number_of(const char *level)
{
    const int numbers[] = { MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE };
    for (int i = 0; i < 4; i++)
        if (!strcmp(level, LEVELS[i]))
            return numbers[i];
    return -1;
}

static int level_of(MPI_Session session)
{
    char text[64] = "";
    int room = sizeof text, found = 0;
    MPI_Info info;
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &room, text, &found);
    MPI_Info_free(&info);
    CHECK(found);
    return number_of(text);
}

static void *talk(void *argument)
{
    MPI_Comm comm = *(MPI_Comm *)argument;
    int rank, size, got;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 50; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 1, &got, 1, MPI_INT, (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, i);
    }
    return NULL;
}

/* Checks that threads work in a session of MPI_THREAD_MULTIPLE. */
static void threads(MPI_Comm comm)
{
    pthread_t running[THREADS];
    MPI_Comm comms[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(comm, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&running[i], NULL, talk, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(running[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
}

static void use(MPI_Session session, int multiple, const char *set, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    int one = 1, sum = 0, size;
    MPI_Group_from_session_pset(session, set, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_size(comm, &size);
    if (!strcmp(set, "mpi://WORLD")) {
        MPI_Comm_rank(comm, &check_rank);
        check_size = size;
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(sum, size);
    talk(&comm);
    if (multiple)
        threads(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
}

static MPI_Session begin(int multiple)
{
    MPI_Info info;
    MPI_Session session;
    int level;
    MPI_Info_create(&info);
    if (multiple)
        MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    level = level_of(session);
    CHECK(multiple ? level == MPI_THREAD_MULTIPLE : level != MPI_THREAD_SINGLE && level >= 0);
    return session;
}

static void use_all(void)
{
    int level, flag;
    MPI_Initialized(&flag);
    CHECK_EQUAL(flag, world >= 0);
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, is_over);
    for (int i = first; i < last; i++) {
        use(open_sessions[i], is_multiple[i], "mpi://WORLD", "all");
        use(open_sessions[i], 0, "mpi://SELF", "one");
        CHECK(!is_multiple[i] || level_of(open_sessions[i]) == MPI_THREAD_MULTIPLE);
    }
    if (world >= 0 && !is_over) {
        int one = 1, sum;
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQUAL(sum, check_size);
        MPI_Query_thread(&level);
        CHECK_EQUAL(level, world);
        MPI_Is_thread_main(&flag);
        CHECK(flag);
    } else if (first < last) {
        int most = -1;
        for (int i = first; i < last; i++)
            most = level_of(open_sessions[i]) > most ? level_of(open_sessions[i]) : most;
        MPI_Query_thread(&level);
        CHECK_EQUAL(level, most);
    }
}

static void begin_world(int multiple)
{
    int required = multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    MPI_Init_thread(NULL, NULL, required, &world);
    CHECK_EQUAL(world, required);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (multiple)
        threads(MPI_COMM_WORLD);
}

/* The communicators of the world are those of the world. */
static void end_world(void)
{
    int size;
    if (first < last)
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Finalize();
    is_over = 1;
    if (first < last)
        CHECK_CLASS(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_ERR_COMM);
}

int main(int argc, char **argv)
{
    for (const char *step = argc > 1 ? argv[1] : "swfs"; *step; step++) {
        int multiple = *step == 'm' || *step == 'H' || *step == 'W';
        switch (*step) {
        case 's':
        case 'm':
        case 'h':
        case 'H':
            is_multiple[last] = multiple;
            open_sessions[last++] = begin(multiple);
            break;
        case 'c': break;
        case 'w':
        case 'W': begin_world(multiple); break;
        case 'f': end_world(); break;
        default: return 2;
        }
        use_all();
        if (*step == 's' || *step == 'm')
            MPI_Session_finalize(&open_sessions[--last]);
        if (*step == 'c')
            MPI_Session_finalize(&open_sessions[first++]);
    }
    printf(check_failures ? "FAILED: %ld checks\n" : "ok\n", check_failures);
    return check_failures != 0;
}
