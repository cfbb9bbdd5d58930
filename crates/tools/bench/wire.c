/* Reference for the network without MPI: two processes on two hosts and one TCP connection.
 *
 * usage: wire AGENT HOST --serve PREFIX     on the first host; starts itself on HOST by AGENT
 *
 * Serves cells as tutti-bench --serve does (see there), as rank 0 and rank 1. Only latency and bandwidth are known: there
 * and back, and a window of 64 messages answered by one word. Other cells are done without a time. */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 64
#define BATCHES 5
#define MOST_BYTES (64 << 20)

struct work {
    long bytes, iterations, window; /* window 0: there and back */
};

static char *memory;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void put(int stream, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(stream, (const char *)data + done, bytes - done);
        if (n <= 0)
            exit(0);
        done += (size_t)n;
    }
}

static void get(int stream, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(stream, (char *)data + done, bytes - done);
        if (n <= 0)
            exit(0);
        done += (size_t)n;
    }
}

static void make_pipe(const char *prefix, int rank)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    if (mkfifo(path, 0600))
        fail(path);
}

static FILE *open_pipe(const char *prefix, int rank)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    FILE *pipe = fopen(path, "r");
    if (!pipe)
        fail(path);
    return pipe;
}

/* The second host: does what it is told by the first, until that closes the connection. */
static int second(const char *host, const char *port, const char *prefix)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    int one = 1;
    make_pipe(prefix, 1);
    if (getaddrinfo(host, port, &hints, &found))
        fail(host);
    int stream = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(stream, found->ai_addr, found->ai_addrlen))
        fail("connect");
    setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    put(stream, "r", 1);
    FILE *pipe = open_pipe(prefix, 1);
    char line[512];
    for (struct work w;;) {
        get(stream, &w, sizeof w);
        if (!w.bytes) { /* a cell begins: its line has been written to both */
            if (!fgets(line, sizeof line, pipe))
                exit(0);
            continue;
        }
        for (long i = 0; i < w.iterations; i++) {
            for (long k = 0; k < (w.window ? w.window : 1); k++)
                get(stream, memory, (size_t)w.bytes);
            put(stream, memory, w.window ? 4 : (size_t)w.bytes);
        }
    }
}

/* Seconds of one message. */
static double measure(int stream, long bytes, long iterations, long window)
{
    struct work w = {bytes, iterations, window};
    put(stream, &w, sizeof w);
    double start = now();
    for (long i = 0; i < iterations; i++) {
        for (long k = 0; k < (window ? window : 1); k++)
            put(stream, memory, (size_t)bytes);
        get(stream, memory, window ? 4 : (size_t)bytes);
    }
    return (now() - start) / (double)iterations / (window ? (double)window : 2.0);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void cell(int stream, const char *name, const char *mode, long bytes, double ms)
{
    struct work begin = {0, 0, 0};
    long window = strcmp(name, "bandwidth") ? 0 : bytes > (4 << 20) ? WINDOW / 4 : WINDOW;
    double times[BATCHES], batch_s = ms / 1000 / BATCHES;
    put(stream, &begin, sizeof begin);
    if ((strcmp(name, "latency") && strcmp(name, "bandwidth")) || strcmp(mode, "plain") || bytes > MOST_BYTES)
        return;
    measure(stream, bytes, 1, window);
    double one = measure(stream, bytes, 2, window) * (window ? (double)window : 2.0);
    long iterations = one < batch_s ? (long)(batch_s / one) : 1;
    for (int i = 0; i < BATCHES; i++)
        times[i] = measure(stream, bytes, iterations, window);
    qsort(times, BATCHES, sizeof *times, ascending);
    printf("cell op=%s mode=%s ranks=2 bytes=%ld us=%.4f least=%.4f iterations=%ld wrong=0\n", name, mode, bytes,
           times[BATCHES / 2] * 1e6, times[0] * 1e6, iterations * BATCHES);
}

static int first(const char *self, const char *agent, const char *other, const char *prefix)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    char own[256], port[16], line[512], name[64], mode[16], word;
    long bytes;
    double ms;
    make_pipe(prefix, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length) || gethostname(own, sizeof own))
        fail("listen");
    snprintf(port, sizeof port, "%d", ntohs(address.sin_port));
    pid_t child = fork();
    if (child == 0) {
        execl(agent, agent, "-n", other, self, own, port, prefix, (char *)NULL);
        fail(agent);
    }
    int stream = accept(listener, NULL, NULL);
    setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    get(stream, &word, 1);
    puts("ready");
    fflush(stdout);
    FILE *pipe = open_pipe(prefix, 0);
    while (fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "%63s %15s %ld %lf", name, mode, &bytes, &ms) == 4)
            cell(stream, name, mode, bytes, ms);
        puts("done");
        fflush(stdout);
    }
    close(stream);
    waitpid(child, NULL, 0);
    return 0;
}

int main(int argc, char **argv)
{
    memory = calloc(1, MOST_BYTES);
    if (!memory)
        fail("memory");
    if (argc == 5 && !strcmp(argv[3], "--serve"))
        return first(argv[0], argv[1], argv[2], argv[4]);
    if (argc == 4)
        return second(argv[1], argv[2], argv[3]);
    fputs("usage: wire AGENT HOST --serve PREFIX\n", stderr);
    return 2;
}
