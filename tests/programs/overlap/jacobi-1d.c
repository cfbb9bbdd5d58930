/* Jacobi in one dimension, as in the paper (PLUTO's example): two arrays, one copied back in each step. */
#include <stdio.h>
#include <stdlib.h>

static double *a, *b;

int main(int argc, char **argv)
{
    int N = argc > 1 ? atoi(argv[1]) : 1000;
    int T = argc > 2 ? atoi(argv[2]) : 100;
    int t, i;
    a = malloc(N * sizeof *a);
    b = malloc(N * sizeof *b);
    for (i = 0; i < N; i++) {
        a[i] = (i * 7919 % 1009) / 1009.0;
        b[i] = 0.5;
    }
#pragma scop
    for (t = 0; t < T; t++) {
        for (i = 2; i < N - 1; i++)
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1]);
        for (i = 2; i < N - 1; i++)
            a[i] = b[i];
    }
#pragma endscop
    for (i = 0; i < N; i++)
        printf("%a %a\n", a[i], b[i]);
    return 0;
}
