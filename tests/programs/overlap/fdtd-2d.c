/* Finite differences in time of an electromagnetic field (PolyBench's fdtd-2d): three arrays, four nests. */
#include <stdio.h>
#include <stdlib.h>

#define TMAX 20
#define DATA_TYPE double

int main(int argc, char **argv)
{
    int nx = argc > 1 ? atoi(argv[1]) : 40, ny = nx + 7;
    int tmax = argc > 2 ? atoi(argv[2]) : TMAX;
    int t, i, j;
    DATA_TYPE (*ex)[ny] = malloc(sizeof(DATA_TYPE[nx][ny]));
    DATA_TYPE (*ey)[ny] = malloc(sizeof(DATA_TYPE[nx][ny]));
    DATA_TYPE (*hz)[ny] = malloc(sizeof(DATA_TYPE[nx][ny]));
    DATA_TYPE *fict = malloc((tmax + 1) * sizeof *fict);
    for (t = 0; t < tmax; t++)
        fict[t] = t;
    for (i = 0; i < nx; i++)
        for (j = 0; j < ny; j++) {
            ex[i][j] = (DATA_TYPE)i * (j + 1) / nx;
            ey[i][j] = (DATA_TYPE)i * (j + 2) / ny;
            hz[i][j] = (DATA_TYPE)i * (j + 3) / nx;
        }
#pragma scop
    for (t = 0; t < tmax; t++) {
        for (j = 0; j < ny; j++)
            ey[0][j] = fict[t];
        for (i = 1; i < nx; i++)
            for (j = 0; j < ny; j++)
                ey[i][j] = ey[i][j] - 0.5 * (hz[i][j] - hz[i - 1][j]);
        for (i = 0; i < nx; i++)
            for (j = 1; j < ny; j++)
                ex[i][j] = ex[i][j] - 0.5 * (hz[i][j] - hz[i][j - 1]);
        for (i = 0; i < nx - 1; i++)
            for (j = 0; j < ny - 1; j++)
                hz[i][j] = hz[i][j] - 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    }
#pragma endscop
    for (i = 0; i < nx; i++)
        for (j = 0; j < ny; j++)
            printf("%a %a %a\n", ex[i][j], ey[i][j], hz[i][j]);
    return 0;
}
