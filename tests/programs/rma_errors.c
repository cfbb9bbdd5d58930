/* Wrong use of windows gives the right error class, and the window goes on working. */
#include "check.h"

static int handled;

static void handler(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
    handled++;
}

static void combine(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)count, (void)type;
}

static int deleted;

static int on_delete(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)extra;
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

/* Makes calls that are wrong before and between epochs. */
static void epochs(MPI_Win win)
{
    long one = 1, other;
    int flag;
    MPI_Group group;
    MPI_Win_get_group(win, &group);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_start(group, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    if (check_size > 1)
        CHECK_CLASS(MPI_Get(&other, 1, MPI_LONG, !check_rank, 0, 1, MPI_LONG, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Get(&other, 1, MPI_LONG, check_rank, 0, 1, MPI_LONG, win), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_unlock(check_rank, win), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_unlock(MPI_PROC_NULL, win), MPI_SUCCESS);
    MPI_Group_free(&group);
}

static void arguments(MPI_Win win)
{
    long one = 1, other;
    MPI_Request request;
    MPI_Op op;
    CHECK_CLASS(MPI_Win_lock(7, 0, 0, win), MPI_ERR_LOCKTYPE);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, check_size, 0, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Win_lock_all(1, win), MPI_ERR_ASSERT);
    MPI_Win_lock_all(0, win);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, check_size, 0, 1, MPI_LONG, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, -77, 0, 1, MPI_LONG, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, 0, -1, 1, MPI_LONG, win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, 0, 8, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, 0, 1L << 61, 1, MPI_LONG, win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Get(&other, 1, MPI_LONG, 0, 7, 1, MPI_LONG, win), MPI_SUCCESS);
    CHECK_CLASS(MPI_Get(&other, -1, MPI_LONG, 0, 7, 1, MPI_LONG, win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Get(&other, 1, MPI_LONG, 0, 7, -1, MPI_LONG, win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Get(&other, 1, MPI_INT, 0, 7, 1, MPI_LONG, win), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Get(&other, 1, MPI_DATATYPE_NULL, 0, 7, 1, MPI_LONG, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Rget(NULL, 1, MPI_LONG, 0, 7, 1, MPI_LONG, win, &request), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Accumulate(&one, 1, MPI_DOUBLE, 0, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Compare_and_swap(&one, &one, &other, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
    MPI_Op_create(combine, 1, &op);
    CHECK_CLASS(MPI_Accumulate(&one, 1, MPI_LONG, 0, 0, 1, MPI_LONG, op, win), MPI_ERR_OP);
    MPI_Op_free(&op);
    CHECK_CLASS(MPI_Put(&one, 1, MPI_LONG, MPI_PROC_NULL, -5, 1, MPI_LONG, win), MPI_SUCCESS);
    MPI_Win_unlock_all(win);
}

static void objects(MPI_Win win)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, key, weight = 5, found, *got;
    MPI_Errhandler user;
    MPI_Win_set_name(win, "tides");
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 5 && !strcmp(name, "tides"));
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &key, NULL);
    MPI_Win_set_attr(win, key, &weight);
    MPI_Win_get_attr(win, key, &got, &found);
    CHECK(found && got == &weight);
    MPI_Win_delete_attr(win, key);
    CHECK_EQUAL(deleted, 5);
    MPI_Win_set_attr(win, key, &weight);
    MPI_Win_free_keyval(&key);
    MPI_Win_create_errhandler(handler, &user);
    MPI_Win_set_errhandler(win, user);
    MPI_Win_complete(win);
    CHECK_EQUAL(handled, 1);
    MPI_Win_call_errhandler(win, MPI_ERR_OTHER);
    CHECK_EQUAL(handled, 2);
    MPI_Errhandler_free(&user);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
}

int main(int argc, char **argv)
{
    MPI_Win win, copy;
    long *memory, own[4];
    int unit;
    MPI_Aint size;
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Win_create(own, -1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_SIZE);
    CHECK_CLASS(MPI_Win_create(own, 8, 0, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_ERR_BASE);
    CHECK_CLASS(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_NULL, &memory, &win), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    epochs(win);
    arguments(win);
    objects(win);
    CHECK_CLASS(MPI_Win_attach(win, own, 8), MPI_ERR_RMA_FLAVOR);
    copy = win;
    CHECK_CLASS(MPI_Win_free(&win), MPI_SUCCESS);
    CHECK_EQUAL(deleted, 10);
    CHECK(win == MPI_WIN_NULL);
    CHECK_CLASS(MPI_Win_fence(0, copy), MPI_ERR_WIN);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Win_attach(win, own, sizeof own), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_attach(win, own + 1, 8), MPI_ERR_RMA_ATTACH);
    CHECK_CLASS(MPI_Win_detach(win, own + 1), MPI_ERR_RMA_ATTACH);
    CHECK_CLASS(MPI_Win_detach(win, own), MPI_SUCCESS);
    CHECK_CLASS(MPI_Win_shared_query(win, 0, &size, &unit, &memory), MPI_ERR_RMA_FLAVOR);
    MPI_Win_free(&win);
    return check_end();
}
