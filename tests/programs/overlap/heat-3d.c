/* Heat in three dimensions (PolyBench's heat-3d), with its macros. */
#include <stdio.h>
#include <stdlib.h>

#define REAL float
#define CENTRE(X) ((REAL)2.0 * X[i][j][k])

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 20;
    int tsteps = argc > 2 ? atoi(argv[2]) : 10;
    REAL (*A)[n][n] = malloc(sizeof(REAL[n][n][n]));
    REAL (*B)[n][n] = malloc(sizeof(REAL[n][n][n]));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                A[i][j][k] = B[i][j][k] = (REAL)(i + j + (n - k)) * 10 / n;
#pragma tutti overlap
    for (int t = 1; t <= tsteps; t++) {
        for (int i = 1; i < n - 1; i++) {
            for (int j = 1; j < n - 1; j++) {
                for (int k = 1; k < n - 1; k++) {
                    B[i][j][k] = 0.125f * (A[i + 1][j][k] - CENTRE(A) + A[i - 1][j][k])
                                 + 0.125f * (A[i][j + 1][k] - CENTRE(A) + A[i][j - 1][k])
                                 + 0.125f * (A[i][j][k + 1] - CENTRE(A) + A[i][j][k - 1])
                                 + A[i][j][k];
                }
            }
        }
        for (int i = 1; i < n - 1; i++) {
            for (int j = 1; j < n - 1; j++) {
                for (int k = 1; k < n - 1; k++) {
                    A[i][j][k] = 0.125f * (B[i + 1][j][k] - CENTRE(B) + B[i - 1][j][k])
                                 + 0.125f * (B[i][j + 1][k] - CENTRE(B) + B[i][j - 1][k])
                                 + 0.125f * (B[i][j][k + 1] - CENTRE(B) + B[i][j][k - 1])
                                 + B[i][j][k];
                }
            }
        }
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                printf("%a %a\n", A[i][j][k], B[i][j][k]);
    return 0;
}
