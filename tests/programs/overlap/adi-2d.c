/* Alternating direction implicit integration (PLUTO's example): two sweeps, along rows and along columns. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int N = argc > 1 ? atoi(argv[1]) : 40;
    int T = argc > 2 ? atoi(argv[2]) : 20;
    int t, i1, i2;
    double (*X)[N] = malloc(sizeof(double[N][N]));
    double (*A)[N] = malloc(sizeof(double[N][N]));
    double (*B)[N] = malloc(sizeof(double[N][N]));
    for (i1 = 0; i1 < N; i1++)
        for (i2 = 0; i2 < N; i2++) {
            X[i1][i2] = ((double)i1 * (i2 + 1) + 1) / N;
            A[i1][i2] = ((double)i1 * (i2 + 2) + 2) / N / N / 8;
            B[i1][i2] = ((double)i1 * (i2 + 3) + 3) / N + 9;
        }
#pragma scop
    for (t = 0; t < T; t++) {
        for (i1 = 0; i1 < N; i1++) {
            for (i2 = 1; i2 < N; i2++) {
                X[i1][i2] = X[i1][i2] - X[i1][i2 - 1] * A[i1][i2] / B[i1][i2 - 1];
                B[i1][i2] = B[i1][i2] - A[i1][i2] * A[i1][i2] / B[i1][i2 - 1];
            }
        }
        for (i1 = 1; i1 < N; i1++) {
            for (i2 = 0; i2 < N; i2++) {
                X[i1][i2] = X[i1][i2] - X[i1 - 1][i2] * A[i1][i2] / B[i1 - 1][i2];
                B[i1][i2] = B[i1][i2] - A[i1][i2] * A[i1][i2] / B[i1 - 1][i2];
            }
        }
    }
#pragma endscop
    for (i1 = 0; i1 < N; i1++)
        for (i2 = 0; i2 < N; i2++)
            printf("%a %a\n", X[i1][i2], B[i1][i2]);
    printf("%d %d\n", i1, t);
    return 0;
}
