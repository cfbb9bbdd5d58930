"""All shortest paths with a mishap: checkpoints by the clock, a host is lost, the job goes on by itself on
the others, the distances are the same. Where several hosts cannot be made on this machine (`tutti testbed`
takes root), a rank is killed.

usage: python checkpoint.py STAGE GRAPH [--hosts 2] [--ranks 2] [--every 0.5]      (STAGE: where Tutti is staged; GRAPH: from graph.py)

Draws what happened when: `=` computing, `#` ranks standing still for a checkpoint, `x` the kill, `>` made
again.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

COLUMNS = 72


def children(pid):
    """Returns the processes that the given one has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def distances(text):
    """Returns the result lines, which do not depend on time. Lines of times are left out."""
    return [line for line in text.splitlines() if re.search(r"\d", line) and not re.search(r"\bm?s\b|second", line)]


def watch(process, begun, events):
    """Records the messages of mpirun with their times."""
    for line in process.stderr:
        events.append((time.monotonic() - begun, line.strip()))


class Machine:
    """A place on this machine alone, where the mishap is the end of a rank."""

    hosts = 1

    def __init__(self, stage):
        self.stage = stage

    def mpirun(self, ranks):
        return [self.stage / "bin" / "mpirun", "-n", str(ranks)]

    def strike(self, process):
        """Causes the mishap. Returns false if there was no process to strike."""
        node = children(process.pid)
        if not node:
            return False
        os.kill(children(node[0])[0], signal.SIGKILL)
        return True

    def leave(self):
        """Removes the files of the run."""


class Testbed(Machine):
    """Hosts n0, n1, ... on this machine: the mishap is that the last one is lost."""

    def __init__(self, stage, hosts, folder):
        super().__init__(stage)
        self.hosts, self.name = hosts, f"asp-checkpoint-{os.getpid()}"
        shared = [word for place in (stage.resolve().parent.parent, folder) for word in ("--share", place)]
        self.act("up", "--with", os.getpid(), *shared, hosts)

    def act(self, action, *words):
        command = [str(word) for word in (self.stage / "bin" / "tutti", "testbed", action, "--name", self.name, *words)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def mpirun(self, ranks):
        agent = f"/run/tutti-testbed/{self.name}/agent"
        where = ",".join(f"n{host}:{-(-ranks // self.hosts)}" for host in range(self.hosts))
        on_first = [self.stage / "bin" / "tutti", "testbed", "exec", "--name", self.name, "n0"]
        return [*on_first, self.stage / "bin" / "mpirun", "--agent", agent, "--host", where, "-n", str(ranks)]

    def strike(self, process):
        lines = [line.split(" ", 2) for line in self.act("ps").splitlines()]
        pids = [int(pid) for host, pid, _ in lines if host == f"n{self.hosts - 1}"]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return bool(pids)

    def leave(self):
        self.act("down")


def machine(stage, hosts, folder):
    """So many hosts, or what there is."""
    if hosts > 1 and os.geteuid() == 0:
        try:
            return Testbed(stage, hosts, folder)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"several hosts cannot be made here: {getattr(error, 'stderr', error)}")
    return Machine(stage)


def run_with_mishap(command, delay, place):
    """Runs the job, has the mishap after so many seconds; output, and what was said when."""
    begun, events = time.monotonic(), []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watcher = threading.Thread(target=watch, args=(process, begun, events))
    watcher.start()
    out = []
    reader = threading.Thread(target=lambda: out.append(process.stdout.read()))
    reader.start()
    time.sleep(delay)
    if process.poll() is None and place.strike(process):
        events.append((time.monotonic() - begun, "killed"))
    status = process.wait()
    watcher.join()
    reader.join()
    if status:
        raise SystemExit(f"checkpoint: the job ended with {status}: {events}")
    return out[0], sorted(events), time.monotonic() - begun


def draw(events, seconds):
    """Draws the time line."""
    line = ["="] * COLUMNS
    column = lambda at: min(COLUMNS - 1, int(at / seconds * COLUMNS))
    for at, text in events:
        pause = re.search(r"stood still for ([\d.]+) s", text)
        if pause:
            for place in range(column(at - float(pause[1])), column(at) + 1):
                line[place] = "#"
    for at, text in events:
        if text == "killed":
            line[column(at)] = "x"
        elif "goes on from checkpoint" in text:
            line[column(at)] = ">"
    return "".join(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", type=Path)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--every", type=float, default=0.5)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tutti-checkpoint-"))
    place = machine(given.stage.resolve(), given.hosts, folder)
    try:
        program = folder / "asp"
        source = Path(__file__).with_name("asp.c")
        subprocess.run([given.stage / "bin" / "mpicc", "-O2", "-o", program, source], check=True)
        graph = shutil.copy(given.graph, folder)
        mpirun = place.mpirun(given.ranks)
        begun = time.monotonic()
        plain = subprocess.run([*mpirun, program, graph], capture_output=True, text=True, check=True)
        usual = time.monotonic() - begun
        options = ["--verbose", "--checkpoint-dir", folder / "sets", "--checkpoint-every", str(given.every)]
        options += ["--restart-on-failure", "3"]
        delay = max(0.6 * usual, 1.5 * given.every)
        out, events, seconds = run_with_mishap([*mpirun, *options, program, graph], delay, place)
        for at, text in events:
            if re.search("checkpoint|killed", text):
                print(f"{at:7.2f} s  {text}")
        print(f"   0 s  {draw(events, seconds)}  {seconds:.1f} s (without all of it {usual:.1f} s)")
        same = distances(out) == distances(plain.stdout) and distances(out)
        if not any(text == "killed" for _, text in events) or not any("goes on from checkpoint" in text for _, text in events):
            raise SystemExit("checkpoint: the job was over before it could be killed and go on: a larger graph is needed")
        print("the distances are the same" if same else f"the distances differ:\n{out}\n{plain.stdout}")
        raise SystemExit(0 if same else 1)
    finally:
        place.leave()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
