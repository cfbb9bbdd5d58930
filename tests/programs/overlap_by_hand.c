/* The paper's four kernels and three of PolyBench as a programmer would write them with MPI by hand. They
 * have blocks of the first dimension and an exchange in each step that is waited for at once. `tutti overlap`
 * has to be faster (tests/figures/overlap_hosts.py).
 *
 * usage: overlap_by_hand KERNEL SIZE STEPS
 *
 * Prints the same as the sequential program of that name in tests/programs/overlap. The time of the loop,
 * with the results at all ranks, goes to standard error. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, left, right;

/* Returns the first index of block `block` of [first, past). */
static int border(int first, int past, int block)
{
    return first + (int)((long)(past - first) * block / ranks);
}

/* Sends `count` elements to one side and receives as many from the other. */
static void shift(const double *out, int to, double *in, int from, int count)
{
    MPI_Sendrecv(out, count, MPI_DOUBLE, to, 0, in, count, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Exchanges the rows next to both borders of [begin, end), of `row` elements, with the neighbours. */
static void exchange(void *values, int begin, int end, int row, MPI_Datatype type)
{
    int size;
    MPI_Type_size(type, &size);
    char *cells = values;
    const long bytes = (long)row * size;
    MPI_Sendrecv(cells + (end - 1) * bytes, row, type, right, 0, cells + (begin - 1) * bytes, row, type, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(cells + begin * bytes, row, type, left, 1, cells + end * bytes, row, type, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Gathers the rows [first, past) of `row` elements on all ranks. Each row was computed by the rank of its
 * block. */
static void gather(void *values, int first, int past, int row, MPI_Datatype type)
{
    int *counts = malloc(2 * (size_t)ranks * sizeof(int)), *places = counts + ranks;
    for (int r = 0; r < ranks; r++) {
        places[r] = border(first, past, r) * row;
        counts[r] = border(first, past, r + 1) * row - places[r];
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, values, counts, places, type, MPI_COMM_WORLD);
    free(counts);
}

static double *start(double seconds[2])
{
    MPI_Barrier(MPI_COMM_WORLD);
    seconds[0] = MPI_Wtime();
    return seconds;
}

static void stop(const double *seconds)
{
    double taken = MPI_Wtime() - seconds[0], most;
    MPI_Reduce(&taken, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        fprintf(stderr, "T_exec %f s\n", most);
}

static void jacobi_1d(int n, int steps)
{
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), seconds[2];
    for (int i = 0; i < n; i++) {
        a[i] = (i * 7919 % 1009) / 1009.0;
        b[i] = 0.5;
    }
    const int begin = border(2, n - 1, rank), end = border(2, n - 1, rank + 1);
    start(seconds);
    for (int t = 0; t < steps; t++) {
        if (t > 0) {
            shift(&a[end - 1], right, &a[begin - 1], left, 1);
            shift(&a[begin], left, &a[end], right, 1);
        }
        for (int i = begin; i < end; i++)
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1]);
        for (int i = begin; i < end; i++)
            a[i] = b[i];
    }
    gather(a, 2, n - 1, 1, MPI_DOUBLE);
    gather(b, 2, n - 1, 1, MPI_DOUBLE);
    stop(seconds);
    for (int i = 0; i < n; i++)
        printf("%a %a\n", a[i], b[i]);
}

static void fdtd_1d(int n, int steps)
{
    const double coeff1 = 0.5, coeff2 = 0.7;
    double *h = malloc(n * sizeof *h), *e = malloc((n + 1) * sizeof *e), seconds[2];
    for (int i = 0; i < n; i++)
        h[i] = e[i] = (double)i / n;
    e[n] = 1;
    const int begin = border(0, n, rank), end = border(0, n, rank + 1);
    start(seconds);
    for (int t = 1; t <= steps; t++) {
        shift(&h[end - 1], right, begin > 0 ? &h[begin - 1] : h, left, 1);
        for (int i = begin > 1 ? begin : 1; i < end; i++)
            e[i] = e[i] - coeff1 * (h[i] - h[i - 1]);
        shift(&e[begin], left, &e[end], right, 1);
        for (int i = begin; i < end; i++)
            h[i] = h[i] - coeff2 * (e[i + 1] - e[i]);
    }
    gather(h, 0, n, 1, MPI_DOUBLE);
    gather(e, 0, n, 1, MPI_DOUBLE);
    stop(seconds);
    for (int i = 0; i < n; i++)
        printf("%a %a\n", h[i], e[i]);
}

static void seidel_2d(int n, int steps)
{
    double(*A)[n] = malloc(sizeof(double[n][n])), seconds[2];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            A[i][j] = ((double)i * (j + 2) + 2) / n;
    const int begin = border(1, n - 1, rank), end = border(1, n - 1, rank + 1);
    start(seconds);
    for (int t = 0; t < steps; t++) {
        if (t > 0)
            MPI_Recv(A[end], n, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(A[begin - 1], n, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = begin; i < end; i++)
            for (int j = 1; j <= n - 2; j++)
                A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1]
                           + A[i][j - 1] + A[i][j] + A[i][j + 1]
                           + A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / 9.0;
        MPI_Send(A[end - 1], n, MPI_DOUBLE, right, 0, MPI_COMM_WORLD);
        if (t + 1 < steps)
            MPI_Send(A[begin], n, MPI_DOUBLE, left, 1, MPI_COMM_WORLD);
    }
    gather(A, 1, n - 1, n, MPI_DOUBLE);
    stop(seconds);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            printf("%a\n", A[i][j]);
}

static void adi_2d(int n, int steps)
{
    double(*X)[n] = malloc(sizeof(double[n][n])), (*A)[n] = malloc(sizeof(double[n][n])), (*B)[n] = malloc(sizeof(double[n][n]));
    double seconds[2];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            X[i][j] = ((double)i * (j + 1) + 1) / n;
            A[i][j] = ((double)i * (j + 2) + 2) / n / n / 8;
            B[i][j] = ((double)i * (j + 3) + 3) / n + 9;
        }
    const int begin = border(0, n, rank), end = border(0, n, rank + 1), low = begin > 1 ? begin : 1;
    start(seconds);
    for (int t = 0; t < steps; t++) {
        for (int i = begin; i < end; i++)
            for (int j = 1; j < n; j++) {
                X[i][j] = X[i][j] - X[i][j - 1] * A[i][j] / B[i][j - 1];
                B[i][j] = B[i][j] - A[i][j] * A[i][j] / B[i][j - 1];
            }
        if (left != MPI_PROC_NULL) {
            MPI_Recv(X[begin - 1], n, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(B[begin - 1], n, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int i = low; i < end; i++)
            for (int j = 0; j < n; j++) {
                X[i][j] = X[i][j] - X[i - 1][j] * A[i][j] / B[i - 1][j];
                B[i][j] = B[i][j] - A[i][j] * A[i][j] / B[i - 1][j];
            }
        MPI_Send(X[end - 1], n, MPI_DOUBLE, right, 0, MPI_COMM_WORLD);
        MPI_Send(B[end - 1], n, MPI_DOUBLE, right, 1, MPI_COMM_WORLD);
    }
    gather(X, 0, n, n, MPI_DOUBLE);
    gather(B, 0, n, n, MPI_DOUBLE);
    stop(seconds);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            printf("%a %a\n", X[i][j], B[i][j]);
    printf("%d %d\n", n, steps);
}

static void heat_2d(int n, int steps)
{
    double(*A)[n] = malloc(sizeof(double[n][n])), (*B)[n] = malloc(sizeof(double[n][n])), seconds[2];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            A[i][j] = ((double)i * (j + 2) + 2) / n;
            B[i][j] = ((double)i * (j + 3) + 3) / n;
        }
    const int begin = border(1, n - 1, rank), end = border(1, n - 1, rank + 1);
    start(seconds);
    for (int t = 0; t < steps; t++) {
        exchange(A, begin, end, n, MPI_DOUBLE);
        for (int i = begin; i < end; i++)
            for (int j = 1; j < n - 1; j++)
                B[i][j] = 0.2 * (A[i][j] + A[i][j - 1] + A[i][1 + j] + A[1 + i][j] + A[i - 1][j]);
        exchange(B, begin, end, n, MPI_DOUBLE);
        for (int i = begin; i < end; i++)
            for (int j = 1; j < n - 1; j++)
                A[i][j] = 0.2 * (B[i][j] + B[i][j - 1] + B[i][1 + j] + B[1 + i][j] + B[i - 1][j]);
    }
    gather(A, 1, n - 1, n, MPI_DOUBLE);
    gather(B, 1, n - 1, n, MPI_DOUBLE);
    stop(seconds);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            printf("%a %a\n", A[i][j], B[i][j]);
}

static void fdtd_2d(int n, int steps)
{
    const int m = n + 7;
    double(*ex)[m] = malloc(sizeof(double[n][m])), (*ey)[m] = malloc(sizeof(double[n][m])), (*hz)[m] = malloc(sizeof(double[n][m]));
    double seconds[2];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            ex[i][j] = (double)i * (j + 1) / n;
            ey[i][j] = (double)i * (j + 2) / m;
            hz[i][j] = (double)i * (j + 3) / n;
        }
    const int begin = border(0, n, rank), end = border(0, n, rank + 1), low = begin > 1 ? begin : 1;
    start(seconds);
    for (int t = 0; t < steps; t++) {
        shift(hz[end - 1], right, hz[low - 1], left, m);
        for (int j = 0; j < m && begin == 0; j++)
            ey[0][j] = t;
        for (int i = low; i < end; i++)
            for (int j = 0; j < m; j++)
                ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i - 1][j]);
        for (int i = begin; i < end; i++)
            for (int j = 1; j < m; j++)
                ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j - 1]);
        shift(ey[begin], left, ey[end], right, m);
        for (int i = begin; i < (end < n - 1 ? end : n - 1); i++)
            for (int j = 0; j < m - 1; j++)
                hz[i][j] = hz[i][j] - 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    }
    gather(ex, 0, n, m, MPI_DOUBLE);
    gather(ey, 0, n, m, MPI_DOUBLE);
    gather(hz, 0, n, m, MPI_DOUBLE);
    stop(seconds);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            printf("%a %a %a\n", ex[i][j], ey[i][j], hz[i][j]);
}

