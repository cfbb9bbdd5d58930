"""A 3D Fourier transform on shaped hosts (S11; barigou-2016, section 3.4): examples/fft3d in its four
patterns, with a poisoned model.

usage: python tests/figures/fft_hosts.py [--rate 200mbit] [--size N] [--transforms N] [--patterns NAME,...]
    [--tests N] [--peers mpich,openmpi] [--spfft SOURCES] [--mpi4py-fft PYTHON]

By the poisoned model the slowest all-to-all is the default. Each pattern runs untuned, tuned
(TUTTI_TUNE=on) and once more with what was learned (known); beside it the blocking transform and the
pattern with the model as it is. Seconds of a transform: the mean of all, and of the last tenth. Two runs of
each in shuffled order; the least counts. Other libraries, told to give the processor away while they wait,
run each pattern and the blocking transform too.

Transforms of others, unmodified, instead of the patterns: SpFFT, from its sources with its library in
build/src (cmake -B build, with Tutti's mpicxx), and mpi4py-fft, installed for this Python.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import ROOT, SOURCES
from hosts import Cluster, Testbed, peers, refusal
from models import poisoned

PATTERNS = ["pipelined", "tiled", "windowed", "window-tiled"]
# From the best to the worst link between hosts of one rank each.
ALGORITHMS = ["spread", "pairwise", "bruck"]


def run(mpi, words, env):
    """Returns the seconds of a transform: of all, of the first tenth, of the last tenth."""
    words = [str(word) for word in mpi.command(4, *words)]
    done = subprocess.run(words, env={**mpi.env, **env}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "right", done.stdout
    return [float(word) for word in re.findall(r"(?:mean|first|last) ([\d.]+)", done.stdout)]


def row(mpi, folder, name, words, blocking=None, env=None, others=()):
    """A row: each way of running a program, of `others` by (name, library, words)."""
    model = folder / f"model-{name}"
    bad = {**(env or {}), "TUTTI_MODEL_FILE": str(model)}
    empty = folder / "empty"
    empty.write_text("")
    good = {**bad, "TUTTI_MODEL_FILE": str(empty)}
    ways = {"untuned": (mpi, words, bad), "tuned": (mpi, words, {**bad, "TUTTI_TUNE": "on"}), "model": (mpi, words, good)}
    if blocking:
        ways["blocking"] = (mpi, blocking, good)
    ways |= {other: (library, program, {}) for other, library, program in others}
    found = {way: [] for way in ways}
    for _ in range(2):
        for way in random.sample(sorted(ways), len(ways)):
            model.write_text(poisoned("alltoall", 4, 4, ALGORITHMS))
            found[way].append(run(*ways[way]))
    least = {way: [min(values) for values in zip(*runs)] for way, runs in found.items()}

    def faster(way, other, part):
        return f"{100 * (1 - least[way][part] / least[other][part]):.0f} %"

    times = " ".join(f"{way} {values[0] * 1e3:.1f}/{values[2] * 1e3:.1f}" for way, values in least.items())
    than_blocking = f"; than blocking {faster('tuned', 'blocking', 2)}" if blocking else ""
    print(f"{name:13} {times} ms; faster by tuning {faster('tuned', 'untuned', 0)}, in the end "
          f"{faster('tuned', 'untuned', 2)}{than_blocking}", flush=True)


def of_others(mpi, folder, options):
    """Transforms of other projects."""
    arguments = [options.size, options.transforms]
    if options.spfft:
        sources = Path(options.spfft).absolute()
        program, library = folder / "spfft", sources / "build" / "src"
        include = ["-I", sources / "include", "-I", sources / "build" / "spfft", "-I", sources / "build"]
        subprocess.run([mpi.mpicc.with_name("mpicxx"), "-std=c++17", "-O2", *include, SOURCES / "fft_spfft.cpp", "-o", program,
                        "-L", library, "-lspfft", f"-Wl,-rpath,{library}"], check=True)
        row(mpi, folder, "SpFFT", [program, *arguments])
    if options.mpi4py_fft:
        env = {"MPI4PY_MPIABI": "mpiabi", "MPI4PY_LIBMPI": str(mpi.prefix / "lib" / "libmpi_abi.so.1")}
        row(mpi, folder, "mpi4py-fft", [Path(options.mpi4py_fft).absolute(), ROOT / "tests" / "figures" / "fft_mpi4py.py", *arguments], env=env)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", default="200mbit")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--transforms", type=int, default=1000)
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--tests", type=int, default=4)
    parser.add_argument("--peers", default="", help="mpich, openmpi")
    parser.add_argument("--spfft", help="SpFFT's sources, built")
    parser.add_argument("--mpi4py-fft", help="a Python that has it")
    options = parser.parse_args()
    if why := refusal():
        sys.exit(f"fft_hosts: {why}")
    with tempfile.TemporaryDirectory() as name:
        shared = [Path(options.spfft).absolute()] if options.spfft else []
        shared += [Path(options.mpi4py_fft).absolute().parent.parent] if options.mpi4py_fft else []
        testbed = Testbed(4, options.rate, share=[name, *shared])
        try:
            mpi = Cluster("tutti", testbed, 1)
            print(f"{options.size}^3, {options.transforms} transforms, 4 hosts, {options.rate}; ms of a transform: all / the last tenth")
            if options.spfft or options.mpi4py_fft:
                return of_others(mpi, Path(name), options)
            others = {peer: library for peer, library in peers(testbed, 1).items() if peer in options.peers.split(",")}
            programs = {library: library.compile(ROOT / "examples" / "fft3d" / "fft3d.c", "-lm") for library in (mpi, *others.values())}
            arguments = [options.size, options.transforms, 2, 2, options.tests]

            def words(library, pattern):
                return [programs[library], pattern, *arguments]

            for pattern in options.patterns.split(","):
                rows = [(peer, library, words(library, pattern)) for peer, library in others.items()]
                rows += [(f"{peer} blocking", library, words(library, "blocking")) for peer, library in others.items()]
                row(mpi, Path(name), pattern, words(mpi, pattern), words(mpi, "blocking"), others=rows)
        finally:
            testbed.down()


if __name__ == "__main__":
    main()
