"""Measures checkpoints (`make checkpoint-figures`): each figure with what it is held against in the same run,
in turn, the median of several.

usage: python checkpoint_figures.py [--only pause,phases] [--rounds 7] [--folder DIR] [--runs FILE]

`--folder` is where sets are written: on the disk that is to be measured. `--runs` keeps the phases as lines
for `tutti sim checkpoint --runs`.
"""

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import Job, Mpi
from hosts import Cluster, Testbed, refusal
from keeping import PATIENCE, command, keep
from keeping_hosts import keep as keep_there

MEGABYTES = 256
# Hosts and ranks of which phases are measured.
PLACES = [(1, 2), (1, 4), (1, 8), (1, 16), (1, 32), (2, 8), (4, 8), (8, 8), (2, 32), (4, 32), (8, 32)]
NAMES = "prepare", "freeze", "drain", "thaw"


class Holding:
    """A job that holds memory until it is let go."""

    def __init__(self, mpi, folder, ranks=2, megabytes=MEGABYTES, writing="still"):
        self.mpi, self.folder, self.sets, self.gate = mpi, folder, folder / "sets", folder / "gate"
        for left in (self.gate, folder / "gate.change"):
            left.unlink(missing_ok=True)
        shutil.rmtree(self.sets, ignore_errors=True)
        options = ["-v", "--checkpoint-dir", self.sets]
        self.job = mpi.begin(ranks, mpi.compile("figures.c"), "hold", megabytes, self.gate, options=options,
                             env={"TUTTI_CHECKPOINT_WRITING": writing})
        assert self.job.until(lambda out, err: "ready" in out, PATIENCE), self.job.errors()

    def keep(self, *options):
        """Takes a checkpoint and returns the message of mpirun."""
        done = keep(self.mpi, self.job, *options)
        assert done.returncode == 0, done
        return done.stdout

    def bytes_of(self, number):
        return sum(file.stat().st_size for file in (self.sets / str(number)).iterdir())

    def end(self):
        self.gate.touch()
        assert self.job.wait(PATIENCE).status == 0


def stood(text):
    return float(re.search(r"stood still for ([\d.]+) s", text).group(1))


def timed(words):
    begun = time.monotonic()
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
    return time.monotonic() - begun


def show(name, value, limit, more=""):
    print(f"{name:52} {value:>10}   {limit:12} {more}", flush=True)


def pause(mpi, folder, rounds):
    """Measures how long ranks stand still, divided by the time of dd with fsync for the same bytes. Both ways
    of writing are measured: all at once, and by copies (fork)."""
    for writing in "still", "fork":
        pause_of(mpi, folder, rounds, writing)


def pause_of(mpi, folder, rounds, writing):
    ratios, pauses, copies = [], [], []
    for _ in range(rounds):
        held = Holding(mpi, folder, writing=writing)
        pauses.append(stood(held.keep()))
        source = sorted((held.sets / "1").iterdir(), key=lambda file: -file.stat().st_size)[0]
        total = held.bytes_of(1)
        held.end()
        copy = folder / "copy"
        words = ["dd", f"if={source}", f"of={copy}", "bs=4M", "conv=fsync"]
        copies.append(timed(words) * total / source.stat().st_size)
        copy.unlink()
        ratios.append(pauses[-1] / copies[-1])
    show(f"pause ({writing}) / dd with fsync", f"{statistics.median(ratios):.2f}", "at most 1.1",
         f"{statistics.median(pauses):.3f} s / {statistics.median(copies):.3f} s, {total / 1e6:.0f} MB")


def packing(mpi, folder, rounds):
    """Measures the size of a packed set of a field of numbers, divided by that of an unpacked one, and both
    pauses."""
    program, found = mpi.compile("figures.c"), {}
    for _ in range(min(rounds, 3)):
        for packed in "never", "always":
            sets, gate = folder / "sets", folder / "gate"
            gate.unlink(missing_ok=True)
            shutil.rmtree(sets, ignore_errors=True)
            env = {"TUTTI_CHECKPOINT_PACKING": packed, "TUTTI_CHECKPOINT_WRITING": "still"}
            job = mpi.begin(2, program, "field", MEGABYTES, gate, options=["--checkpoint-dir", sets], env=env)
            assert job.until(lambda out, err: "ready" in out, PATIENCE), job.errors()
            pause_s = stood(keep(mpi, job).stdout)
            size = sum(file.stat().st_size for file in (sets / "1").iterdir())
            found.setdefault(packed, []).append((size, pause_s))
            gate.touch()
            assert job.wait(PATIENCE).status == 0
    size, pause_s = ({packed: statistics.median(one[which] for one in ones) for packed, ones in found.items()}
                     for which in (0, 1))
    show("bytes of a field, packed / as it is", f"{size['always'] / size['never']:.2f}", "",
         f"{size['never'] / 1e6:.0f} MB, pause {pause_s['always']:.2f} s / {pause_s['never']:.2f} s")


def changed(mpi, folder, rounds):
    """Measures how much a second set writes after a twentieth of memory has changed."""
    shares = []
    for _ in range(min(rounds, 3)):
        held = Holding(mpi, folder)
        held.keep()
        (folder / "gate.change").touch()
        assert held.job.until(lambda out, err: "changed" in out, PATIENCE), held.job.errors()
        held.keep()
        shares.append(held.bytes_of(2) / held.bytes_of(1))
        held.end()
    show("bytes written when 5 % have changed", f"{statistics.median(shares) * 100:.1f} %", "at most 10 %")


def drop_caches(mpi):
    subprocess.run(["sync"], check=True)
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        pass
    # Start-up costs that both sides need anyway.
    command(mpi, "--version")
    mpi.run(1, "true")


