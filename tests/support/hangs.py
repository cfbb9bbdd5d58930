"""Hangs that are known beforehand: kinds of tests/programs/hangs.c, with their guilty ranks and calls."""

import random
import re
from dataclasses import dataclass

# For each kind: least number of ranks, guilty rank and its call for each, and words of the report.
KINDS = {
    "head_to_head": (2, {"a": "MPI_Recv", "b": "MPI_Recv"}, "receive first"),
    "ring": (2, {"a": "MPI_Recv", "b": "MPI_Recv"}, "receive first"),
    "sends_first": (2, {"a": "MPI_Send", "b": "MPI_Send"}, "send first"),
    "tags": (2, {"a": "MPI_Recv"}, "tags differ"),
    "tags_long": (2, {"a": "MPI_Recv", "b": "MPI_Send"}, "tags differ"),
    "communicators": (2, {"a": "MPI_Recv"}, "communicators differ"),
    "wrong_source": (3, {"a": "MPI_Recv"}, "has not called the barrier"),
    "missing_send": (2, {"a": "MPI_Recv"}, "has not called the barrier"),
    "missing_receive": (2, {"b": "MPI_Ssend"}, "has not called the barrier"),
    "barrier_order": (2, {"a": "MPI_Barrier"}, "in another order"),
    "missing_collective": (2, {"a": "MPI_Recv"}, "has not called the allreduce"),
    "waitall": (2, {"a": "MPI_Waitall"}, "tags differ"),
    "waitany": (2, {"a": "MPI_Waitany"}, "has not called the barrier"),
    "any_source": (2, {"a": "MPI_Recv"}, "any source"),
    "probe": (2, {"a": "MPI_Probe"}, "tags differ"),
    "lock": (2, {"b": "MPI_Win_lock"}, "holds the lock"),
    "post": (2, {"a": "MPI_Win_start"}, "has not called MPI_Win_post"),
    "fence": (2, {"a": "MPI_Barrier"}, "has not called the barrier"),
    "partitioned": (2, {"b": "MPI_Wait"}, "has not made all partitions ready"),
    "nonblocking_collective": (2, {"a": "MPI_Recv"}, "has not called the barrier"),
    "subgroup": (4, {"a": "MPI_Barrier"}, "has not called the barrier"),
    "gather": (2, {"b": "MPI_Recv"}, "has not called the gather"),
    "file": (2, {"a": "MPI_Barrier"}, "has not called the"),
    "itself": (2, {"a": "MPI_Ssend"}, "waits for itself"),
    "thread": (2, {"a": "MPI_Recv"}, "has not called the barrier"),
}
# Those of tests/programs/hangs.py. mpi4py receives objects by a probe that takes the message.
PYTHON_KINDS = {
    "head_to_head": (2, {"a": "MPI_Mprobe", "b": "MPI_Mprobe"}, "receive first"),
    "tags": (2, {"a": "MPI_Mprobe"}, "tags differ"),
    "missing_collective": (2, {"a": "MPI_Mprobe"}, "has not called the allreduce"),
}


@dataclass
class Case:
    """One job that hangs."""

    kind: str
    ranks: int
    a: int
    b: int
    is_python: bool = False

    @property
    def words(self):
        return [self.kind, str(self.a), str(self.b)]

    def fault(self, text):
        """Returns what the report lacks; None if it names the guilty ranks and calls."""
        _, guilty, words = (PYTHON_KINDS if self.is_python else KINDS)[self.kind]
        found = {}
        for ranks, function in re.findall(r"^mpirun:   ranks? ([-0-9, ]+) waits? in (\w+) for (?!them)", text, re.M):
            for first, last in re.findall(r"(\d+)(?:-(\d+))?", ranks):
                found |= dict.fromkeys(range(int(first), int(last or first) + 1), function)
        for name, function in guilty.items():
            if found.get(getattr(self, name)) != function:
                return f"rank {getattr(self, name)} in {function} is not named"
        if words not in text:
            return f"no words: {words}"
        lines = [line for line in text.splitlines() if line.startswith("mpirun:")]
        return None if len(lines) <= 15 else f"{len(lines)} lines"


def cases(count, seed, most=32, kinds=None):
    """Returns jobs that hang: all kinds in turn, with random sizes and guilty ranks."""
    draw = random.Random(seed)
    kinds = [(kind, False) for kind in kinds or KINDS] + ([] if kinds else [(kind, True) for kind in PYTHON_KINDS])
    made = []
    for number in range(count):
        kind, is_python = kinds[number % len(kinds)]
        least = (PYTHON_KINDS if is_python else KINDS)[kind][0]
        ranks = draw.choice([size for size in (2, 3, 4, 5, 8, 16, 32) if least <= size <= (8 if is_python else most)])
        a, b = draw.sample(range(ranks), 2)
        made.append(Case(kind, ranks, a, b, is_python))
    return made
