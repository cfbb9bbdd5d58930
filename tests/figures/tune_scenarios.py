"""Whether the best algorithm is found inside a running program (S11): real loops beside forced ones, on this
host and on shaped hosts.

usage: python tests/figures/tune_scenarios.py [--node N] [--hosts N] [--seed S] [--rate 200mbit] [--seconds S]
    [--first N] [--count N]

Each scenario is an operation with bytes, ranks, computation beside it and tests, from a printed seed
(tests/programs/tuned_loop.c). Truth is the median of five runs with each algorithm forced, in shuffled order.
Then a poisoned model, by which the worst is the default: one run that learns (TUTTI_TUNE=on), and what it has
learned (TUTTI_TUNE=known), five runs among the forced ones. It is right within 5 % of the best, or where the
intervals of both overlap. With the model as it is: the time of a loop that learns, by the same loop that does
not. In pieces: --first and --count choose among the scenarios of a kind.
"""

import argparse
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import SOURCES, Mpi
from hosts import Cluster, Testbed, refusal
from models import poisoned

OPERATIONS = ["bcast", "alltoall", "bcast", "allreduce", "allgather"]
RUNS = 5
RIGHT = 1.05
MOST_FORCED = 7


class Place:
    """Environment of the programs: a number of ranks, on one host or on several."""

    def __init__(self, mpi, folder, hosts):
        self.mpi, self.folder, self.hosts = mpi, folder, hosts
        self.program = folder / "loop"
        subprocess.run([mpi.mpicc, "-O2", SOURCES / "tuned_loop.c", "-o", self.program], check=True)

    def seconds(self, ranks, words, env):
        """Returns the seconds of a round: the mean of all, and of the last half."""
        return [float(word) for word in self.run(ranks, words, env).stdout.split()]

    def run(self, ranks, words, env):
        command = [str(word) for word in self.mpi.command(ranks, self.program, *words)]
        # Sums may be taken in any order, because otherwise there are few algorithms that give the same bits.
        env = {**self.mpi.env, "TUTTI_TUNE_ANY_ORDER": "1", **env}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done

    def algorithms(self, operation, size, ranks):
        """Returns the algorithms that can be forced, as TUTTI_ALGORITHM names them. Each has the parameters
        that the model prefers."""
        words = [self.mpi.prefix / "bin" / "tutti", "sim", "--collective", operation, "--bytes", size, "-n", ranks, "--hosts", self.hosts]
        text = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout
        found = []
        for name, more in re.findall(r"^  (\w+) +[\d.]+ us +[\d.]+  ([^(\n]*)", text, re.M):
            radix, segment = re.match(r"(?:radix )?(\w+)", more), re.search(r"segment (\d+)", more)
            found.append(name + (f":radix={radix[1]}" if radix else "") + (f":segment={segment[1]}" if segment else ""))
        return found[:MOST_FORCED]


def scenarios(number, hosts, seed):
    """Draws scenarios from a seed."""
    chance = random.Random(f"{seed} {hosts}")
    for place in range(number):
        sizes = [1 << 10, 8 << 10, 64 << 10, 512 << 10] if hosts == 1 else [16 << 10, 64 << 10, 256 << 10]
        yield (OPERATIONS[place % len(OPERATIONS)], chance.choice(sizes), chance.choice([2, 2, 4]) if hosts == 1 else hosts,
               chance.choice([0.5, 1, 2]), chance.choice([0, 1, 4, 16]))


def overlaps(one, other):
    return min(one) <= max(other) and min(other) <= max(one)


def learn(place, ranks, words, model, rounds):
    """Runs the program so that it learns into the model file, and returns the seconds of a round."""
    return place.seconds(ranks, [*words, rounds], {"TUTTI_TUNE": "on", "TUTTI_MODEL_FILE": str(model)})[0]


