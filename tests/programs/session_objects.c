/* Objects that belong to a session: the buffer of its communicators (MPI-5, 3.6), and the handler of errors
 * on its groups (9.3). */
#include "check.h"

enum { SMALL = 100, LARGE = 4000, ROOM = 100000 };

static char message[LARGE], taken[LARGE];

/* Checks that a buffered send of this many bytes to the next rank gives this class, and that it arrives if
 * the class is MPI_SUCCESS. */
static int sends(int bytes, MPI_Comm comm)
{
    int rank, size, class = MPI_SUCCESS;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int code = MPI_Bsend(message, bytes, MPI_BYTE, (rank + 1) % size, 3, comm);
    if (code == MPI_SUCCESS)
        MPI_Recv(taken, bytes, MPI_BYTE, (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE);
    else
        MPI_Error_class(code, &class);
    MPI_Barrier(comm);
    return class;
}

static MPI_Comm communicator(MPI_Session session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void buffers(MPI_Session with, MPI_Session without)
{
    static char of_process[SMALL + MPI_BSEND_OVERHEAD], of_session[ROOM], of_comm[ROOM];
    MPI_Comm one = communicator(with, "one"), other = communicator(without, "other"), dup, half;
    void *address;
    int size;
    MPI_Comm_dup(one, &dup);
    MPI_Comm_split(one, 0, 0, &half);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* A session's communicator has no buffer unless one is attached, and the world none of a session. */
    CHECK_EQUAL(sends(SMALL, one), MPI_ERR_BUFFER);
    MPI_Session_attach_buffer(with, of_session, ROOM);
    CHECK_EQUAL(sends(LARGE, one), MPI_SUCCESS);
    CHECK_EQUAL(sends(LARGE, dup), MPI_SUCCESS);
    CHECK_EQUAL(sends(LARGE, half), MPI_SUCCESS);
    CHECK_EQUAL(sends(SMALL, other), MPI_ERR_BUFFER);
    CHECK_EQUAL(sends(SMALL, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    /* The buffer of the process serves communicators that have no other. */
    MPI_Buffer_attach(of_process, sizeof of_process);
    CHECK_EQUAL(sends(SMALL, MPI_COMM_WORLD), MPI_SUCCESS);
    CHECK_EQUAL(sends(LARGE, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_EQUAL(sends(SMALL, other), MPI_SUCCESS);
    CHECK_EQUAL(sends(LARGE, other), MPI_ERR_BUFFER);
    CHECK_EQUAL(sends(LARGE, one), MPI_SUCCESS);
    /* A communicator's own comes first, also where it is the smaller one. */
    MPI_Comm_attach_buffer(one, of_comm, sizeof of_process);
    CHECK_EQUAL(sends(LARGE, one), MPI_ERR_BUFFER);
    CHECK_EQUAL(sends(SMALL, one), MPI_SUCCESS);
    CHECK_EQUAL(sends(LARGE, half), MPI_SUCCESS);
    MPI_Comm_detach_buffer(one, &address, &size);
    CHECK(address == of_comm && size == sizeof of_process);
    MPI_Session_detach_buffer(with, &address, &size);
    CHECK(address == of_session && size == ROOM);
    CHECK_EQUAL(sends(LARGE, half), MPI_ERR_BUFFER);
    CHECK_EQUAL(sends(SMALL, half), MPI_SUCCESS);
    MPI_Buffer_detach(&address, &size);
    CHECK(address == of_process);
    MPI_Session_attach_buffer(with, MPI_BUFFER_AUTOMATIC, 0);
    CHECK_EQUAL(sends(LARGE, one), MPI_SUCCESS);
    CHECK_EQUAL(sends(SMALL, other), MPI_ERR_BUFFER);
    MPI_Session_detach_buffer(with, &address, &size);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
    MPI_Comm_free(&one);
    MPI_Comm_free(&other);
}

static MPI_Session seen;
static int of_session, of_self;

static void session_error(MPI_Session *session, int *code, ...)
{
    (void)code;
    seen = *session;
    of_session++;
}

static void self_error(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    of_self += *comm == MPI_COMM_SELF;
}

/* Errors on such a group reach the handler of this session, or of MPI_COMM_SELF. */
static void fail(MPI_Group group, MPI_Session session)
{
    MPI_Group made, world;
    int wrong[] = { 9999 }, range[1][3] = { { 0, 9999, 1 } }, got, result, before[2] = { of_session, of_self };
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    CHECK(MPI_Group_incl(group, 1, wrong, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_excl(group, 1, wrong, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_range_incl(group, 1, range, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_range_excl(group, 1, range, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_translate_ranks(group, 1, wrong, group, &got) != MPI_SUCCESS);
    CHECK(MPI_Group_rank(group, NULL) != MPI_SUCCESS);
    CHECK(MPI_Group_size(group, NULL) != MPI_SUCCESS);
    CHECK(MPI_Group_compare(group, MPI_GROUP_NULL, &result) != MPI_SUCCESS);
    CHECK(MPI_Group_compare(MPI_GROUP_NULL, group, &result) != MPI_SUCCESS);
    CHECK(MPI_Group_union(group, MPI_GROUP_NULL, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_intersection(group, MPI_GROUP_NULL, &made) != MPI_SUCCESS);
    CHECK(MPI_Group_difference(group, MPI_GROUP_NULL, &made) != MPI_SUCCESS);
    CHECK_EQUAL(of_session - before[0], session == MPI_SESSION_NULL ? 0 : 12);
    CHECK_EQUAL(of_self - before[1], session == MPI_SESSION_NULL ? 12 : 0);
    CHECK(session == MPI_SESSION_NULL || seen == session);
    MPI_Group_free(&world);
}

static void errors(MPI_Session one, MPI_Session other)
{
    MPI_Errhandler handlers[2];
    MPI_Session sessions[] = { one, other, MPI_SESSION_NULL };
    int first[] = { 0 }, before;
    MPI_Session_create_errhandler(session_error, &handlers[0]);
    MPI_Comm_create_errhandler(self_error, &handlers[1]);
    MPI_Session_set_errhandler(one, handlers[0]);
    MPI_Session_set_errhandler(other, handlers[0]);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handlers[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Group groups[4];
        MPI_Comm comm = MPI_COMM_WORLD;
        if (sessions[i] != MPI_SESSION_NULL) {
            MPI_Group_from_session_pset(sessions[i], "mpi://WORLD", &groups[0]);
            MPI_Comm_create_from_group(groups[0], "errors", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
        } else {
            MPI_Comm_group(MPI_COMM_WORLD, &groups[0]);
        }
        MPI_Group_incl(groups[0], 1, first, &groups[1]);
        MPI_Group_union(groups[1], groups[0], &groups[2]);
        MPI_Comm_group(comm, &groups[3]);
        for (int j = 0; j < 4; j++) {
            fail(groups[j], sessions[i]);
            MPI_Group_free(&groups[j]);
        }
        if (comm != MPI_COMM_WORLD)
            MPI_Comm_free(&comm);
    }
    before = of_self;
    MPI_Group none = MPI_GROUP_NULL;
    CHECK(MPI_Group_free(&none) != MPI_SUCCESS);
    CHECK_EQUAL(of_self, before + 1);
    MPI_Errhandler_free(&handlers[0]);
    MPI_Errhandler_free(&handlers[1]);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    MPI_Session with, without;
    check_begin(&argc, &argv);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &without);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &with);
    buffers(with, without);
    errors(with, without);
    MPI_Session_finalize(&with);
    MPI_Session_finalize(&without);
    return check_end();
}
