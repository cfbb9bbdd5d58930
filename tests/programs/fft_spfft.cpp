/* fft_spfft N TRANSFORMS: SpFFT's 3D transform of N^3 complex numbers, forward and backward, whose exchange
 * is MPI_Alltoall (tests/figures/fft_hosts.py). Prints the seconds of one: the mean of all, of the first
 * tenth, of the last. */
#include <mpi.h>
#include <spfft/spfft.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

static std::vector<int> columns(int n, int first, int past)
{
    std::vector<int> indices;
    for (int x = first; x < past; x++)
        for (int y = 0; y < n; y++)
            for (int z = 0; z < n; z++)
                indices.insert(indices.end(), {x, y, z});
    return indices;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 64, transforms = argc > 2 ? atoi(argv[2]) : 100;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int first = n * rank / size, past = n * (rank + 1) / size, own = past - first;
    std::vector<int> indices = columns(n, first, past);
    const int elements = (int)indices.size() / 3, tenth = transforms / 10;
    std::vector<double> values(2 * elements), other(2 * elements);
    for (int i = 0; i < 2 * elements; i++)
        values[i] = (i * 7919 + rank) % 1009 / 1009.0;
    double worst = 0, begin = 0, marks[2] = {0, 0}, own_seconds[3], most[3], all;
    {
        spfft::Grid grid(n, n, n, own * n, own, SPFFT_PU_HOST, 1, MPI_COMM_WORLD, SPFFT_EXCH_BUFFERED);
        spfft::Transform transform = grid.create_transform(SPFFT_PU_HOST, SPFFT_TRANS_C2C, n, n, n, own, elements,
                                                           SPFFT_INDEX_TRIPLETS, indices.data());
        other = values;
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        for (int i = 0; i < transforms; i++) {
            if (i == tenth)
                marks[0] = MPI_Wtime();
            if (i == transforms - tenth)
                marks[1] = MPI_Wtime();
            transform.backward(other.data(), SPFFT_PU_HOST);
            transform.forward(SPFFT_PU_HOST, other.data(), SPFFT_FULL_SCALING);
        }
    }
    const double end = MPI_Wtime();
    for (int i = 0; i < 2 * elements; i++)
        worst = std::fmax(worst, std::fabs(other[i] - values[i]));
    own_seconds[0] = (end - begin) / transforms;
    own_seconds[1] = (marks[0] - begin) / tenth;
    own_seconds[2] = (end - marks[1]) / tenth;
    MPI_Reduce(own_seconds, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("mean %.6f first %.6f last %.6f %s\n", most[0], most[1], most[2], all < 1e-9 ? "right" : "wrong");
    return MPI_Finalize();
}
