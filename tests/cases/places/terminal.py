"""Runs a command on a terminal of its own and passes on its output.

`terminal.py freeze SECONDS COMMAND...` stops the terminal with Ctrl-S for this time. `terminal.py hangup
COMMAND...` closes the terminal once the command has written something.
"""

import os
import pty
import select
import signal
import sys
import time


def relay(master, until):
    """Passes on output until that time, or its end; whether it has ended."""
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([master], [], [], left)
        if ready:
            try:
                data = os.read(master, 65536)
            except OSError:
                return True
            if not data:
                return True
            os.write(1, data)
    return False


def main():
    how, *words = sys.argv[1:]
    seconds = float(words.pop(0)) if how == "freeze" else 0
    child, master = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.execvp(words[0], words)
    if how == "freeze":
        os.write(master, b"\x13")
        time.sleep(seconds)
        os.write(master, b"\x11")
        relay(master, time.monotonic() + 60)
    else:
        select.select([master], [], [], 30)
        os.close(master)
    _, status = os.waitpid(child, 0)
    sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


main()
