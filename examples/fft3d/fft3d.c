/* A 3D Fourier transform whose transposition goes on while planes are still computed: the four patterns of
 * barigou-2016 (section 3.4), and a blocking one.
 *
 *     fft3d PATTERN [N [TRANSFORMS [TILE [WINDOW [TESTS]]]]]
 *
 * N^3 complex numbers lie in slabs of N / ranks planes. Each plane is transformed in two dimensions, then its
 * parts go to the ranks that transform the third one. What goes at a time is a tile of planes:
 *
 *     pipelined      a tile is one plane; one exchange goes on beside the next plane
 *     tiled          a tile is TILE planes
 *     windowed       a tile is one plane, WINDOW exchanges go on
 *     window-tiled   both
 *     blocking       a tile is all planes, by MPI_Alltoall
 *
 * While a plane is computed MPI is called TESTS times. The last transform is compared with the sum by
 * which it is defined, in some places. Prints the seconds of a transform: the mean of all, of the first
 * tenth, and of the last tenth. */
#include <complex.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef double complex number;

static int rank, size, n, planes;
static number *twiddles;

static void fail(const char *why)
{
    if (rank == 0)
        fprintf(stderr, "fft3d: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void *room(size_t numbers)
{
    void *memory = calloc(numbers, sizeof(number));
    if (!memory)
        fail("no memory");
    return memory;
}

/* Transforms n numbers in place (Cooley and Tukey, radix 2, bits reversed first). */
static void transform(number *line)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            number kept = line[i];
            line[i] = line[j];
            line[j] = kept;
        }
    }
    for (int length = 2; length <= n; length <<= 1)
        for (int first = 0; first < n; first += length)
            for (int i = 0; i < length / 2; i++) {
                number odd = line[first + i + length / 2] * twiddles[i * (n / length)];
                line[first + i + length / 2] = line[first + i] - odd;
                line[first + i] += odd;
            }
}

/* One exchange that is under way. */
struct exchange {
    MPI_Request request;
    number *sent, *got;
    int first;
};

struct plan {
    int tile, window, tests, blocking;
    struct exchange *exchanges;
    number *column;
};

/* Returns the value at a place, by a formula that a program of one rank can compute as well. */
static number value(int transform, int x, int y, int z)
{
    unsigned hash = (unsigned)transform * 2654435761u + (unsigned)((z * n + y) * n + x) * 40503u;
    hash = (hash ^ hash >> 15) * 2246822519u;
    hash ^= hash >> 13;
    return (hash & 0xffff) / 65536.0 - 0.5 + I * ((hash >> 16) / 65536.0 - 0.5);
}

static void test_all(struct plan *plan, int count)
{
    for (int i = 0; i < count; i++) {
        int flag;
        if (plan->exchanges[i].request != MPI_REQUEST_NULL)
            MPI_Test(&plan->exchanges[i].request, &flag, MPI_STATUS_IGNORE);
    }
}

/* Transforms a plane of the slab in two dimensions, and calls MPI on the way. */
static void plane_of(struct plan *plan, number *data)
{
    int lines = 2 * n, every = plan->tests > 0 ? lines / plan->tests + 1 : lines + 1;
    for (int y = 0; y < n; y++) {
        transform(data + (size_t)y * n);
        if (y % every == every - 1)
            test_all(plan, plan->window);
    }
    for (int x = 0; x < n; x++) {
        for (int y = 0; y < n; y++)
            plan->column[y] = data[(size_t)y * n + x];
        transform(plan->column);
        for (int y = 0; y < n; y++)
            data[(size_t)y * n + x] = plan->column[y];
        if ((n + x) % every == every - 1)
            test_all(plan, plan->window);
    }
}

static void begin(struct plan *plan, struct exchange *exchange)
{
    int count = plan->tile * planes * n;
    MPI_Ialltoall(exchange->sent, count, MPI_C_DOUBLE_COMPLEX, exchange->got, count, MPI_C_DOUBLE_COMPLEX,
                  MPI_COMM_WORLD, &exchange->request);
}

/* Completes an exchange and stores the received parts as lines of the third dimension: out[y][x][z]. */
static void end(struct plan *plan, struct exchange *exchange, number *out)
{
    MPI_Wait(&exchange->request, MPI_STATUS_IGNORE);
    const number *next = exchange->got;
    for (int from = 0; from < size; from++)
        for (int z = 0; z < plan->tile; z++)
            for (int y = 0; y < planes; y++)
                for (int x = 0; x < n; x++)
                    out[((size_t)y * n + x) * n + from * planes + exchange->first + z] = *next++;
}

static void pack(struct plan *plan, struct exchange *exchange, const number *slab)
{
    number *next = exchange->sent;
    for (int to = 0; to < size; to++)
        for (int z = 0; z < plan->tile; z++) {
            const number *from = slab + ((size_t)(exchange->first + z) * n + (size_t)to * planes) * n;
            memcpy(next, from, (size_t)planes * n * sizeof *from);
            next += (size_t)planes * n;
        }
}