def restart(mpi, folder, rounds):
    """Measures the time from mpirun until ranks continue, divided by the time of reading their files."""
    held = Holding(mpi, folder)
    held.keep("--stop")
    assert held.job.wait(PATIENCE).status == 0
    held.gate.touch()
    files = sorted((held.sets / "1").iterdir())
    ratios, made, read = [], [], []
    for _ in range(rounds):
        drop_caches(mpi)
        read.append(sum(timed(["dd", f"if={file}", "of=/dev/null", "bs=4M"]) for file in files))
        drop_caches(mpi)
        begun = time.monotonic()
        job = Job([mpi.mpirun, "--restart", held.sets], mpi.env, mark=held.job.mark)
        assert job.until(lambda out, err: "goes on" in out, PATIENCE), job.errors()
        made.append(time.monotonic() - begun)
        outcome = job.wait(PATIENCE)
        assert outcome.status == 0, outcome
        ratios.append(made[-1] / read[-1])
    show("restart / reading the files", f"{statistics.median(ratios):.2f}", "at most 1.3",
         f"{statistics.median(made):.3f} s / {statistics.median(read):.3f} s")


def idle(mpi, folder, rounds):
    """Measures what the option costs while no checkpoint is taken."""
    program = mpi.compile("figures.c")
    shutil.rmtree(folder / "sets", ignore_errors=True)
    options = ["--checkpoint-dir", folder / "sets", "--checkpoint-every", "10h"]
    found = {True: [], False: []}
    for _ in range(rounds):
        for has_option in (False, True):
            outcome = mpi.run(2, program, "latency", 20000, options=options if has_option else ())
            assert outcome.status == 0, outcome
            found[has_option].append([float(word) for word in re.findall(r"[\d.]+", outcome.out)])
    for which, name in enumerate(("latency of 8 B", "allreduce of 8 B")):
        ratios = [one[which] / other[which] for one, other in zip(found[True], found[False])]
        plain = statistics.median(other[which] for other in found[False])
        ratio = f"{statistics.median(ratios):.3f}"
        show(f"{name} with the option / without", ratio, "at most 1.02", f"{plain:.3f} us")


def often(mpi, folder, rounds):
    """Measures what checkpoints cost besides their pauses, as a share of a minute each."""
    program, costs = mpi.compile("figures.c"), []
    for _ in range(min(rounds, 3)):
        took = {}
        for every in (None, "2s"):
            shutil.rmtree(folder / "sets", ignore_errors=True)
            options = ["-v", "--checkpoint-dir", folder / "sets", "--checkpoint-every", every]
            options = options if every else []
            outcome = mpi.run(2, program, "work", 1500, options=options)
            assert outcome.status == 0, outcome
            pauses = [float(text) for text in re.findall(r"stood still for ([\d.]+) s", outcome.err)]
            took[every] = float(re.search(r"seconds ([\d.]+)", outcome.out).group(1)) - sum(pauses)
        costs.append((took["2s"] - took[None]) / max(1, len(pauses)) / 60)
    show("a checkpoint a minute, beside its pause", f"{statistics.median(costs) * 100:.2f} %", "at most 1 %",
         f"{len(pauses)} in a run of {took[None]:.1f} s")


def phases_of(text):
    found = dict(re.findall(r"(\w+) ([\d.]+)(?=[,) ])", text[text.index("(prepare"):]))
    return [float(found.get(name, 0)) for name in NAMES]


def phases(mpi, folder, rounds, lines):
    """Measures how long all hosts take to stop and to continue together."""
    why = refusal()
    testbed = None if why else Testbed(8, share=[folder])
    found = {}
    for hosts, ranks in PLACES if testbed else [place for place in PLACES if place[0] == 1]:
        sets, gate = folder / "sets", folder / "gate"
        gate.unlink(missing_ok=True)
        shutil.rmtree(sets, ignore_errors=True)
        where = Cluster(mpi.name, testbed, ranks // hosts) if hosts > 1 else mpi
        options = ["-v", "--checkpoint-dir", sets]
        job = where.begin(ranks, mpi.compile("figures.c"), "hold", 1, gate, options=options)
        assert job.until(lambda out, err: "ready" in out, PATIENCE), job.errors()
        ask = keep_there if hosts > 1 else keep
        taken = [phases_of(ask(where, job).stdout) for _ in range(rounds)]
        gate.touch()
        assert job.wait(PATIENCE).status == 0
        found[hosts, ranks] = [statistics.median(one[which] for one in taken) for which in range(4)]
        line = f"{hosts} {ranks} " + " ".join(f"{time_ms:.1f}" for time_ms in found[hosts, ranks])
        lines.append(line)
        print(f"  hosts, ranks, ms of prepare, freeze, drain, thaw: {line}", flush=True)
    if testbed:
        testbed.down()
    ratio = sum(found[1, 32][1:]) / sum(found[1, 8][1:])
    show("freeze, drain and thaw of 32 ranks / of 8, one host", f"{ratio:.1f}", "at most 5")
    if (8, 32) in found:
        ratio = sum(found[8, 32][1:]) / sum(found[8, 8][1:])
        show("the same on eight hosts", f"{ratio:.1f}", "at most 5")


FIGURES = {"pause": pause, "packing": packing, "changed": changed, "restart": restart, "idle": idle,
           "often": often}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=",".join([*FIGURES, "phases"]))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    mpi = Mpi("tutti")
    folder = Path(tempfile.mkdtemp(prefix="tutti-figures-", dir=options.folder))
    try:
        for name in options.only.split(","):
            if name == "phases":
                lines = []
                phases(mpi, folder, options.rounds, lines)
                if options.runs:
                    options.runs.write_text("".join(f"{line}\n" for line in lines))
            else:
                FIGURES[name](mpi, folder, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
