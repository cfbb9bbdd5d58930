/* Finite differences in time in one dimension (PLUTO's example). */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    const int N = argc > 1 ? atoi(argv[1]) : 1000, T = argc > 2 ? atoi(argv[2]) : 100;
    const double coeff1 = 0.5, coeff2 = 0.7;
    int t, i;
    double *h = malloc(N * sizeof *h), *e = malloc((N + 1) * sizeof *e);
    for (i = 0; i < N; i++)
        h[i] = e[i] = (double)i / N;
    e[N] = 1;
#pragma scop
    for (t = 1; t <= T; t++) {
        for (i = 1; i <= N - 1; i++)
            e[i] = e[i] - coeff1 * (h[i] - h[i - 1]);
        for (i = 0; i <= N - 1; i++)
            h[i] = h[i] - coeff2 * (e[i + 1] - e[i]);
    }
#pragma endscop
    for (i = 0; i < N; i++)
        printf("%a %a\n", h[i], e[i]);
    return 0;
}
