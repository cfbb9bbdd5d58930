/* Requests a checkpoint of its own job by a control variable (MPI-5 section 15.3), from the last rank.
 * Arguments: the word (now, stop; empty: no request), and a file that the last round waits for.
 * Arguments: the word (now, stop), or none: nothing is asked for; a file that the last round waits for. */
#include "check.h"
#include <unistd.h>

/* Writes a word to TUTTI_CHECKPOINT and returns the result of the write. */
static int ask(const char *word)
{
    int index, count, items, value, length, got = -1;
    MPI_T_cvar_handle handle;
    MPI_T_enum words;
    MPI_Datatype type;
    char name[64];
    CHECK(MPI_T_cvar_get_index("TUTTI_CHECKPOINT", &index) == MPI_SUCCESS);
    CHECK(MPI_T_cvar_get_info(index, NULL, NULL, NULL, &type, &words, NULL, NULL, NULL, NULL) == MPI_SUCCESS);
    CHECK(type == MPI_INT && MPI_T_enum_get_info(words, &items, NULL, NULL) == MPI_SUCCESS && items == 3);
    for (int item = 0; item < items; item++) {
        length = sizeof name;
        CHECK(MPI_T_enum_get_item(words, item, &value, name, &length) == MPI_SUCCESS);
        if (!strcmp(name, word))
            got = value;
    }
    CHECK(got >= 0 && MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS && count == 1);
    int result = MPI_T_cvar_write(handle, &got);
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS);
    return result;
}

int main(int argc, char **argv)
{
    int rank, size, provided;
    unsigned sum = 0;
    const char *word = argc > 1 ? argv[1] : "", *gate = argc > 2 ? argv[2] : NULL;
    CHECK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) == MPI_SUCCESS);
    CHECK(ask("now") == MPI_T_ERR_CVAR_SET_NOT_NOW);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(ask("no") == MPI_SUCCESS);
    for (int round = 0; round < 1000; round++) {
        unsigned mine = (unsigned)(rank + round) * 2654435761u, all;
        if (round == 500 && rank == size - 1 && *word)
            CHECK(ask(word) == MPI_SUCCESS);
        while (round == 999 && rank == 0 && gate && access(gate, F_OK))
            usleep(2000);
        MPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED, MPI_BXOR, MPI_COMM_WORLD);
        sum = sum * 31 + all;
    }
    if (rank == 0) {
        printf("checksum %x\n", sum);
        fflush(stdout);
    }
    MPI_Finalize();
    MPI_T_finalize();
    return check_failures != 0;
}
