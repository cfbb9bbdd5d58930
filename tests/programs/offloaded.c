// Collectives that the kernel's packet program may do, one rank a host. "results": all kinds against what
// this rank works out itself. "bcast": all ranks between the root and the last one are stopped, and it gets
// the broadcast. "barrier": all but two are stopped after MPI_Ibarrier, and these two complete. "persistent":
// operations that are started again and again, in other orders on other ranks; then beside stopped ranks.
#include "check.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define rank check_rank
#define size check_size
static long pids[64];

// A line of /proc/PID/status.
static long status_of(long pid, const char *name, char *letter)
{
	char path[64], line[256];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%ld/status", pid);
	file = fopen(path, "r");
	if (!file)
		return -1;
	while (fgets(line, sizeof line, file))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':') {
			value = strtol(line + strlen(name) + 1, NULL, 10);
			if (letter)
				sscanf(line + strlen(name) + 1, " %c", letter);
		}
	fclose(file);
	return value;
}

static int is_stopped(long pid)
{
	char letter = '?';

	status_of(pid, "State", &letter);
	return letter == 'T';
}

static void await_stopped(int first, int last)
{
	for (int i = first; i <= last; i++)
		for (int look = 0; !is_stopped(pids[i]); look++) {
			CHECK(look < 20000);
			usleep(1000);
		}
}

static void go_on(int first, int last)
{
	for (int i = first; i <= last; i++)
		kill((pid_t)pids[i], SIGCONT);
}

static uint64_t mixed(uint64_t word)
{
	word = (word ^ word >> 31) * 0x9e3779b97f4a7c15u;
	return word ^ word >> 29;
}

static void broadcast(int round)
{
	unsigned char block[600];
	int root = round % size, bytes = (int)(mixed((uint64_t)round) % 600);

	for (int i = 0; i < bytes; i++)
		block[i] = rank == root ? (unsigned char)mixed((uint64_t)(round * 1000 + i)) : 0;
	MPI_Bcast(block, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
	for (int i = 0; i < bytes; i++)
		CHECK(block[i] == (unsigned char)mixed((uint64_t)(round * 1000 + i)));
}

static void reduce(int round)
{
	int64_t mine[20], all[20];
	double parts[20], sums[20];
	int count = 1 + round % 20;
	MPI_Op operators[] = { MPI_SUM, MPI_MIN, MPI_MAX };

	for (int i = 0; i < count; i++) {
		mine[i] = (int64_t)mixed((uint64_t)(rank + 100 * i + round)) >> 8;
		parts[i] = (double)(rank + 1) * (i + round);
	}
	MPI_Allreduce(mine, all, count, MPI_INT64_T, operators[round % 3], MPI_COMM_WORLD);
	MPI_Allreduce(parts, sums, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; i++) {
		int64_t expected = 0;

		for (int r = 0; r < size; r++) {
			int64_t other = (int64_t)mixed((uint64_t)(r + 100 * i + round)) >> 8;

			if (!r)
				expected = other;
			else if (round % 3 == 0)
				expected += other;
			else if (round % 3 == 1 ? other < expected : other > expected)
				expected = other;
		}
		CHECK(all[i] == expected);
		CHECK(sums[i] == (double)(size * (size + 1) / 2) * (i + round));
	}
	MPI_Allreduce(MPI_IN_PLACE, mine, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void results(int rounds)
{
	MPI_Request requests[3];
	int values[3] = { 0 };

	for (int round = 0; round < rounds; round++) {
		broadcast(round);
		if (round % 3 == 0)
			MPI_Barrier(MPI_COMM_WORLD);
		if (round % 5 == 0)
			reduce(round);
		if (round % 7)
			continue;
		for (int i = 0; i < 2; i++) {
			values[i] = rank == i % size ? round + i : -1;
			MPI_Ibcast(&values[i], 1, MPI_INT, i % size, MPI_COMM_WORLD, &requests[i]);
		}
		MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
		MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
		CHECK(values[0] == round && values[1] == round + 1);
	}
}

// Broadcasts that nobody but the root ends: records of operations go round.
static void ahead(void)
{
	for (int round = 0; round < 300; round++) {
		int value = rank == 0 ? round : -1;

		if (rank == size - 1 && round % 100 == 50)
			usleep(20000);
		MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
		CHECK(value == round);
	}
}

static void bcast_beside_stopped(void)
{
	int value = rank == 0 ? 42 : 0;

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank > 0 && rank < size - 1)
		raise(SIGSTOP);
	else
		await_stopped(1, size - 2);
	MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
	CHECK(value == 42);
	if (rank == size - 1) {
		for (int i = 1; i < size - 1; i++)
			CHECK(is_stopped(pids[i]));
		printf("the last got it while %d were stopped\n", size - 2);
		go_on(1, size - 2);
	}
}

static void barrier_beside_stopped(void)
{
	MPI_Request request;
	long switches[64];

	MPI_Barrier(MPI_COMM_WORLD);
	if (rank < 2) {
		await_stopped(2, size - 1);
		for (int i = 2; i < size; i++)
			switches[i] = status_of(pids[i], "voluntary_ctxt_switches", NULL);
	}
	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	if (rank >= 2)
		raise(SIGSTOP);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	if (rank < 2)
		for (int i = 2; i < size; i++)
			CHECK(is_stopped(pids[i]) && switches[i] == status_of(pids[i], "voluntary_ctxt_switches", NULL));
	if (rank == 0) {
		// The other one looks too.
		sleep(1);
		printf("two completed while %d were stopped\n", size - 2);
		go_on(2, size - 1);
	}
}

static void persistent(int rounds)
{
	enum { KINDS = 4 };
	MPI_Request requests[KINDS];
	long value = 0, all = 0, mine = 0;
	unsigned char block[100] = { 0 };

	MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
	MPI_Bcast_init(&value, 1, MPI_LONG, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
	MPI_Allreduce_init(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
	MPI_Bcast_init(block, 100, MPI_BYTE, size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
	for (int round = 0; round < rounds; round++) {
		value = rank == 0 ? round : -1;
		mine = round + rank;
		memset(block, rank == size - 1 ? round % 251 : 255, sizeof block);
		for (int i = 0; i < KINDS; i++)
			MPI_Start(&requests[(i + rank + round) % KINDS]);
		if (round % 5 == 0)
			MPI_Barrier(MPI_COMM_WORLD);
		MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE);
		CHECK(value == round && all == (long)size * round + size * (size - 1) / 2);
		for (int i = 0; i < 100; i++)
			CHECK(block[i] == round % 251);
	}
	// All but two are stopped once they have started it.
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Start(&requests[0]);
	if (rank >= 2)
		raise(SIGSTOP);
	else
		await_stopped(2, size - 1);
	MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
	if (rank == 0) {
		sleep(1);
		go_on(2, size - 1);
	}
	for (int i = 0; i < KINDS; i++)
		MPI_Request_free(&requests[i]);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "results";
	long pid = getpid();

	check_begin(&argc, &argv);
	MPI_Allgather(&pid, 1, MPI_LONG, pids, 1, MPI_LONG, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	if (!strcmp(what, "bcast"))
		bcast_beside_stopped();
	else if (!strcmp(what, "barrier"))
		barrier_beside_stopped();
	else if (!strcmp(what, "persistent"))
		persistent(argc > 2 ? atoi(argv[2]) : 200);
	else {
		results(argc > 2 ? atoi(argv[2]) : 200);
		ahead();
	}
	return check_end();
}
