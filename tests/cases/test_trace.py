"""Records of communication: counters by path, traces of whole programs with times, and their pictures."""

import json
import re
import subprocess
from collections import Counter, defaultdict

import pytest

from harness import ROOT, check
from hosts import Cluster


def events(path):
    """Returns the events of a trace. Every line of the file has Chrome's format."""
    return [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]


def matched(all_events):
    """Sends and receives of each pair, in order, as (send, receive)."""
    ends = defaultdict(lambda: ([], []))
    for event in sorted(all_events, key=lambda event: event["ts"]):
        args = event["args"]
        if args["action"] == "send":
            ends[args["rank"], args["peer"], args["key"], args["value"]][0].append(event)
        elif args["action"] == "receive":
            ends[args["peer"], args["rank"], args["key"], args["value"]][1].append(event)
    for sends, receives in ends.values():
        assert len(sends) == len(receives), (sends[:1], receives[:1])
        yield from zip(sends, receives)


def picture(path):
    """Returns the output of `tutti trace` and the picture that it draws."""
    command = [ROOT / "build" / "stage" / "bin" / "tutti", "trace", path]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, path.with_name(path.name + ".svg").read_text()


@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize("name", ["bcast", "allreduce", "ring"])
def test_program_is_traced(tutti, tmp_path, ranks, name):
    path = tmp_path / "run.json"
    check(tutti.run(ranks, tutti.compile("one_collective.c"), name, 100_000, 3, options=["--trace", path]))
    found = events(path)
    assert {event["args"]["rank"] for event in found} == set(range(ranks))
    calls = Counter((event["args"]["rank"], event["name"]) for event in found if event["args"]["action"] == "call")
    function = {"bcast": "MPI_Bcast", "allreduce": "MPI_Allreduce", "ring": "MPI_Sendrecv"}[name]
    # At its end the program adds up the errors.
    times = 3 + (name == "allreduce")
    assert all(calls[rank, function] == times for rank in range(ranks)), calls
    pairs = list(matched(found))
    if name == "ring":
        assert sum(send["args"]["bytes"] == 100_000 for send, _ in pairs) == 3 * ranks
    elif ranks > 1:
        operations = Counter(event["name"].split("/")[0] for event in found if event["args"]["action"] == "operation")
        assert operations[name] == times * ranks, operations
    assert all(send["ts"] <= receive["ts"] + receive["dur"] for send, receive in pairs)
    said, svg = picture(path)
    assert "critical path" in said and svg.startswith("<svg") and f"rank {ranks - 1}" in svg, said


def test_a_trace_has_a_bound(tutti, tmp_path):
    path = tmp_path / "run.json"
    outcome = tutti.run(2, tutti.compile("one_collective.c"), "ring", 8, 500, options=["--trace", path],
                        env={"TUTTI_DEBUG": "trace_events=100"})
    check(outcome)
    assert len(events(path)) == 200 and "did not fit into the trace (TUTTI_DEBUG=trace_events=N)" in outcome.err, str(outcome)


def test_a_trace_that_cannot_be_written_is_no_end(tutti, tmp_path):
    """The folder is there at the start, where it is looked at, and is gone at the end."""
    folder = tmp_path / "gone"
    folder.mkdir()
    program = tutti.compile("one_collective.c")
    outcome = tutti.run_words(["--trace", folder / "run.json", "-n", 1, "sh", "-c", f"rmdir {folder}; exec {program}", ":", "-n", 1, program])
    check(outcome)
    assert "the trace cannot be written to" in outcome.err, str(outcome)


def sent(outcome):
    """Returns the bytes that all ranks have sent, by path."""
    lines = [line for line in outcome.err.splitlines() if ": traffic " in line]
    total = Counter()
    for line in lines:
        for way, _, count in re.findall(r"(\w+)=(\d+)/(\d+)", line):
            total[way] += int(count)
    return total


def test_bytes_are_counted_by_way(tutti):
    program = tutti.compile("one_collective.c")
    counted = {}
    for way, setting in [("ring", {"TUTTI_SINGLE_COPY": "never"}),
                         ("single_copy", {"TUTTI_SINGLE_COPY": "always", "TUTTI_SINGLE_COPY_BYTES": "1", "TUTTI_MAPPED": "never"})]:
        runs = []
        for times in (0, 10):
            runs.append(tutti.run(2, program, "ring", 200_000, times, env={"TUTTI_COUNTERS": "1", **setting}))
            check(runs[-1])
        counted[way] = sent(runs[1])[way] - sent(runs[0])[way]
    assert counted["ring"] >= 2 * 10 * 200_000 and counted["single_copy"] >= 2 * 10 * 200_000, counted


@pytest.fixture(scope="module")
def four(mpi, hosts):
    """Creates four hosts with two ranks on each."""
    return Cluster(mpi.name, hosts(4), 2)


# Bytes over the links at least, of 4 hosts x 2 ranks, in units of the size given.
LEAST = {"bcast": 3, "reduce": 3, "allreduce": 6, "allgather": 3 * 8}


@pytest.mark.across
@pytest.mark.parametrize("name", LEAST)
def test_links_carry_no_more_than_they_must(tutti, four, name):
    assert tutti
    size, times = 1 << 20, 4
    runs = []
    for count in (1, 1 + times):
        runs.append(four.run(8, four.compile("one_collective.c"), name, size, count, env={"TUTTI_COUNTERS": "1"}))
        check(runs[-1])
    network = sent(runs[1])["network"] - sent(runs[0])["network"]
    assert 1.0 <= network / (LEAST[name] * size * times) <= 1.05, (name, network)


@pytest.mark.across
def test_a_trace_of_several_hosts(tutti, four, tmp_path):
    assert tutti
    path = tmp_path / "run.json"
    check(four.run(8, four.compile("one_collective.c"), "bcast", 1 << 20, 2, options=["--trace", path]))
    found = events(path)
    assert {event["pid"] for event in found} == {0, 1, 2, 3}
    assert any(event["cat"] == "network" for event in found) and any(event["cat"] == "node" for event in found)
    # All hosts share one clock here, so a difference between their clocks is the error of the comparison.
    late = [send["ts"] - (receive["ts"] + receive["dur"]) for send, receive in matched(found)]
    assert max(late) < 1000, max(late)
    said, svg = picture(path)
    assert "network and node are busy at once" in said and "host 3" in svg, said
