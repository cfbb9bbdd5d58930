/* Heat in two dimensions, two arrays in turn (PolyBench's jacobi-2d). */
#include <stdio.h>
#include <stdlib.h>

static void kernel(int tsteps, int n, double A[n][n], double B[n][n])
{
    int t, i, j;
#pragma scop
    for (t = 0; t < tsteps; t++) {
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                B[i][j] = 0.2 * (A[i][j] + A[i][j - 1] + A[i][1 + j] + A[1 + i][j] + A[i - 1][j]);
        for (i = 1; i < n - 1; i++)
            for (j = 1; j < n - 1; j++)
                A[i][j] = 0.2 * (B[i][j] + B[i][j - 1] + B[i][1 + j] + B[1 + i][j] + B[i - 1][j]);
    }
#pragma endscop
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 40;
    int tsteps = argc > 2 ? atoi(argv[2]) : 20;
    double (*A)[n] = malloc(sizeof(double[n][n]));
    double (*B)[n] = malloc(sizeof(double[n][n]));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            A[i][j] = ((double)i * (j + 2) + 2) / n;
            B[i][j] = ((double)i * (j + 3) + 3) / n;
        }
    kernel(tsteps, n, A, B);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            printf("%a %a\n", A[i][j], B[i][j]);
    return 0;
}
