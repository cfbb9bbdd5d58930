"""Jobs that are started at a terminal: which process reads it, the effect of its keys, and the remains when
it closes. Also the Unix session of the ranks."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import termios
import time
import uuid
from pathlib import Path

import pytest

from harness import MARK, Job, end, marked
from jobs import gone, pids, waiting


class Terminal:
    """A shell with job control at a terminal, and a user who types."""

    def __init__(self, env):
        self.mark = uuid.uuid4().hex
        self.master, slave = pty.openpty()
        environment = {**env, MARK: self.mark, "PS1": "ready> ", "TERM": "dumb"}
        environment.pop("PROMPT_COMMAND", None)

        def take_terminal():
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP):
                signal.signal(number, signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noediting", "-i"], env=environment, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=take_terminal)
        os.close(slave)
        os.set_blocking(self.master, False)
        self.text = ""

    def type(self, text):
        """Types, as it stands."""
        os.write(self.master, text.encode())

    def until(self, pattern, seconds=20):
        """Waits for a text after the last one that was waited for, and returns the match."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            try:
                self.text += os.read(self.master, 1 << 16).decode(errors="replace").replace("\r", "")
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
            if found := re.search(pattern, self.text):
                self.text = self.text[found.end():]
                return found
        raise AssertionError(f"no {pattern!r} in {self.text!r}")

    def hang_up(self):
        """Takes the terminal away."""
        os.close(self.master)
        self.master = None

    def left(self, seconds=20):
        """Waits up to this many seconds until no process is left, and returns the remaining ones, including
        the shell."""
        limit = time.monotonic() + seconds
        while (left := marked(self.mark)) and time.monotonic() < limit:
            self.shell.poll()
            time.sleep(0.02)
        return left


@pytest.fixture
def terminal(tutti):
    """Starts a shell at a terminal."""
    made = Terminal(tutti.env)
    made.until("ready> ")
    yield made
    end(made.mark)
    made.shell.wait()
    if made.master is not None:
        os.close(made.master)


def field(pid, number):
    """Returns a field of /proc/PID/stat, counted as in proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[number - 3]


def comes_to(state, processes, seconds=10):
    """Returns true if all of the processes reach this state."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if all(field(pid, 3) in state for pid in processes):
            return True
        time.sleep(0.02)
    return False


def ranks(terminal, count):
    """Returns the processes of `job wait`, once all of them have printed their numbers."""
    found = [terminal.until(r"pid (\d+) \d+\n") for _ in range(count)]
    return [int(one[1]) for one in found]


def test_all_ranks_of_a_host_have_one_session_that_is_not_mpiruns(tutti, job):
    running = waiting(tutti, job, 3)
    found = list(pids(running.output()).values())
    sessions = {int(field(pid, 6)) for pid in found}
    groups = {int(field(pid, 5)) for pid in found}
    parents = {int(field(pid, 4)) for pid in found}
    running.process.terminate()
    gone(running.wait(20))
    assert groups == set(found), "each rank has a process group"
    assert sessions == parents and sessions != {running.process.pid}, sessions
    # The harness starts mpirun as the leader of a session.
    assert len(sessions) == 1


def test_what_ranks_start_stays_in_their_session(tutti):
    program = tutti.compile("session.c")
    outcome = tutti.run(2, program)
    gone(outcome)
    said = re.findall(r"(rank|spawned) pid \d+ group \d+ session (\d+)", outcome.out)
    assert sorted(who for who, _ in said) == ["rank", "rank", "spawned"], str(outcome)
    assert len({session for _, session in said}) == 1, str(outcome)


def test_a_nice_job_is_nice_to_other_sessions(tutti, job):
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel does not share processors by session")
    for nice in (0, 5):
        running = Job(["nice", "-n", str(nice), *tutti.command(1, job, "wait")], tutti.env)
        assert running.until(lambda out, _: len(pids(out)) == 1), running.errors()
        shown = Path(f"/proc/{pids(running.output())[0]}/autogroup").read_text()
        running.process.terminate()
        gone(running.wait(20))
        assert shown.split()[-2:] == ["nice", str(nice)], shown


def test_keys_go_to_rank_0_and_ranks_have_no_terminal(tutti, job, terminal):
    program = tutti.compile("session.c")
    terminal.type(f"{tutti.mpirun} -n 2 {program} alone\n")
    for _ in range(2):
        assert terminal.until(r"rank pid .* terminal (\w+)\n")[1] == "none"
    terminal.until("ready> ")
    terminal.type(f"{tutti.mpirun} -n 2 {job} cat\n")
    terminal.type("some words\n\x04")
    # The terminal's echo, and the input of rank 0.
    terminal.until(r"some words\n(.*\n)*?some words\n")
    terminal.until("ready> ")
    terminal.type("echo $?\n")
    terminal.until(r"\n0\n")


def test_the_interrupt_key_ends_the_job(tutti, job, terminal):
    terminal.type(f"{tutti.mpirun} -n 2 {job} wait\n")
    found = ranks(terminal, 2)
    terminal.type("\x03")
    terminal.until("ready> ")
    terminal.type("echo status $?\n")
    assert terminal.until(r"\nstatus (\d+)\n")[1] == "130"
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


def test_the_stop_key_stops_the_job_and_fg_and_bg_go_on(tutti, job, terminal):
    terminal.type(f"{tutti.mpirun} -n 2 {job} wait\n")
    found = ranks(terminal, 2)
    for command in ("fg", "bg"):
        terminal.type("\x1a")
        terminal.until("Stopped")
        terminal.until("ready> ")
        assert comes_to("T", found)
        terminal.type(f"{command}\n")
        assert comes_to("RS", found)
    terminal.until("ready> ")
    terminal.type("kill %1; wait\n")
    terminal.until("ready> ")
    assert not any(Path(f"/proc/{pid}").exists() for pid in found)


def test_a_job_in_the_background_leaves_the_terminal_alone(tutti, job, terminal):
    terminal.type(f"{tutti.mpirun} -n 2 {job} cat &\n")
    terminal.until("ready> ")
    time.sleep(1)
    terminal.type("echo mine $((1 + 1))\n")
    terminal.until("mine 2\n")
    terminal.type("jobs\n")
    terminal.until("Running")
    terminal.type("fg\n")
    terminal.until("cat\n")
    # mpirun looks every 300 ms whether it is in the foreground.
    terminal.type("for the job\n\x04")
    terminal.until(r"for the job\n(.*\n)*?for the job\n")
    terminal.until("ready> ")


@pytest.mark.parametrize("how", ["foreground", "background", "stopped"])
def test_a_terminal_that_goes_takes_the_job_along(tutti, job, terminal, how):
    terminal.type(f"{tutti.mpirun} -n 2 {job} wait{' &' if how == 'background' else ''}\n")
    found = ranks(terminal, 2)
    if how == "stopped":
        terminal.type("\x1a")
        terminal.until("Stopped")
        assert comes_to("T", found)
    terminal.hang_up()
    assert terminal.left() == []
