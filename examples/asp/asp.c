/* All pairs shortest paths by the parallel algorithm of Floyd and Warshall.
 *
 * The matrix of distances is divided in blocks of rows. At step k the owner of row k broadcasts it, and
 * every rank asks for each of its rows whether the way by city k is shorter. So N broadcasts of 4 N bytes
 * are on the critical path: the application by which HierKNEM was judged.
 *
 * usage: asp GRAPH [FROM TO]...     (GRAPH from graph.py; cities as "Lisbon, PT")
 *
 * Distances are whole metres, so the result must equal that of the sequential program in every digit;
 * rank 0 checks all of them. Exit status 1 if one differs.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAR 1000000000 /* no way known yet; twice this fits in 32 bits */
#define NAME_BYTES 96

struct edge {
    int32_t from, to, metres;
};

struct graph {
    int nodes, edges;
    struct edge *edge;
    char (*name)[NAME_BYTES]; /* rank 0 only */
};

static void *get(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "asp: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    return memory;
}

static void refuse(const char *path, const char *why)
{
    fprintf(stderr, "asp: %s: %s\n", path, why);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void read_graph(const char *path, struct graph *graph)
{
    char line[256];
    FILE *file = fopen(path, "r");
    if (!file)
        refuse(path, "cannot be opened (make run writes it)");
    if (!fgets(line, sizeof line, file) ||
        sscanf(line, "tutti-graph %d %d", &graph->nodes, &graph->edges) != 2 || graph->nodes < 1 ||
        graph->nodes > 30000 || graph->edges < 0)
        refuse(path, "is not a graph of graph.py");
    graph->name = get((size_t)graph->nodes * NAME_BYTES);
    graph->edge = get((size_t)graph->edges * sizeof *graph->edge);
    for (int i = 0; i < graph->nodes; i++) {
        if (!fgets(line, sizeof line, file))
            refuse(path, "ends before its last city");
        line[strcspn(line, "\t\n")] = 0;
        snprintf(graph->name[i], NAME_BYTES, "%.*s", NAME_BYTES - 1, line);
    }
    for (int i = 0; i < graph->edges; i++) {
        struct edge *edge = &graph->edge[i];
        if (fscanf(file, "%d %d %d", &edge->from, &edge->to, &edge->metres) != 3 || edge->from < 0 ||
            edge->to < 0 || edge->from >= graph->nodes || edge->to >= graph->nodes || edge->metres < 1)
            refuse(path, "has a wrong edge");
    }
    fclose(file);
}

/* Rows [first, first + count) belong to `rank`. */
static void rows_of(int nodes, int size, int rank, int *first, int *count)
{
    *first = (int)((int64_t)nodes * rank / size);
    *count = (int)((int64_t)nodes * (rank + 1) / size) - *first;
}

static int owner_of(int nodes, int size, int row)
{
    return (int)(((int64_t)(row + 1) * size - 1) / nodes);
}

static int32_t *first_distances(const struct graph *graph, int first, int count)
{
    size_t nodes = (size_t)graph->nodes;
    int32_t *distance = get(nodes * (size_t)count * sizeof *distance);
    for (size_t i = 0; i < nodes * (size_t)count; i++)
        distance[i] = FAR;
    for (int i = 0; i < count; i++)
        distance[nodes * (size_t)i + (size_t)(first + i)] = 0;
    for (int i = 0; i < graph->edges; i++) {
        struct edge edge = graph->edge[i];
        if (edge.from >= first && edge.from < first + count)
            distance[nodes * (size_t)(edge.from - first) + (size_t)edge.to] = edge.metres;
        if (edge.to >= first && edge.to < first + count)
            distance[nodes * (size_t)(edge.to - first) + (size_t)edge.from] = edge.metres;
    }
    return distance;
}

/* Is the way by city k, whose distances are `by`, shorter? */
static void relax(int32_t *restrict distance, const int32_t *restrict by, int k, int rows, int nodes)
{
    for (int i = 0; i < rows; i++) {
        int32_t *row = distance + (size_t)nodes * (size_t)i;
        int32_t to_k = row[k];
        if (to_k >= FAR)
            continue;
        for (int j = 0; j < nodes; j++) {
            int32_t way = to_k + by[j];
            row[j] = way < row[j] ? way : row[j];
        }
    }
}

/* Returns the seconds that this rank spent in MPI_Bcast. */
static double solve(int32_t *distance, int nodes, int first, int count, int size)
{
    double in_mpi = 0;
    int32_t *by = get((size_t)nodes * sizeof *by);
    for (int k = 0; k < nodes; k++) {
        int owner = owner_of(nodes, size, k);
        if (k >= first && k < first + count)
            memcpy(by, distance + (size_t)nodes * (size_t)(k - first), (size_t)nodes * sizeof *by);
        double before = MPI_Wtime();
        MPI_Bcast(by, nodes, MPI_INT32_T, owner, MPI_COMM_WORLD);
        in_mpi += MPI_Wtime() - before;
        relax(distance, by, k, count, nodes);
    }
    free(by);
    return in_mpi;
}

/* Gathers the whole matrix on rank 0 by rows. Returns NULL on the other ranks. */
static int32_t *whole_matrix(const int32_t *mine, int nodes, int count, int rank, int size)
{
    int32_t *all = NULL;
    int *counts = get((size_t)size * sizeof(int)), *starts = get((size_t)size * sizeof(int));
    MPI_Datatype row;
    MPI_Type_contiguous(nodes, MPI_INT32_T, &row);
    MPI_Type_commit(&row);
    for (int i = 0; i < size; i++)
        rows_of(nodes, size, i, &starts[i], &counts[i]);
    if (rank == 0)
        all = get((size_t)nodes * (size_t)nodes * sizeof *all);
    MPI_Gatherv(mine, count, row, all, counts, starts, row, 0, MPI_COMM_WORLD);
    MPI_Type_free(&row);
    free(counts);
    free(starts);
    return all;
}

struct pair {
    int metres, place; /* place = from * nodes + to; MPI_2INT */
};

static struct pair diameter(const int32_t *mine, int nodes, int first, int count)
{
    struct pair local = {-1, 0}, global;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < nodes; j++)
            if (mine[(size_t)nodes * (size_t)i + (size_t)j] > local.metres) {
                local.metres = mine[(size_t)nodes * (size_t)i + (size_t)j];
                local.place = (first + i) * nodes + j;
            }
    MPI_Allreduce(&local, &global, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
    return global;
}

static int find(const struct graph *graph, const char *name)
{
    for (int i = 0; i < graph->nodes; i++)
        if (!strcmp(graph->name[i], name))
            return i;
    return -1;
}

/* Prints a route. Each next city is a neighbour from which the remaining distance is exactly as long as it
 * must be. */
static void print_route(const struct graph *graph, const int32_t *all, const char *from, const char *to)
{
    size_t nodes = (size_t)graph->nodes;
    int at = find(graph, from), end = find(graph, to);
    if (at < 0 || end < 0) {
        printf("  %s: no such city in the graph\n", at < 0 ? from : to);
        return;
    }
    printf("  %s - %s: %.1f km", from, to, all[nodes * (size_t)at + (size_t)end] / 1000.0);
    int stops = 0, shown = 0;
    char via[6][NAME_BYTES];
    for (int step = 0; at != end && step < graph->nodes; step++) {
        int next = -1;
        for (int i = 0; i < graph->edges && next < 0; i++) {
            struct edge edge = graph->edge[i];
            int other = edge.from == at ? edge.to : edge.to == at ? edge.from : -1;
            if (other >= 0 && edge.metres + all[nodes * (size_t)other + (size_t)end] ==
                                  all[nodes * (size_t)at + (size_t)end])
                next = other;
        }
        if (next < 0)
            break;
        at = next;
        if (at != end && ++stops % 8 == 4 && shown < 6)
            strcpy(via[shown++], graph->name[at]);
    }
    printf(", %d cities on the way", stops);
    for (int i = 0; i < shown; i++)
        printf("%s%s", i ? " - " : ", among them ", via[i]);
    printf("\n");
}

/* Computes sequentially on rank 0 and compares every distance. Returns the number of differences. */
static long check(const struct graph *graph, const int32_t *all, double *seconds)
{
    long wrong = 0;
    size_t nodes = (size_t)graph->nodes;
    int32_t *distance = first_distances(graph, 0, graph->nodes);
    int32_t *by = get(nodes * sizeof *by);
    double start = MPI_Wtime();
    for (int k = 0; k < graph->nodes; k++) {
        memcpy(by, distance + nodes * (size_t)k, nodes * sizeof *by);
        relax(distance, by, k, graph->nodes, graph->nodes);
    }
    *seconds = MPI_Wtime() - start;
    for (size_t i = 0; i < nodes * nodes; i++)
        wrong += distance[i] != all[i];
    free(by);
    free(distance);
    return wrong;
}

static void share_graph(struct graph *graph, int rank)
{
    int head[2] = {graph->nodes, graph->edges};
    MPI_Bcast(head, 2, MPI_INT, 0, MPI_COMM_WORLD);
    graph->nodes = head[0];
    graph->edges = head[1];
    if (rank != 0)
        graph->edge = get((size_t)graph->edges * sizeof *graph->edge);
    MPI_Bcast(graph->edge, 3 * graph->edges, MPI_INT32_T, 0, MPI_COMM_WORLD);
}

static int report(const struct graph *graph, const int32_t *all, struct pair ends, double seconds,
                  double share, int argc, char **argv)
{
    static const char *routes[] = {"Lisbon, PT",    "Tokyo, JP",       "Cape Town, ZA", "Oslo, NO",
                                   "Chicago, US", "Buenos Aires, AR"};
    int nodes = graph->nodes, size, wanted = argc > 3 ? argc - 2 : 6;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("shortest routes over roads between neighbours:\n");
    for (int i = 0; i + 1 < wanted; i += 2)
        print_route(graph, all, argc > 3 ? argv[2 + i] : routes[i], argc > 3 ? argv[3 + i] : routes[i + 1]);
    printf("diameter: %.1f km, %s - %s\n", ends.metres / 1000.0, graph->name[ends.place / nodes],
           graph->name[ends.place % nodes]);
    double alone;
    long wrong = check(graph, all, &alone);
    printf("time: %.3f s on %d ranks (%.1f %% of it in MPI), sequential %.3f s\n", seconds, size,
           100 * share, alone);
    printf("check: %ld of %ld distances differ from the sequential computation\n", wrong,
           (long)nodes * nodes);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    int rank, size, first, count, status = 0;
    struct graph graph = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == 0) {
        if (argc < 2)
            refuse("usage", "asp GRAPH [FROM TO]...");
        read_graph(argv[1], &graph);
        printf("asp: %d cities, %d roads, %d ranks\n", graph.nodes, graph.edges, size);
        fflush(stdout);
    }
    share_graph(&graph, rank);
    rows_of(graph.nodes, size, rank, &first, &count);
    int32_t *mine = first_distances(&graph, first, count);

    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    double in_mpi = solve(mine, graph.nodes, first, count, size);
    double mine_spent[2] = {MPI_Wtime() - start, in_mpi}, spent[2];
    MPI_Reduce(mine_spent, spent, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    struct pair ends = diameter(mine, graph.nodes, first, count);
    int32_t *all = whole_matrix(mine, graph.nodes, count, rank, size);
    if (rank == 0)
        status = report(&graph, all, ends, spent[0] / size, spent[1] / spent[0], argc, argv);
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free(all);
    free(mine);
    free(graph.edge);
    free(graph.name);
    MPI_Finalize();
    return status;
}
