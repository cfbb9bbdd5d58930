"""A 3D Fourier transform on shaped hosts (S11; barigou-2016, section 3.4): examples/fft3d in its four
patterns, with a poisoned model.

usage: python tests/fft_hosts.py [--rate 200mbit] [--size N] [--transforms N] [--patterns NAME,...]
    [--tests N]

By the poisoned model the slowest all-to-all is the default. Each pattern runs untuned, tuned
(TUTTI_TUNE=on) and once more with what was learned (known); beside it the blocking transform and the
pattern with the model as it is. Seconds of a transform: the mean of all, and of the last tenth. Two runs of
each in shuffled order; the least counts.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import ROOT
from hosts import Cluster, Testbed, refusal
from tune_scenarios import poisoned

PATTERNS = ["pipelined", "tiled", "windowed", "window-tiled"]
# From the best to the worst of what is between hosts of one rank each.
ALGORITHMS = ["spread", "pairwise", "bruck"]


def run(mpi, program, arguments, env):
    """Seconds of a transform: of all, of the first tenth, of the last tenth."""
    words = [str(word) for word in mpi.command(4, program, *arguments)]
    done = subprocess.run(words, env={**mpi.env, **env}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "right", done.stdout
    return [float(word) for word in re.findall(r"(?:mean|first|last) ([\d.]+)", done.stdout)]


def pattern_rows(mpi, program, folder, pattern, options):
    """A row: each way of running a pattern."""
    model = folder / f"model-{pattern}"
    model.write_text(poisoned("alltoall", 4, 4, ALGORITHMS))
    bad = {"TUTTI_MODEL_FILE": str(model)}
    empty = folder / "empty"
    empty.write_text("")
    good = {"TUTTI_MODEL_FILE": str(empty)}
    arguments = [options.size, options.transforms, 2, 2, options.tests]
    ways = {
        "untuned": (pattern, bad),
        "tuned": (pattern, {**bad, "TUTTI_TUNE": "on"}),
        "model": (pattern, good),
        "blocking": ("blocking", good),
    }
    found = {name: [] for name in ways}
    for _ in range(2):
        for name in random.sample(sorted(ways), len(ways)):
            model.write_text(poisoned("alltoall", 4, 4, ALGORITHMS))
            kind, env = ways[name]
            found[name].append(run(mpi, program, [kind, *arguments], env))
    least = {name: [min(values) for values in zip(*runs)] for name, runs in found.items()}
    gain = 100 * (1 - least["tuned"][0] / least["untuned"][0])
    after = 100 * (1 - least["tuned"][2] / least["untuned"][2])
    print(f"{pattern:13} " + " ".join(f"{name} {values[0] * 1e3:.1f}/{values[2] * 1e3:.1f}" for name, values in least.items())
          + f" ms; faster by tuning {gain:.0f} %, in the end {after:.0f} %; than blocking {100 * (1 - least['tuned'][2] / least['blocking'][2]):.0f} %", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--transforms", type=int, default=1000)
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--tests", type=int, default=4)
    options = parser.parse_args()
    if why := refusal():
        sys.exit(f"fft_hosts: {why}")
    with tempfile.TemporaryDirectory() as name:
        testbed = Testbed(4, options.rate, share=[name])
        try:
            mpi = Cluster("tutti", testbed, 1)
            program = Path(name) / "fft3d"
            subprocess.run([mpi.mpicc, "-O2", ROOT / "examples" / "fft3d" / "fft3d.c", "-o", program, "-lm"], check=True)
            print(f"{options.size}^3, {options.transforms} transforms, 4 hosts, {options.rate}; ms of a transform: all / the last tenth")
            for pattern in options.patterns.split(","):
                pattern_rows(mpi, program, Path(name), pattern, options)
        finally:
            testbed.down()


if __name__ == "__main__":
    main()
