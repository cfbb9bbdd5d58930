/* Rows of the tables of this folder: a section of MPI 5.0, what is done, what came and what must come. A row
   that does not hold
   prints all of it. */
#ifndef TUTTI_TEST_ROWS_H
#define TUTTI_TEST_ROWS_H

#include "../check.h"

static long rows_done;

static inline void row_failed(const char *section, const char *what, const char *got, const char *wanted)
{
    check_failures++;
    fprintf(stderr, "MPI-5 %s: %s: %s came, not %s (rank %d of %d)\n", section, what, got, wanted, check_rank, check_size);
    fflush(stderr);
}

static inline void row_number(const char *section, const char *what, long long got, long long wanted)
{
    char texts[2][32];
    rows_done++;
    if (got == wanted)
        return;
    snprintf(texts[0], sizeof texts[0], "%lld", got);
    snprintf(texts[1], sizeof texts[1], "%lld", wanted);
    row_failed(section, what, texts[0], texts[1]);
}

static inline void row_class(const char *section, const char *what, int code, int wanted)
{
    char texts[2][MPI_MAX_ERROR_STRING] = {"success", "success"};
    int got = MPI_SUCCESS, length;
    rows_done++;
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &got);
    if (got == wanted)
        return;
    if (got != MPI_SUCCESS)
        MPI_Error_string(got, texts[0], &length);
    if (wanted != MPI_SUCCESS)
        MPI_Error_string(wanted, texts[1], &length);
    row_failed(section, what, texts[0], texts[1]);
}

static inline void row_text(const char *section, const char *what, const char *got, const char *wanted)
{
    rows_done++;
    if (!got || !wanted ? got != wanted : strcmp(got, wanted) != 0)
        row_failed(section, what, got ? got : "nothing", wanted ? wanted : "nothing");
}

/* A number, or whether something holds. */
#define ROW(section, what, got, wanted) row_number(section, what, (long long)(got), (long long)(wanted))
#define HOLDS(section, what, condition) row_number(section, what, !!(condition), 1)
/* A call that succeeds, or that is refused with an error of this class. */
#define ALLOWED(section, what, call) row_class(section, what, call, MPI_SUCCESS)
#define REFUSED(section, what, call, wanted) row_class(section, what, call, wanted)
#define TEXT(section, what, got, wanted) row_text(section, what, got, wanted)

/* Returns the value of a key, or NULL. The text is valid until four more calls. */
static inline const char *value_of(MPI_Info info, const char *key)
{
    static char texts[4][MPI_MAX_INFO_VAL];
    static int next;
    char *text = texts[next++ % 4];
    int flag = 0, length = MPI_MAX_INFO_VAL;
    if (info == MPI_INFO_NULL)
        return NULL;
    MPI_Info_get_string(info, key, &length, text, &flag);
    return flag ? text : NULL;
}

/* Returns a new info object with up to two pairs. The caller frees it. */
static inline MPI_Info info_with(const char *key, const char *value, const char *other_key, const char *other_value)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    if (other_key)
        MPI_Info_set(info, other_key, other_value);
    return info;
}

/* Returns 1 if a list with commas has this entry. */
static inline int has_entry(const char *list, const char *entry)
{
    size_t length = strlen(entry);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, entry, length) && (at[length] == ',' || !at[length]))
            return 1;
    return 0;
}

static inline void rows_begin(int *argc, char ***argv)
{
    check_begin(argc, argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
}

static inline int rows_end(void)
{
    if (check_rank == 0)
        printf("%ld rows\n", rows_done);
    return check_end();
}

#endif