/* Transforms the slab into `out`. The slab is overwritten. */
static void all_of(struct plan *plan, number *slab, number *out)
{
    int tiles = planes / plan->tile;
    for (int tile = 0; tile < tiles; tile++) {
        struct exchange *exchange = &plan->exchanges[tile % plan->window];
        for (int z = 0; z < plan->tile; z++)
            plane_of(plan, slab + (size_t)(tile * plan->tile + z) * n * n);
        if (tile >= plan->window)
            end(plan, exchange, out);
        exchange->first = tile * plan->tile;
        pack(plan, exchange, slab);
        if (plan->blocking) {
            int count = plan->tile * planes * n;
            MPI_Alltoall(exchange->sent, count, MPI_C_DOUBLE_COMPLEX, exchange->got, count,
                         MPI_C_DOUBLE_COMPLEX, MPI_COMM_WORLD);
        } else {
            begin(plan, exchange);
        }
    }
    for (int tile = tiles > plan->window ? tiles - plan->window : 0; tile < tiles; tile++)
        end(plan, &plan->exchanges[tile % plan->window], out);
    for (size_t line = 0; line < (size_t)planes * n; line++)
        transform(out + line * n);
}

/* Compares some places with the sum that defines them. */
static int is_right(int transform, const number *out)
{
    for (int check = 0; check < 5; check++) {
        int x = check * 7 % n, y = (check * 11 + 3) % n, z = (check * 5 + 1) % n;
        number sum = 0, whole;
        for (int own = 0; own < planes; own++)
            for (int j = 0; j < n; j++)
                for (int i = 0; i < n; i++) {
                    int plane = rank * planes + own;
                    sum += value(transform, i, j, plane)
                           * twiddles[((long)i * x + (long)j * y + (long)plane * z) % n];
                }
        MPI_Allreduce(&sum, &whole, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
        int wrong = 0, any;
        if (y / planes == rank)
            wrong = !(cabs(out[((size_t)(y % planes) * n + x) * n + z] - whole) < 1e-9 * n * n * n);
        MPI_Allreduce(&wrong, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (any)
            return 0;
    }
    return 1;
}

static struct plan plan_of(const char *pattern, int tile, int window, int tests)
{
    struct plan plan = {1, 1, tests, 0, NULL, NULL};
    if (!strcmp(pattern, "tiled") || !strcmp(pattern, "window-tiled"))
        plan.tile = tile;
    if (!strcmp(pattern, "windowed") || !strcmp(pattern, "window-tiled"))
        plan.window = window;
    if (!strcmp(pattern, "blocking")) {
        plan.tile = planes;
        plan.blocking = 1;
    } else if (strcmp(pattern, "pipelined") && plan.tile == 1 && plan.window == 1) {
        fail("patterns are pipelined, tiled, windowed, window-tiled, blocking (TILE and WINDOW above 1)");
    }
    if (plan.tile < 1 || planes % plan.tile || plan.window < 1)
        fail("TILE must divide the planes of a rank, and WINDOW be positive");
    plan.exchanges = calloc((size_t)plan.window, sizeof *plan.exchanges);
    if (!plan.exchanges)
        fail("no memory");
    for (int i = 0; i < plan.window; i++) {
        plan.exchanges[i].request = MPI_REQUEST_NULL;
        plan.exchanges[i].sent = room((size_t)plan.tile * n * n);
        plan.exchanges[i].got = room((size_t)plan.tile * n * n);
    }
    plan.column = room((size_t)n);
    return plan;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *pattern = argc > 1 ? argv[1] : "window-tiled";
    int numbers[] = {64, 20, 2, 2, 4};
    for (int i = 2; i < argc && i < 7; i++)
        numbers[i - 2] = atoi(argv[i]);
    int transforms = numbers[1];
    n = numbers[0];
    if (n < 2 || n & (n - 1) || n % size || transforms < 1)
        fail("N must be a power of two that the ranks divide, and TRANSFORMS positive");
    planes = n / size;
    twiddles = room((size_t)n);
    for (int i = 0; i < n; i++)
        twiddles[i] = cexp(-2 * acos(-1) * I * i / n);
    struct plan plan = plan_of(pattern, numbers[2], numbers[3], numbers[4]);
    number *slab = room((size_t)planes * n * n), *out = room((size_t)planes * n * n);
    double *seconds = room((size_t)transforms), total = 0, first = 0, last = 0;
    int tenth = (transforms + 9) / 10;
    for (int i = 0; i < transforms; i++) {
        for (int z = 0; z < planes; z++)
            for (int y = 0; y < n; y++)
                for (int x = 0; x < n; x++)
                    slab[((size_t)z * n + y) * n + x] = value(i, x, y, rank * planes + z);
        double begun = MPI_Wtime();
        all_of(&plan, slab, out);
        seconds[i] = MPI_Wtime() - begun;
        total += seconds[i];
        first += i < tenth ? seconds[i] : 0;
        last += i >= transforms - tenth ? seconds[i] : 0;
    }
    int right = is_right(transforms - 1, out);
    double own[] = {total / transforms, first / tenth, last / tenth}, most[3];
    MPI_Reduce(own, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s %d^3 on %d: mean %.6f first %.6f last %.6f %s\n", pattern, n, size, most[0], most[1],
               most[2], right ? "right" : "WRONG");
    MPI_Finalize();
    return !right;
}