def judge(place, scenario, speed, seconds, chance):
    """Runs one scenario and returns the text to print, whether the learned algorithm is right, and further
    figures."""
    operation, size, ranks, factor, looks = scenario
    alone = min(place.seconds(ranks, [operation, size, 0, 0, 30], {})[1] for _ in range(2))
    words = [operation, size, int(alone * factor * speed), looks]
    rounds = max(20, int(seconds / (alone * (1 + factor))))
    forced = place.algorithms(operation, size, ranks)
    env_of = {name: {"TUTTI_ALGORITHM": f"{operation}={name}"} for name in forced}
    first = {name: place.seconds(ranks, [*words, rounds], env)[1] for name, env in env_of.items()}
    order = sorted(first, key=first.get)
    model = place.folder / "poisoned"
    model.write_text(poisoned(operation, ranks, place.hosts, order))
    learn(place, ranks, words, model, max(rounds * 10, 600))
    env_of["known"] = {"TUTTI_TUNE": "known", "TUTTI_MODEL_FILE": str(model)}
    empty = place.folder / "empty"
    empty.write_text("")
    env_of["default"] = {"TUTTI_MODEL_FILE": str(empty)}
    found = {name: [] for name in env_of}
    for _ in range(RUNS):
        for name in chance.sample(sorted(env_of), len(env_of)):
            found[name].append(place.seconds(ranks, [*words, rounds], env_of[name])[1])
    middle = {name: statistics.median(runs) for name, runs in found.items()}
    best = min(forced, key=middle.get)

    def is_right(name):
        return middle[name] <= RIGHT * middle[best] or overlaps(found[name], found[best])

    loop = []
    for _ in range(3):
        fresh = place.folder / "fresh"
        shutil.copy(empty, fresh)
        tuned = learn(place, ranks, words, fresh, rounds * 4)
        loop.append(tuned / place.seconds(ranks, [*words, rounds * 4], env_of["default"])[0])
    learned = re.findall(r"^learned .*", model.read_text(), re.M)
    right = sum(is_right(name) for name in forced) / len(forced)
    line = (f"i{operation} {size} B, {ranks} ranks, x{factor}, {looks:2} looks: best {best} {middle[best] * 1e6:.1f} us, worst {middle[order[-1]] * 1e6:.1f}, "
            f"tuned {middle['known'] * 1e6:.1f}{'' if learned else ' (nothing learned)'}, default {middle['default'] * 1e6:.1f}, loop x{statistics.median(loop):.3f}")
    return line, is_right("known"), is_right(order[-1]), right, is_right("default"), statistics.median(loop), middle["known"] / middle[best]


def table(place, chosen, seconds, limit, seed):
    """Runs all scenarios of a place, as far as time permits."""
    begin = time.monotonic()
    multiplications = 20_000_000
    speed = multiplications / place.seconds(1, ["bcast", 8, multiplications, 0, 3], {})[1]
    chance, results = random.Random(seed), []
    for scenario in chosen:
        if time.monotonic() - begin > limit:
            break
        line, *rest = judge(place, scenario, speed, seconds, chance)
        results.append(rest)
        print(f"{'right' if rest[0] else 'WRONG'}  {line}", flush=True)
    if not results:
        return
    tuned, worst, chances, default, loops, ratios = zip(*results)
    print(f"{len(results)} of {len(chosen)} scenarios on {place.hosts} host(s): poisoned and tuned right in {sum(tuned)}, poisoned and not tuned in {sum(worst)}, "
          f"one at random in {sum(chances):.1f}, the model as it is in {sum(default)};")
    print(f"  tuned to the best {statistics.geometric_mean(ratios):.3f}; loops that learn, by those that do not: {statistics.geometric_mean(loops):.3f}, at most {max(loops):.3f}",
          flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", type=int, default=40)
    parser.add_argument("--hosts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a forced loop")
    parser.add_argument("--first", type=int, default=0, help="the first scenario of each kind")
    parser.add_argument("--count", type=int, default=10**6, help="so many scenarios of each kind")
    parser.add_argument("--limit", type=float, default=600, help="seconds after which no scenario begins, of each kind")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    piece = slice(options.first, options.first + options.count)
    with tempfile.TemporaryDirectory() as name:
        if options.node:
            chosen = list(scenarios(options.node, 1, options.seed))[piece]
            table(Place(Mpi("tutti"), Path(name), 1), chosen, options.seconds, options.limit, options.seed)
        if options.hosts:
            if why := refusal():
                sys.exit(f"tune_scenarios: {why}")
            testbed = Testbed(4, options.rate, share=[name])
            try:
                chosen = list(scenarios(options.hosts, 4, options.seed))[piece]
                table(Place(Cluster("tutti", testbed, 1), Path(name), 4), chosen, options.seconds * 3, options.limit, options.seed)
            finally:
                testbed.down()


if __name__ == "__main__":
    main()
