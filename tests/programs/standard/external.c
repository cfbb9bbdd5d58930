/* External interfaces (MPI-5, chapter 13). */
#include "rows.h"

struct request {
    MPI_Status *passed;
    int queries, frees, cancels, was_complete, answer, keeps_fields, tag_before;
};

static int query(void *extra, MPI_Status *status)
{
    struct request *mine = extra;
    mine->queries++;
    mine->passed = status;
    mine->tag_before = status->MPI_TAG;
    if (!mine->keeps_fields) {
        status->MPI_SOURCE = 11;
        status->MPI_TAG = 12;
    }
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, mine->cancels);
    return mine->answer;
}

static int finish(void *extra)
{
    struct request *mine = extra;
    mine->frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    struct request *mine = extra;
    mine->cancels++;
    mine->was_complete = complete;
    return MPI_SUCCESS;
}

static void generalised(void)
{
    struct request mine = {0};
    MPI_Request request, both[2];
    MPI_Status status = {.MPI_SOURCE = 1, .MPI_TAG = 2, .MPI_ERROR = 77}, statuses[2];
    int flag, n, index, count, indices[2];
    ALLOWED("13.2", "start", MPI_Grequest_start(query, finish, cancel, &mine, &request));
    MPI_Test(&request, &flag, &status);
    HOLDS("13.2", "one that is not complete is not over", !flag && !mine.queries);
    MPI_Grequest_complete(request);
    MPI_Request_get_status(request, &flag, &status);
    HOLDS("13.2", "get_status calls the query function alone", flag && mine.queries == 1 && mine.frees == 0);
    HOLDS("13.2", "with the status that was passed", mine.passed == &status);
    status.MPI_TAG = 99;
    MPI_Wait(&request, &status);
    HOLDS("13.2", "wait calls query and free", mine.queries == 2 && mine.frees == 1 && request == MPI_REQUEST_NULL);
    HOLDS("13.2", "query gets the status that was passed", mine.passed == &status && mine.tag_before == 99);
    HOLDS("13.2", "what it sets comes back", status.MPI_SOURCE == 11 && status.MPI_TAG == 12);
    MPI_Get_elements(&status, MPI_INT, &n);
    ROW("13.2", "with the elements", n, 3);
    ROW("13.2", "MPI_ERROR stays", status.MPI_ERROR, 77);

    mine = (struct request){.keeps_fields = 1};
    status.MPI_SOURCE = 41, status.MPI_TAG = 42;
    MPI_Grequest_start(query, finish, cancel, &mine, &request);
    MPI_Grequest_complete(request);
    MPI_Test(&request, &flag, &status);
    HOLDS("13.2", "what query does not set stays", flag && status.MPI_SOURCE == 41 && status.MPI_TAG == 42 && mine.passed == &status);
    MPI_Grequest_start(query, finish, cancel, &mine, &request);
    MPI_Grequest_complete(request);
    mine.passed = NULL;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS("13.2", "MPI_STATUS_IGNORE: query gets a status all the same", mine.passed != NULL && mine.passed != MPI_STATUS_IGNORE);

    for (int form = 0; form < 5; form++) {
        mine = (struct request){0};
        MPI_Grequest_start(query, finish, cancel, &mine, &both[1]);
        both[0] = MPI_REQUEST_NULL;
        MPI_Grequest_complete(both[1]);
        switch (form) {
        case 0: MPI_Waitall(2, both, statuses); break;
        case 1: MPI_Testall(2, both, &flag, statuses); break;
        case 2: MPI_Waitany(2, both, &index, &statuses[1]); break;
        case 3: MPI_Waitsome(2, both, &count, indices, statuses); break;
        case 4: MPI_Testany(2, both, &index, &flag, &statuses[1]); break;
        }
        HOLDS("13.2", "query gets its place among several statuses", mine.passed == &statuses[form != 3] && mine.queries == 1 && mine.frees == 1);
        ROW("13.2", "which it fills", statuses[form != 3].MPI_TAG, 12);
    }

    mine = (struct request){0};
    MPI_Grequest_start(query, finish, cancel, &mine, &request);
    MPI_Cancel(&request);
    HOLDS("13.2", "cancel calls the cancel function", mine.cancels == 1 && mine.was_complete == 0);
    MPI_Grequest_complete(request);
    MPI_Cancel(&request);
    HOLDS("13.2", "and says whether it is complete", mine.cancels == 2 && mine.was_complete == 1);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    ROW("13.2", "it was cancelled", flag, 1);

    mine = (struct request){.answer = MPI_ERR_FILE};
    MPI_Grequest_start(query, finish, cancel, &mine, &request);
    MPI_Grequest_complete(request);
    REFUSED("13.2", "a query function that fails", MPI_Wait(&request, &status), MPI_ERR_FILE);
    ROW("13.2", "is freed all the same", mine.frees, 1);

    mine = (struct request){0};
    MPI_Grequest_start(query, finish, cancel, &mine, &request);
    MPI_Request_free(&request);
    HOLDS("13.2", "free of one that is not complete", mine.frees == 0 && request == MPI_REQUEST_NULL);
    MPI_Isend(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request);
    REFUSED("13.2", "complete of another kind of request", MPI_Grequest_complete(request), MPI_ERR_REQUEST);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    REFUSED("13.2", "complete of MPI_REQUEST_NULL", MPI_Grequest_complete(request), MPI_ERR_REQUEST);
}

static void statuses(void)
{
    MPI_Status status;
    MPI_Count large;
    MPI_Datatype pair;
    int n, flag;
    memset(&status, 0, sizeof status);
    MPI_Status_set_elements(&status, MPI_INT, 7);
    MPI_Get_count(&status, MPI_INT, &n);
    ROW("13.3", "set_elements and get_count", n, 7);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Status_set_elements(&status, pair, 5);
    MPI_Get_elements(&status, pair, &n);
    ROW("13.3", "set_elements and get_elements of a derived type", n, 5);
    MPI_Get_count(&status, pair, &n);
    ROW("13.3", "which are no whole items", n, MPI_UNDEFINED);
    MPI_Type_free(&pair);
    MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)5 << 31);
    MPI_Get_elements_c(&status, MPI_BYTE, &large);
    ROW("13.3", "large counts", large, (MPI_Count)5 << 31);
    MPI_Get_elements(&status, MPI_BYTE, &n);
    ROW("13.3", "that an int cannot hold", n, MPI_UNDEFINED);
    MPI_Status_set_cancelled(&status, 1);
    MPI_Test_cancelled(&status, &flag);
    ROW("13.3", "set_cancelled", flag, 1);
    MPI_Status_set_cancelled(&status, 0);
    MPI_Test_cancelled(&status, &flag);
    ROW("13.3", "and back", flag, 0);
    MPI_Status_set_source(&status, 3);
    MPI_Status_set_tag(&status, 4);
    MPI_Status_set_error(&status, MPI_ERR_COUNT);
    HOLDS("13.3", "source, tag and error", status.MPI_SOURCE == 3 && status.MPI_TAG == 4 && status.MPI_ERROR == MPI_ERR_COUNT);
    REFUSED("13.3", "a negative count", MPI_Status_set_elements(&status, MPI_INT, -1), MPI_ERR_COUNT);
    REFUSED("13.3", "MPI_DATATYPE_NULL", MPI_Status_set_elements(&status, MPI_DATATYPE_NULL, 1), MPI_ERR_TYPE);
}

int main(int argc, char **argv)
{
    rows_begin(&argc, &argv);
    generalised();
    statuses();
    return rows_end();
}
