/* The tool information interface (MPI-5 section 15.3): control and performance variables, categories,
 * enumerations, events. */
#include "check.h"

static int rank, size;

/* Returns the handle of the control variable of this name. */
static MPI_T_cvar_handle control(const char *name, int *count) {
    int index;
    MPI_T_cvar_handle handle;
    CHECK(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, count) == MPI_SUCCESS);
    return handle;
}

static void before_init(void) {
    int number, provided, index, length = 0;
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided) == MPI_SUCCESS && provided == MPI_THREAD_SERIALIZED);
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(MPI_T_finalize() == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_num(&number) == MPI_SUCCESS && number > 20);

    /* Lengths by the rules of strings. */
    char name[64] = "";
    CHECK(MPI_T_cvar_get_index("TUTTI_EAGER_BYTES", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_info(index, NULL, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(length == (int)strlen("TUTTI_EAGER_BYTES") + 1);
    length = 6;
    CHECK(MPI_T_cvar_get_info(index, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(strcmp(name, "TUTTI") == 0 && length == (int)strlen("TUTTI_EAGER_BYTES") + 1);

    /* A value that is written before MPI_Init takes effect. */
    int count, type_length = sizeof name, bind, scope, verbosity;
    MPI_Datatype type;
    MPI_T_enum words;
    CHECK(MPI_T_cvar_get_info(index, name, &type_length, &verbosity, &type, &words, NULL, NULL, &bind, &scope) == MPI_SUCCESS);
    CHECK(type == MPI_UNSIGNED_LONG_LONG && words == MPI_T_ENUM_NULL && bind == MPI_T_BIND_NO_OBJECT && scope == MPI_T_SCOPE_ALL_EQ);
    MPI_T_cvar_handle eager = control("TUTTI_EAGER_BYTES", &count);
    unsigned long long bytes = 2048, got = 0;
    CHECK(count == 1 && MPI_T_cvar_write(eager, &bytes) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_read(eager, &got) == MPI_SUCCESS && got == 2048);
    MPI_T_cvar_handle stale = eager;
    CHECK(MPI_T_cvar_handle_free(&eager) == MPI_SUCCESS && eager == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_read(stale, &got) == MPI_T_ERR_INVALID_HANDLE);

    MPI_T_cvar_handle copies = control("TUTTI_SINGLE_COPY", &count);
    int word = 7;
    CHECK(MPI_T_cvar_write(copies, &word) == MPI_T_ERR_INVALID);
    word = 2;
    CHECK(MPI_T_cvar_write(copies, &word) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_read(copies, &word) == MPI_SUCCESS && word == 2);
    CHECK(MPI_T_cvar_handle_free(&copies) == MPI_SUCCESS);

    MPI_T_cvar_handle launch = control("TUTTI_START_MS", &count);
    CHECK(MPI_T_cvar_write(launch, &bytes) == MPI_T_ERR_CVAR_SET_NEVER);
    CHECK(MPI_T_cvar_handle_free(&launch) == MPI_SUCCESS);

    char text[1024];
    MPI_T_cvar_handle algorithm = control("TUTTI_ALGORITHM", &count);
    CHECK(count == sizeof text && MPI_T_cvar_write(algorithm, "bcast=knomial") == MPI_SUCCESS);
    CHECK(MPI_T_cvar_read(algorithm, text) == MPI_SUCCESS && strcmp(text, "bcast=knomial") == 0);
    CHECK(MPI_T_cvar_handle_free(&algorithm) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_index("TUTTI_NOTHING", &index) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_cvar_get_info(number, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_get_num(NULL) == MPI_T_ERR_INVALID);
}

static void enumerations(void) {
    int index, items, value, length = 64;
    char name[64];
    MPI_T_enum words;
    CHECK(MPI_T_cvar_get_index("TUTTI_MAPPED", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_info(index, NULL, NULL, NULL, NULL, &words, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(words != MPI_T_ENUM_NULL && MPI_T_enum_get_info(words, &items, name, &length) == MPI_SUCCESS && items == 3);
    CHECK(strcmp(name, "TUTTI_MAPPED") == 0);
    length = sizeof name;
    CHECK(MPI_T_enum_get_item(words, 2, &value, name, &length) == MPI_SUCCESS && value == 2 && strcmp(name, "never") == 0);
    CHECK(MPI_T_enum_get_item(words, 3, &value, name, &length) == MPI_T_ERR_INVALID_ITEM);
    CHECK(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &items, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
}

/* Returns the handle of a performance variable of this class. */
static MPI_T_pvar_handle performance(MPI_T_pvar_session session, const char *name, int class) {
    int index, count;
    MPI_T_pvar_handle handle;
    CHECK(MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    return handle;
}

static unsigned long long read_it(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    unsigned long long value = 0;
    CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
    return value;
}

static void to_self(int bytes) {
    char *data = calloc(2, bytes);
    CHECK(MPI_Sendrecv(data, bytes, MPI_BYTE, 0, 1, data + bytes, bytes, MPI_BYTE, 0, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    free(data);
}

static void variables(void) {
    MPI_T_pvar_session session, other;
    unsigned long long value = 0;
    int index;
    CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS && MPI_T_pvar_session_create(&other) == MPI_SUCCESS);
    MPI_T_pvar_handle messages = performance(session, "tutti_self_messages", MPI_T_PVAR_CLASS_COUNTER);
    MPI_T_pvar_handle bytes = performance(session, "tutti_self_bytes", MPI_T_PVAR_CLASS_AGGREGATE);
    MPI_T_pvar_handle requests = performance(session, "tutti_requests", MPI_T_PVAR_CLASS_LEVEL);
    to_self(100);
    CHECK(read_it(session, messages) == 0);
    CHECK(MPI_T_pvar_start(session, messages) == MPI_SUCCESS && MPI_T_pvar_start(session, bytes) == MPI_SUCCESS);
    to_self(100);
    to_self(200);
    CHECK(read_it(session, messages) == 2 && read_it(session, bytes) == 300);
    CHECK(MPI_T_pvar_stop(session, bytes) == MPI_SUCCESS);
    to_self(50);
    CHECK(read_it(session, messages) == 3 && read_it(session, bytes) == 300);
    CHECK(MPI_T_pvar_readreset(session, messages, &value) == MPI_SUCCESS && value == 3);
    CHECK(read_it(session, messages) == 0);
    value = 1000;
    CHECK(MPI_T_pvar_write(session, bytes, &value) == MPI_SUCCESS && MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
    to_self(7);
    CHECK(read_it(session, bytes) == 1007);
    CHECK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS && read_it(session, bytes) == 0);

    CHECK(MPI_T_pvar_start(session, requests) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    CHECK(MPI_T_pvar_reset(session, requests) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_readreset(session, requests, &value) == MPI_T_ERR_PVAR_NO_ATOMIC);
    CHECK(MPI_T_pvar_read(other, messages, &value) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, messages, &value) == MPI_T_ERR_INVALID_SESSION);
    CHECK(MPI_T_pvar_get_index("tutti_self_bytes", MPI_T_PVAR_CLASS_LEVEL, &index) == MPI_T_ERR_INVALID_NAME);

    /* The algorithm that was forced before MPI_Init. */
    int state = -2, number = 0, length = 64, words_number;
    char name[64] = "";
    MPI_T_enum words;
    MPI_T_pvar_handle chosen = performance(session, "tutti_algorithm_bcast", MPI_T_PVAR_CLASS_STATE);
    CHECK(MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_read(session, chosen, &state) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_index("tutti_algorithm_bcast", MPI_T_PVAR_CLASS_STATE, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_get_info(index, NULL, NULL, NULL, NULL, NULL, &words, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    if (size > 1) {
        CHECK(MPI_T_enum_get_item(words, state, &words_number, name, &length) == MPI_SUCCESS);
        CHECK(strcmp(name, "knomial") == 0);
    }

    /* Messages without a receive are counted. */
    if (size > 1) {
        MPI_T_pvar_handle kept = performance(session, "tutti_unexpected_queue_length", MPI_T_PVAR_CLASS_LEVEL);
        MPI_T_pvar_handle most = performance(session, "tutti_unexpected_queue_most", MPI_T_PVAR_CLASS_HIGHWATERMARK);
        int data[3] = {0}, to = (rank + 1) % size, from = (rank + size - 1) % size, flag = 0;
        for (int i = 0; i < 3; i++) CHECK(MPI_Send(data, 1, MPI_INT, to, i, MPI_COMM_WORLD) == MPI_SUCCESS);
        while (!flag) CHECK(MPI_Iprobe(from, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        CHECK(read_it(session, kept) >= 3 && read_it(session, most) >= 3);
        for (int i = 0; i < 3; i++) CHECK(MPI_Recv(data + i, 1, MPI_INT, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    CHECK(MPI_T_pvar_handle_free(session, &messages) == MPI_SUCCESS && messages == MPI_T_PVAR_HANDLE_NULL);
    CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS && session == MPI_T_PVAR_SESSION_NULL);
    CHECK(MPI_T_pvar_session_free(&other) == MPI_SUCCESS);

    unsigned long long late = 1;
    int count;
    MPI_T_cvar_handle eager = control("TUTTI_EAGER_BYTES", &count);
    CHECK(MPI_T_cvar_read(eager, &value) == MPI_SUCCESS && value == 2048);
    CHECK(MPI_T_cvar_write(eager, &late) == MPI_T_ERR_CVAR_SET_NEVER);
    CHECK(MPI_T_cvar_handle_free(&eager) == MPI_SUCCESS);
}

static void categories(void) {
    int number, cvars = 0, pvars = 0, events = 0, below, all, stamp;
    CHECK(MPI_T_category_get_num(&number) == MPI_SUCCESS && number >= 3);
    for (int i = 0; i < number; i++) {
        int c, p, e;
        CHECK(MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, &c, &p, &below) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_num_events(i, &e) == MPI_SUCCESS);
        int *indices = malloc((c + p + e + below + 1) * sizeof(int));
        CHECK(MPI_T_category_get_cvars(i, c, indices) == MPI_SUCCESS && MPI_T_category_get_pvars(i, p, indices) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_events(i, e, indices) == MPI_SUCCESS);
        CHECK(MPI_T_category_get_categories(i, below, indices) == MPI_SUCCESS);
        CHECK(i > 0 || (below == number - 1 && indices[0] == 1));
        free(indices);
        cvars += c, pvars += p, events += e;
    }
    CHECK(MPI_T_cvar_get_num(&all) == MPI_SUCCESS && all == cvars);
    CHECK(MPI_T_pvar_get_num(&all) == MPI_SUCCESS && all == pvars);
    CHECK(MPI_T_event_get_num(&all) == MPI_SUCCESS && all == events);
    CHECK(MPI_T_category_get_index("tutti_traffic", &all) == MPI_SUCCESS && MPI_T_category_changed(&stamp) == MPI_SUCCESS);
}

/* Events that the callback has received. */
static int heard, freed, heard_bytes;
static MPI_Count heard_at;

static void hears(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    int numbers[4], source = 1, one;
    unsigned long long bytes;
    char whole[24];
    (void)registration;
    CHECK(data == (void *)&heard && safety == MPI_T_CB_REQUIRE_NONE);
    for (int i = 0; i < 4; i++) CHECK(MPI_T_event_read(instance, i, &numbers[i]) == MPI_SUCCESS);
    CHECK(MPI_T_event_read(instance, 4, &bytes) == MPI_SUCCESS && MPI_T_event_copy(instance, whole) == MPI_SUCCESS);
    CHECK(memcmp(whole, numbers, 16) == 0 && memcmp(whole + 16, &bytes, 8) == 0);
    CHECK(MPI_T_event_read(instance, 5, &one) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_timestamp(instance, &heard_at) == MPI_SUCCESS);
    CHECK(MPI_T_event_get_source(instance, &source) == MPI_SUCCESS && source == 0);
    /* A callback may call MPI. */
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &one) == MPI_SUCCESS && one == rank);
    if (numbers[1] == 77) heard++, heard_bytes += (int)bytes;
}

static void is_freed(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    (void)registration, (void)safety;
    freed += data == (void *)&freed;
}

static void events(void) {
    int index, elements = 5, sources, name_length = 64;
    char name[64];
    MPI_Datatype types[5];
    MPI_Aint displacements[5];
    MPI_T_enum words;
    MPI_Info info;
    MPI_Count now, ticks, most;
    MPI_T_source_order order;
    CHECK(MPI_T_source_get_num(&sources) == MPI_SUCCESS && sources == 1);
    CHECK(MPI_T_source_get_info(0, name, &name_length, NULL, NULL, &order, &ticks, &most, &info) == MPI_SUCCESS);
    CHECK(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && MPI_Info_free(&info) == MPI_SUCCESS);
    CHECK(MPI_T_source_get_timestamp(1, &now) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_get_index("tutti_unexpected_message", &index) == MPI_SUCCESS);
    CHECK(MPI_T_event_get_info(index, NULL, NULL, NULL, types, displacements, &elements, &words, &info, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(elements == 5 && types[0] == MPI_INT && types[4] == MPI_UNSIGNED_LONG_LONG && displacements[4] == 16);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
    int item, length = sizeof name;
    CHECK(MPI_T_enum_get_item(words, 1, &item, name, &length) == MPI_SUCCESS && strcmp(name, "tag") == 0);

    MPI_T_event_registration registration;
    CHECK(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration) == MPI_SUCCESS);
    CHECK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &heard, hears) == MPI_SUCCESS);
    CHECK(MPI_T_event_set_dropped_handler(registration, NULL) == MPI_SUCCESS);
    CHECK(MPI_T_event_handle_get_info(registration, &info) == MPI_SUCCESS && MPI_T_event_handle_set_info(registration, info) == MPI_SUCCESS);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
    CHECK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info) == MPI_SUCCESS);
    CHECK(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, info) == MPI_SUCCESS && MPI_Info_free(&info) == MPI_SUCCESS);
    CHECK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, &info) == MPI_T_ERR_INVALID);
    CHECK(MPI_T_source_get_timestamp(0, &now) == MPI_SUCCESS);
    char data[40] = "";
    MPI_Request request;
    CHECK(MPI_Isend(data, 40, MPI_BYTE, 0, 77, MPI_COMM_SELF, &request) == MPI_SUCCESS);
    CHECK(heard == 1 && heard_bytes == 40 && heard_at >= now);
    CHECK(MPI_Recv(data, 40, MPI_BYTE, 0, 77, MPI_COMM_SELF, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS && heard == 1);
    CHECK(MPI_T_event_handle_free(registration, &freed, is_freed) == MPI_SUCCESS && freed == 1);
    CHECK(MPI_T_event_handle_free(registration, NULL, NULL) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_Isend(data, 40, MPI_BYTE, 0, 77, MPI_COMM_SELF, &request) == MPI_SUCCESS && heard == 1);
    CHECK(MPI_Recv(data, 40, MPI_BYTE, 0, 77, MPI_COMM_SELF, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
}

int main(int argc, char **argv) {
    int number;
    long all = 0;
    before_init();
    enumerations();
    check_begin(&argc, &argv);
    rank = check_rank, size = check_size;
    variables();
    categories();
    events();
    MPI_Allreduce(&check_failures, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    CHECK(MPI_T_pvar_get_num(&number) == MPI_SUCCESS && number > 20);
    CHECK(MPI_T_finalize() == MPI_SUCCESS && MPI_T_pvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    if (rank == 0 && all == 0 && check_failures == 0)
        puts("ok");
    return all != 0 || check_failures != 0;
}