/* Computes one step in the rows [begin, end), from `in` to `out`. */
static void heat_3d_step(int n, int begin, int end, float (*restrict out)[n][n], float (*restrict in)[n][n])
{
    exchange(in, begin, end, n * n, MPI_FLOAT);
    for (int i = begin; i < end; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++)
                out[i][j][k] = 0.125f * (in[i + 1][j][k] - 2.0f * in[i][j][k] + in[i - 1][j][k])
                               + 0.125f * (in[i][j + 1][k] - 2.0f * in[i][j][k] + in[i][j - 1][k])
                               + 0.125f * (in[i][j][k + 1] - 2.0f * in[i][j][k] + in[i][j][k - 1]) + in[i][j][k];
}

static void heat_3d(int n, int steps)
{
    float(*A)[n][n] = malloc(sizeof(float[n][n][n])), (*B)[n][n] = malloc(sizeof(float[n][n][n]));
    double seconds[2];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                A[i][j][k] = B[i][j][k] = (float)(i + j + (n - k)) * 10 / n;
    const int begin = border(1, n - 1, rank), end = border(1, n - 1, rank + 1);
    start(seconds);
    for (int t = 0; t < steps; t++) {
        heat_3d_step(n, begin, end, B, A);
        heat_3d_step(n, begin, end, A, B);
    }
    gather(A, 1, n - 1, n * n, MPI_FLOAT);
    gather(B, 1, n - 1, n * n, MPI_FLOAT);
    stop(seconds);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                printf("%a %a\n", A[i][j][k], B[i][j][k]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*kernel)(int size, int steps);
    } kernels[] = {{"jacobi-1d", jacobi_1d}, {"fdtd-1d", fdtd_1d}, {"seidel-2d", seidel_2d}, {"adi-2d", adi_2d},
                   {"heat-2d", heat_2d},     {"fdtd-2d", fdtd_2d}, {"heat-3d", heat_3d}};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    if (rank > 0 && !freopen("/dev/null", "w", stdout))
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int at = 0; argc == 4 && at < 7; at++)
        if (strcmp(argv[1], kernels[at].name) == 0)
            kernels[at].kernel(atoi(argv[2]), atoi(argv[3]));
    MPI_Finalize();
    return 0;
}
