// A C++ program: constants, callbacks and handles as C++ takes them, exceptions across calls, containers as buffers.
#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void expect(bool good, const char *what)
{
    if (!good)
        throw Wrong(what);
}

extern "C" void longest(void *in, void *inout, int *count, MPI_Datatype *type)
{
    if (*type != MPI_INT)
        return;
    auto *a = static_cast<int *>(in);
    auto *b = static_cast<int *>(inout);
    for (int i = 0; i < *count; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}

std::map<MPI_Comm, int> raised;

extern "C" void note(MPI_Comm *comm, int *code, ...)
{
    raised[*comm] = *code;
}

extern "C" int copies(MPI_Comm, int, void *, void *in, void *out, int *flag)
{
    *static_cast<void **>(out) = in;
    *flag = 1;
    return MPI_SUCCESS;
}

struct Closer {
    void operator()(MPI_Comm *comm) const
    {
        MPI_Comm_free(comm);
        delete comm;
    }
};

void work(int rank, int size)
{
    std::unique_ptr<MPI_Comm, Closer> comm(new MPI_Comm);
    MPI_Comm_dup(MPI_COMM_WORLD, comm.get());

    std::vector<double> values(100), sums(values.size());
    std::iota(values.begin(), values.end(), rank);
    MPI_Allreduce(values.data(), sums.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, *comm);
    expect(sums[7] == 7.0 * size + size * (size - 1) / 2.0, "allreduce");

    MPI_Op op;
    MPI_Op_create(longest, 1, &op);
    int mine = rank * 3, best = -1;
    MPI_Allreduce(&mine, &best, 1, MPI_INT, op, *comm);
    MPI_Op_free(&op);
    expect(best == (size - 1) * 3, "operator of the program");

    bool flags[2] = {rank == 0, true}, any[2];
    MPI_Allreduce(flags, any, 2, MPI_CXX_BOOL, MPI_LOR, *comm);
    expect(any[0] && any[1], "bool");

    std::string text = rank == 0 ? "tutti" : std::string(5, ' ');
    MPI_Bcast(&text[0], static_cast<int>(text.size()), MPI_CHAR, 0, *comm);
    expect(text == "tutti", "string");

    int key = MPI_KEYVAL_INVALID, flag = 0;
    void *found = nullptr;
    MPI_Comm copy;
    MPI_Comm_create_keyval(copies, MPI_COMM_NULL_DELETE_FN, &key, nullptr);
    MPI_Comm_set_attr(*comm, key, &best);
    MPI_Comm_dup(*comm, &copy);
    MPI_Comm_get_attr(copy, key, &found, &flag);
    expect(flag && found == &best, "attribute");
    MPI_Comm_free(&copy);
    MPI_Comm_free_keyval(&key);

    std::vector<MPI_Comm> handles(1, MPI_Comm_fromint(MPI_Comm_toint(*comm)));
    expect(handles[0] == *comm, "handles as integers");
#ifdef MPI_Comm_c2f
    MPI_Status status, back;
    std::vector<MPI_Fint> words(MPI_F_STATUS_SIZE);
    MPI_Sendrecv(&rank, 1, MPI_INT, rank, 3, &mine, 1, MPI_INT, rank, 3, *comm, &status);
    MPI_Status_c2f(&status, words.data());
    MPI_Status_f2c(words.data(), &back);
    expect(words[MPI_F_TAG] == 3 && back.MPI_SOURCE == rank, "statuses of Fortran");
    expect(MPI_Comm_f2c(MPI_Comm_c2f(*comm)) == *comm && MPI_Type_c2f(MPI_INT) == MPI_Type_toint(MPI_INT), "handles of Fortran");
#endif

    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(*comm, handler);
    MPI_Errhandler_free(&handler);
    int code = MPI_Send(nullptr, 0, MPI_INT, size + 5, 0, *comm), kind = 0;
    MPI_Error_class(code, &kind);
    expect(kind == MPI_ERR_RANK && raised[*comm] == code, "error handler");

    // What is thrown between MPI calls is the program's own affair.
    try {
        throw Wrong("on purpose");
    } catch (const Wrong &) {
        MPI_Barrier(*comm);
    }
}

} // namespace

int main(int argc, char **argv)
{
    int rank, size, bad = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    try {
        work(rank, size);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        bad = 1;
    }
    MPI_Allreduce(&bad, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        std::puts(all ? "FAILED" : "ok");
    MPI_Finalize();
    return all != 0;
}
