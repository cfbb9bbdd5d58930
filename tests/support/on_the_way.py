"""A proxy between two hosts: every TCP connection to some ports of a host passes through a program. The
program records the bytes and changes some of them as configured. A rule of nftables diverts the packets, so
the hosts do not notice."""

import contextlib
import select
import subprocess
from pathlib import Path

# Ports of a job's ranks, daemons and io-servers, and the port of the proxy between them.
PORTS = "42000-42099"
BETWEEN = 42999

RULES = f"""
table ip on_the_way {{
    chain into {{
        type nat hook prerouting priority dstnat;
        tcp dport {PORTS} redirect to :{BETWEEN}
    }}
}}
"""

# Arguments: the file of the record, the bytes that the changed connection begins with (hexadecimal), what is
# done there, behind how many bytes of a direction, and the text to look for (in the clear), if it is one.
PROGRAM = f"""
import select, socket, struct, sys, threading
record, mark, deed, behind, needle = open(sys.argv[1], "ab", 0), bytes.fromhex(sys.argv[2]), *sys.argv[3:6]
behind, needle, lock, done = int(behind), needle.encode(), threading.Lock(), []

def change(data, passed):
    if done or deed == "nothing" or passed + len(data) <= behind: return data
    at = max(0, behind - passed)
    if needle:
        at = data.find(needle, at)
        if at < 0: return data
        at += 3
    if at >= len(data): return data
    with lock:
        if done: return data
        done.append(deed)
    print("changed", flush=True)
    if deed == "flip": return data[:at] + bytes([data[at] ^ 4]) + data[at + 1:]
    if deed == "insert": return data[:at] + b"LIE!!" + data[at:]
    if deed == "repeat": return data + data
    if deed == "drop": return b""
    if deed == "cut": return None

def relay(one, other):
    passed, marked = [0, 0], False
    ends = [one, other]
    while True:
        ready, _, _ = select.select(ends, [], [])
        for end in ready:
            side = ends.index(end)
            try: data = end.recv(65536)
            except OSError: data = b""
            is_over, count = not data, len(data)
            if side == 0 and passed[0] == 0: marked = data.startswith(mark)
            record.write(data)
            if marked and data: data = change(data, passed[side])
            passed[side] += count
            try:
                if is_over or data is None: raise OSError
                ends[1 - side].sendall(data)
            except OSError:
                for end in ends: end.close()
                return

def meet(one):
    level, option = socket.SOL_IP, 80  # SO_ORIGINAL_DST
    port, host = struct.unpack("!2xH4s8x", one.getsockopt(level, option, 16))
    try: other = socket.create_connection((socket.inet_ntoa(host), port))
    except OSError: return one.close()
    for end in (one, other): end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    relay(one, other)

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("0.0.0.0", {BETWEEN})); listener.listen(128)
print("there", flush=True)
while True:
    threading.Thread(target=meet, args=(listener.accept()[0],), daemon=True).start()
"""

# Records all that comes and goes on an interface. Arguments: the interface, the file.
TAP = """
import socket, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
tap.bind((sys.argv[1], 0))
record = open(sys.argv[2], "ab", 0)
print("there", flush=True)
while True: record.write(tap.recv(65536))
"""


class OnTheWay:
    """Stands in front of hosts of a testbed, and changes one connection of those that begin with `mark`."""

    def __init__(self, testbed, hosts, folder):
        self.testbed, self.hosts, self.record = testbed, hosts, Path(folder) / "record"
        self.programs = []

    def rules(self, host, text, check=True):
        words = [str(word) for word in self.testbed.on(host, "nft", "-f", "-")]
        subprocess.run(words, input=text, text=True, check=check, timeout=60, capture_output=True)

    @contextlib.contextmanager
    def changing(self, mark, deed, behind=0, needle=""):
        """While it lasts."""
        self.record.unlink(missing_ok=True)
        try:
            for host in self.hosts:
                words = ["python3", "-c", PROGRAM, self.record, mark.hex(), deed, behind, needle]
                self.begin(host, words)
                self.rules(host, RULES)
            yield self
        finally:
            for host in self.hosts:
                self.rules(host, "delete table ip on_the_way", check=False)
            self.end()

    @contextlib.contextmanager
    def listening(self, host):
        """Records all that passes a host's interface, while it lasts."""
        self.record.unlink(missing_ok=True)
        try:
            self.begin(host, ["python3", "-c", TAP, "eth0", self.record])
            yield self
        finally:
            self.end()

    def begin(self, host, words):
        words = [str(word) for word in self.testbed.on(host, *words)]
        program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.programs.append(program)
        ready, _, _ = select.select([program.stdout], [], [], 30)
        assert ready and program.stdout.readline() == "there\n", program.stderr.read() if ready else "it is not there"

    def has_changed(self):
        """Returns true if one of the programs has made its change."""
        ready, _, _ = select.select([program.stdout for program in self.programs], [], [], 5)
        return any("changed" in stdout.readline() for stdout in ready)

    def end(self):
        for program in self.programs:
            program.kill()
            program.communicate()
        self.programs.clear()
