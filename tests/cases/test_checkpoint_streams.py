"""Standard input and output of jobs that are kept and made again: no byte is lost, none comes twice."""

import os
import shutil
import subprocess
import threading
import time

import pytest

from harness import Job
from keeping import PATIENCE, instants, keep, keep_and_stop, kill, restart, until_kept
from keeping_here import gate, place  # noqa: F401 (fixtures)


class Reader(threading.Thread):
    """Reads a pipe slowly: a number of bytes at a time, with pauses. `taken` holds the bytes."""

    def __init__(self, end, piece, pause):
        super().__init__(daemon=True)
        self.end, self.piece, self.pause, self.taken = end, piece, pause, b""
        self.start()

    def run(self):
        while bytes_read := os.read(self.end, self.piece):
            self.taken += bytes_read
            time.sleep(self.pause)
        os.close(self.end)

    def until(self, count):
        """Waits until this many bytes have come, or all."""
        while len(self.taken) < count and self.is_alive():
            time.sleep(0.002)

    def all(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.taken


def read_slowly(words, env, piece=4096, pause=0.002, **more):
    """Starts a job with a slow reader of its standard output."""
    reading, writing = os.pipe()
    job = Job(words, env, stdout=writing, **more)
    os.close(writing)
    return job, Reader(reading, piece, pause)


LINES = 20000


def test_a_slow_reader_gets_all_of_a_job_that_has_ended(mpi):
    """The last bytes wait in the pipes of ranks for longer than a second after these have ended."""
    program = mpi.compile("prints.c")
    expected = mpi.run(1, program, LINES).out
    words = mpi.command(1, program, LINES)
    job, reader = read_slowly(words, mpi.env, piece=16384, pause=0.1)
    outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and reader.all().decode() == expected


def test_output_is_neither_lost_nor_repeated(mpi, place):
    """Output before a checkpoint that ends the job comes from the job, and the remaining output from its
    restart."""
    chance = instants("output")
    program = mpi.compile("prints.c")
    expected = mpi.run(2, program, LINES).out.encode()
    assert len(expected) > 1_000_000
    for instant in range(int(os.environ.get("INSTANTS", 3))):
        shutil.rmtree(place, ignore_errors=True)
        words = mpi.command(2, program, LINES, options=["--checkpoint-dir", place])
        job, reader = read_slowly(words, mpi.env)
        reader.until(int(chance.random() * 0.6 * len(expected)))
        done = keep(mpi, job, "--stop")
        assert done.returncode == 0, (instant, done)
        outcome = job.wait(PATIENCE)
        assert outcome.status == 0 and not outcome.left, outcome
        before = reader.all()
        outcome = restart(mpi, place, job).wait(PATIENCE)
        assert outcome.status == 0, outcome
        both = before + outcome.out.encode()
        at = next((at for at, (one, other) in enumerate(zip(both, expected)) if one != other), len(expected))
        told = f"instant {instant}: {len(before)} bytes before, {len(both)} in all of {len(expected)}, differ at {at}"
        assert both == expected, told


# Reads numbers, one a line, waits for a file before the last, and prints their sum.
SUMS = """
import os, sys, time
total, last = 0, int(sys.argv[2])
for line in sys.stdin:
    number = int(line)
    total += number
    if number == last // 2:
        print("half", flush=True)
        while not os.path.exists(sys.argv[1]):
            time.sleep(0.005)
print("sum", total, flush=True)
"""
LAST = 20000


@pytest.fixture
def numbers(tmp_path):
    """Writes a program that adds its input, and a file of numbers. Returns both and the right result."""
    program, file = tmp_path / "sums.py", tmp_path / "numbers"
    program.write_text(SUMS)
    file.write_text("".join(f"{number}\n" for number in range(1, LAST + 1)))
    return program, file, f"sum {LAST * (LAST + 1) // 2}"


def begin(mpi, numbers, gate, stdin, *options):
    """The job, in the middle of its input."""
    words = mpi.command(1, "python3", numbers[0], gate.path, LAST, options=options)
    job = Job(words, mpi.env, stdin=stdin)
    assert job.until(lambda out, err: "half" in out, PATIENCE), job.errors()
    return job


def test_a_file_is_continued_where_the_job_has_read_it_to(mpi, place, gate, numbers):
    _, file, expected = numbers
    with file.open() as stdin:
        job = begin(mpi, numbers, gate, stdin)
        keep_and_stop(mpi, job, place)
    gate.open()
    with file.open() as stdin:
        outcome = restart(mpi, place, job, stdin=stdin).wait(PATIENCE)
    assert outcome.status == 0 and expected in outcome.out, outcome
    # The remaining input, once mpirun has reported the position of the input.
    with file.open() as stdin:
        record = restart(mpi, place, job).wait(PATIENCE)
        assert record.status == 2 and "bytes of its standard input" in record.err, record
        position = int(record.err.split(" had read ")[1].split()[0])
        stdin.seek(position)
        outcome = restart(mpi, place, job, "--restart-input", "rest", stdin=stdin).wait(PATIENCE)
    assert outcome.status == 0 and expected in outcome.out, outcome


def test_a_shorter_file_and_no_file_are_refused(mpi, place, gate, numbers, tmp_path):
    _, file, _ = numbers
    with file.open() as stdin:
        job = begin(mpi, numbers, gate, stdin)
        keep_and_stop(mpi, job, place)
    gate.open()
    (tmp_path / "short").write_text("1\n")
    with (tmp_path / "short").open() as stdin:
        outcome = restart(mpi, place, job, stdin=stdin).wait(PATIENCE)
    assert outcome.status == 2 and "the standard input has 2 bytes" in outcome.err, outcome
    outcome = restart(mpi, place, job).wait(PATIENCE)
    assert outcome.status == 2 and f"give mpirun that file again (< {file})" in outcome.err, outcome


def test_a_job_that_goes_on_by_itself_continues_its_input(mpi, place, gate, numbers):
    _, file, expected = numbers
    options = ["--checkpoint-dir", place, "--checkpoint-every", "0.1s", "--restart-on-failure", "1"]
    with file.open() as stdin:
        job = begin(mpi, numbers, gate, stdin, *options)
        until_kept(job, place)
        rank = subprocess.run(["pgrep", "-f", str(numbers[0])], capture_output=True, text=True).stdout.split()
        ranks = [int(pid) for pid in rank if open(f"/proc/{pid}/comm").read().strip() == "python3"]
        os.kill(ranks[-1], 9)
        assert job.until(lambda out, err: "the job goes on from checkpoint" in err, PATIENCE), job.errors()
        gate.open()
        outcome = job.wait(PATIENCE)
    assert outcome.status == 0 and expected in outcome.out, outcome


def feed(file):
    """Returns both ends of a pipe that contains all of a file and is not closed."""
    reading, writing = os.pipe()

    def write():
        try:
            os.write(writing, file.read_bytes())
        except BrokenPipeError:
            pass

    threading.Thread(target=write, daemon=True).start()
    return reading, writing


def test_a_pipe_that_was_read_in_part_is_refused(mpi, place, gate, numbers):
    _, file, _ = numbers
    reading, writing = feed(file)
    job = begin(mpi, numbers, gate, reading, "--checkpoint-dir", place)
    keep_and_stop(mpi, job, place)
    os.close(reading)
    os.close(writing)
    gate.open()
    with file.open() as stdin:
        outcome = restart(mpi, place, job, stdin=stdin).wait(PATIENCE)
    assert outcome.status == 2 and "from a pipe, which cannot be read again" in outcome.err, outcome


WAITS = """
import os, sys, time
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
print("got", sys.stdin.read(), flush=True)
"""


@pytest.mark.parametrize("what", ["unread", "ended"])
def test_a_pipe_that_was_not_read_or_has_ended_is_no_obstacle(mpi, place, gate, tmp_path, what):
    """Nothing was read: the restart has an input of its own. All was read: the restart finds the end."""
    program = tmp_path / "waits.py"
    first = "text = sys.stdin.read()\n" if what == "ended" else ""
    last = "print('got', text + sys.stdin.read(), flush=True)" if what == "ended" else WAITS.splitlines()[-1]
    program.write_text(WAITS.replace("print(\"up\"", first + "print(\"up\"").replace(WAITS.splitlines()[-1], last))
    reading, writing = os.pipe()
    os.write(writing, b"one\n")
    if what == "ended":
        os.close(writing)
    words = mpi.command(1, "python3", program, gate.path, options=["--checkpoint-dir", place])
    job = Job(words, mpi.env, stdin=reading)
    assert job.until(lambda out, err: "up" in out, PATIENCE), job.errors()
    keep_and_stop(mpi, job, place)
    gate.open()
    second, writing = os.pipe()
    os.write(writing, b"two\n")
    os.close(writing)
    outcome = restart(mpi, place, job, stdin=second).wait(PATIENCE)
    expected = "got one\n" if what == "ended" else "got two\n"
    assert outcome.status == 0 and expected in outcome.out, outcome


def test_a_program_may_open_its_input_by_name_too(mpi, place, gate, tmp_path):
    """Two open files of one name have two positions."""
    program, file = tmp_path / "twice.py", tmp_path / "lines"
    program.write_text("""
import os, sys, time
own = os.open(sys.argv[2], os.O_RDONLY)
os.read(own, 4)
os.read(0, 2)
print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
print("got", os.read(own, 1), os.read(0, 1), flush=True)
""")
    file.write_text("0123456789")
    with file.open() as stdin:
        job = Job(mpi.command(1, "python3", program, gate.path, file), mpi.env, stdin=stdin)
        assert job.until(lambda out, err: "up" in out, PATIENCE), job.errors()
        keep_and_stop(mpi, job, place)
    gate.open()
    with file.open() as stdin:
        outcome = restart(mpi, place, job, stdin=stdin).wait(PATIENCE)
    assert outcome.status == 0 and "got b'4' b'2'" in outcome.out, outcome
