/* Sessions: process sets, a communicator from a group, errors, a session before and beside the world model,
 * objects of both that one call must not mix (MPI-5 section 11.3). */
#include "check.h"

/* A set says how many it has, and its group agrees; the launcher's sets of the own host and program have this
 * process. */
static void members(MPI_Session session, const char *name)
{
    char text[16];
    int room = sizeof text, has_size, size, rank;
    MPI_Info info;
    MPI_Group group;
    MPI_Session_get_pset_info(session, name, &info);
    MPI_Info_get_string(info, "mpi_size", &room, text, &has_size);
    MPI_Group_from_session_pset(session, name, &group);
    MPI_Group_size(group, &size);
    MPI_Group_rank(group, &rank);
    CHECK(has_size && size > 0 && size == atoi(text));
    if (strncmp(name, "tutti://app/", 12))
        CHECK(rank != MPI_UNDEFINED);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
}

static void sets(MPI_Session session)
{
    int count, length, size;
    char name[MPI_MAX_PSET_NAME_LEN], text[16];
    int room = sizeof text, found = 0, has_size;
    MPI_Info info;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    for (int i = 0; i < count; i++) {
        length = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, NULL);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name);
        CHECK_EQUAL(length, strlen(name) + 1);
        found += !strcmp(name, "mpi://WORLD") || !strcmp(name, "mpi://SELF");
        members(session, name);
    }
    CHECK_EQUAL(found, 2);
    MPI_Session_get_pset_info(session, "mpi://SELF", &info);
    MPI_Info_get_string(info, "mpi_size", &room, text, &has_size);
    size = has_size ? atoi(text) : -1;
    CHECK_EQUAL(size, 1);
    MPI_Info_free(&info);
}

static void errors(MPI_Session session)
{
    MPI_Group group;
    int length = 0;
    CHECK_CLASS(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &group), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 99, &length, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Session_call_errhandler(session, MPI_ERR_OTHER), MPI_SUCCESS);
}

static void communicator(MPI_Session session)
{
    MPI_Group group;
    MPI_Comm comm;
    int sum = 0, one = 1;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "org.tutti.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    MPI_Comm_rank(comm, &check_rank);
    MPI_Comm_size(comm, &check_size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(sum, check_size);
    CHECK_CLASS(MPI_Send(&one, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
}

/* Tests a group of each session, and objects made from them. */
static void mixed(MPI_Session one, MPI_Session other)
{
    MPI_Group groups[2], world, made;
    MPI_Comm comms[2], half, inter;
    MPI_Win window;
    int result, rank = 0;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < 2; i++) {
        MPI_Group_from_session_pset(i ? other : one, "mpi://WORLD", &groups[i]);
        MPI_Comm_create_from_group(groups[i], i ? "other" : "one", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[i]);
    }
    MPI_Group all[] = { groups[1], world };
    for (int i = 0; i < 2; i++) {
        CHECK_CLASS(MPI_Group_union(groups[0], all[i], &made), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Group_intersection(groups[0], all[i], &made), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Group_difference(all[i], groups[0], &made), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Group_compare(groups[0], all[i], &result), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Group_translate_ranks(groups[0], 1, &rank, all[i], &result), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Comm_create(comms[0], all[i], &half), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Comm_create_group(comms[0], all[i], 1, &half), MPI_ERR_GROUP);
        CHECK_CLASS(MPI_Comm_compare(comms[0], i ? MPI_COMM_WORLD : comms[1], &result), MPI_ERR_COMM);
        CHECK_CLASS(MPI_Intercomm_create(comms[0], check_rank, i ? MPI_COMM_WORLD : comms[1], 0, 1, &inter), MPI_ERR_COMM);
        CHECK_CLASS(MPI_Intercomm_create_from_groups(groups[0], 0, all[i], 0, "both", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter), MPI_ERR_GROUP);
    }
    /* Objects made from one session work with that session's objects. A group without members fits all. */
    MPI_Comm_split(comms[0], check_rank % 2, 0, &half);
    MPI_Comm_group(half, &made);
    CHECK_CLASS(MPI_Group_compare(made, groups[0], &result), MPI_SUCCESS);
    CHECK_CLASS(MPI_Group_compare(made, groups[1], &result), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_compare(MPI_GROUP_EMPTY, groups[1], &result), MPI_SUCCESS);
    MPI_Group_free(&made);
    MPI_Comm_free(&half);
    MPI_Win_create(MPI_BOTTOM, 0, 1, MPI_INFO_NULL, comms[0], &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Win_post(groups[1], 0, window), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Win_start(world, 0, window), MPI_ERR_GROUP);
    MPI_Win_get_group(window, &made);
    CHECK_CLASS(MPI_Win_post(made, 0, window), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_start(groups[0], 0, window), MPI_SUCCESS);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Win_free(&window);
    MPI_Group_free(&made);
    MPI_Group_free(&world);
    for (int i = 0; i < 2; i++) {
        MPI_Comm_free(&comms[i]);
        MPI_Group_free(&groups[i]);
    }
}

int main(int argc, char **argv)
{
    MPI_Session session, beside;
    int status, flag;
    for (int round = 0; round < 2; round++) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
        MPI_Initialized(&flag);
        CHECK(!flag); /* that is about the world model only */
        sets(session);
        errors(session);
        communicator(session);
        MPI_Session_finalize(&session);
        CHECK(session == MPI_SESSION_NULL);
    }
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &beside);
    check_begin(&argc, &argv);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    mixed(session, beside);
    MPI_Session_finalize(&session);
    status = check_end();
    communicator(beside); /* the world is over, the session is not */
    MPI_Session_finalize(&beside);
    return status || check_failures;
}
