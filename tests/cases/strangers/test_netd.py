"""`tutti netd` and other users: no other process can take its place, and no user can block it for others."""

import shutil
import subprocess
from pathlib import Path

import pytest

from daemons import Daemons
from hosts import Cluster
from strangers import A, B, LINGERING, PYTHON, as_user, stranger

# These tests share the two users and netd's directory, so they do not run beside others.
pytestmark = pytest.mark.alone

DIRECTORY = Path("/run/tutti-netd")


@pytest.fixture
def cluster(users, tutti, hosts):
    return Cluster(tutti.name, hosts(2), 1)


@pytest.fixture
def netd(cluster):
    daemons = Daemons(cluster.testbed)
    yield daemons
    daemons.end()


@pytest.fixture
def no_service():
    """Restores the machine to its state before an administrator has started netd."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    yield
    shutil.rmtree(DIRECTORY, ignore_errors=True)


# A netd that gives wrong results: every block of every operation is 424242. The program listens at every
# possible address.
LIAR = """
import socket, struct, os, mmap, array, threading, time, sys
RULES = EVENTS = 32; GROUPS = 8; PROGRAMS = 36; CHANNELS = 32; AREAS = 16; STRIDE = 40; AREA = 512
SIZES = [GROUPS * PROGRAMS * RULES * 8, GROUPS * PROGRAMS * EVENTS * 8, GROUPS * CHANNELS * STRIDE, GROUPS * CHANNELS * AREAS * AREA, 88]
up = lambda n: (n + 4095) // 4096 * 4096
lie = struct.pack("<q", 424242)
def fill(fds):
    record, area = mmap.mmap(fds[2], up(SIZES[2])), mmap.mmap(fds[3], up(SIZES[3]))
    for at in range(0, SIZES[3], 8): area[at:at + 8] = lie
    while True:
        for number in range(GROUPS * CHANNELS):
            wanted, done = (struct.unpack_from("<I", record, number * STRIDE + at)[0] for at in (28, 20))
            if wanted and wanted != done:
                struct.pack_into("<I", record, number * STRIDE + 4, wanted); struct.pack_into("<I", record, number * STRIDE + 20, wanted)
        time.sleep(0.0005)
def serve(one):
    slot = 0
    while True:
        try: data, *_ = one.recvmsg(4096, socket.CMSG_SPACE(32))
        except OSError: return
        if not data: return
        print("asked", flush=True)
        if data[0] == 1:
            fds = [os.memfd_create("t") for _ in SIZES]
            for fd, size in zip(fds, SIZES): os.ftruncate(fd, up(size))
            threading.Thread(target=fill, args=(fds,), daemon=True).start()
            one.sendmsg([b"\\0" + struct.pack("<I", 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        elif data[0] == 2:
            one.send(b"\\0" + struct.pack("<I", slot)); slot += 1
        else: one.send(b"\\0\\0\\0\\0\\0" + b"0 jobs of this host have programs in the kernel")
def listen(address):
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); one.bind(address); one.listen(64)
    while True: threading.Thread(target=serve, args=(one.accept()[0],), daemon=True).start()
def at(address):
    threading.Thread(target=listen, args=(address,), daemon=True).start()
for number in range(1, 6): at(b"\\0tutti-netd-%d" % number); at(b"\\0netd-%d" % number)
boot = open("/proc/sys/kernel/random/boot_id").read()[:8]
name = f"{boot}-{os.stat('/proc/self/ns/net').st_ino}-netd-3"
for folder in sys.argv[1:]:
    try: os.makedirs(folder, exist_ok=True); at(os.path.join(folder, name))
    except OSError as error: print(folder, type(error).__name__, file=sys.stderr)
time.sleep(0.2)
print("there", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("places", [[], ["/run/tutti-netd"], ["/tmp/tutti-netd"]])
def test_a_stranger_in_the_place_of_netd_is_not_asked(cluster, no_service, places):
    program = cluster.compile(Path(__file__).with_name("sums.c"), name="strangers_sums")
    on = cluster.testbed.on
    with stranger(LIAR, *places, prefix=on("n0")) as first, stranger(LIAR, *places, prefix=on("n1")) as second:
        outcome = cluster.run(2, program)
        assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)
        told = subprocess.run([str(word) for word in on("n0", cluster.prefix / "bin" / "tutti", "info")], capture_output=True, text=True)
        assert "no `tutti netd` runs on this host" in told.stdout, told
        for liar in (first, second):
            liar.kill()
            assert liar.communicate()[0] == "", "it was asked"


def test_root_believes_the_owner_of_the_directory_alone(cluster, no_service):
    """An administrator names a user by giving him the directory; another one there is not believed."""
    program = cluster.compile(Path(__file__).with_name("sums.c"), name="strangers_sums")
    subprocess.run(["install", "-d", "-m", "777", "-o", str(A), DIRECTORY], check=True)
    on = cluster.testbed.on
    with stranger(LIAR, DIRECTORY, prefix=on("n0")) as liar, stranger(LIAR, DIRECTORY, prefix=on("n1")):
        outcome = cluster.run(2, program, env={"TUTTI_OFFLOAD": "on"})
        assert outcome.status != 0 and "that others cannot write" in outcome.err, str(outcome)
        DIRECTORY.chmod(0o755)
        outcome = cluster.run(2, program, env={"TUTTI_OFFLOAD": "on"})
        assert outcome.status != 0 and f"a process of user {B} has taken the name" in outcome.err, str(outcome)
        liar.kill()
        assert liar.communicate()[0] == "", "it was asked"


def test_memory_that_is_no_table_is_refused(cluster, no_service):
    """The memory comes from a user whom the administrator has named. Ranks check it nevertheless."""
    program = cluster.compile(Path(__file__).with_name("sums.c"), name="strangers_sums")
    subprocess.run(["install", "-d", "-m", "755", "-o", str(B), DIRECTORY], check=True)
    with stranger(LIAR, DIRECTORY, prefix=cluster.testbed.on("n0")), stranger(LIAR, DIRECTORY, prefix=cluster.testbed.on("n1")):
        outcome = cluster.run(2, program, env={"TUTTI_EXPLAIN": "1"})
        assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)
        assert "no table of its program" in outcome.err, str(outcome)


def test_only_an_administrator_starts_netd(cluster, no_service):
    """A user who starts netd, as setcap on the program would permit, is refused: no directory to listen in
    exists."""
    command = cluster.testbed.on("n0", *as_user(B, cluster.prefix / "bin" / "tutti", "netd"))
    refused = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    assert refused.returncode != 0 and "an administrator makes it" in refused.stderr, refused


# Functions for programs that talk to netd. `connect()` opens a connection; `ask(connection, bytes, sockets)`
# returns an answer and descriptors.
ASK = LINGERING + """
boot = open("/proc/sys/kernel/random/boot_id").read()[:8]
def connect(network=None):
    name = f"/run/tutti-netd/{boot}-{network or os.stat('/proc/self/ns/net').st_ino}-netd-3"
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); one.settimeout(20); one.connect(name)
    return one
def answer(one):
    data, control, *_ = one.recvmsg(4096, socket.CMSG_SPACE(64))
    got = array.array("i")
    for _, _, part in control: got.frombytes(part[:len(part) // 4 * 4])
    return data, list(got)
def ask(one, data, sockets=()):
    pass_on(one, data, sockets) if sockets else one.send(data)
    return answer(one)
def begin(number, address): return b"\\1" + struct.pack("<I", number) + b"k" * 16 + socket.inet_aton(address)
def datagrams(address):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); one.bind((address, 0)); return one
def says(answer): return answer[0][5:].decode() if answer[0][:1] == b"\\1" else "granted"
"""


def on_host(cluster, code, *arguments, user=B, before=()):
    """Runs a program as a user on the first host and returns the lines that it prints."""
    words = cluster.testbed.on("n0", *before, *as_user(user, PYTHON, "-c", ASK + code, *arguments))
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def address(cluster):
    told = subprocess.run([str(word) for word in cluster.testbed.on("n0", "ip", "-4", "-o", "addr", "show", "dev", "eth0")],
                          capture_output=True, text=True, check=True)
    return told.stdout.split()[3].split("/")[0]


STATUS = "print(ask(connect(), b'\\0')[0][5:].decode())"


def test_descriptors_that_hang_stop_nobody(cluster, netd):
    code = """
for number in range(8):
    one = connect()
    # With a question, with nonsense, and in the queue of a connection that ends.
    hang(one, [b"\\0", b"\\7", begin(5, "127.0.0.1")][number % 3], b"\\0")
    kept.append(one) if number % 2 else one.close()
print("there", flush=True)
time.sleep(1000)
"""
    with stranger(ASK + code, prefix=cluster.testbed.on("n0")):
        assert on_host(cluster, STATUS, user=A) == ["0 jobs of this host have programs in the kernel"]
        program = cluster.compile(Path(__file__).with_name("sums.c"), name="strangers_sums")
        outcome = cluster.run(2, program, env={"TUTTI_OFFLOAD": "on"})
        assert outcome.status == 0 and "ok" in outcome.out.split(), str(outcome)


def test_silent_connections_shut_nobody_out(cluster, netd):
    code = """
for number in range(300):
    try: kept.append(connect())
    except OSError: break
print("there", flush=True)
time.sleep(1000)
"""
    with stranger(ASK + code, prefix=cluster.testbed.on("n0")):
        assert on_host(cluster, STATUS, user=A) == ["0 jobs of this host have programs in the kernel"]


def test_programs_are_counted_for_each_user(cluster, netd):
    code = """
said = []
for number in range(14):
    one = connect()
    said.append(says(ask(one, begin(number, sys.argv[1]), [datagrams(sys.argv[1])])))
    kept.append(one)
print(said.count("granted"), *set(said) - {"granted"}, sep="\\n")
"""
    assert on_host(cluster, code, address(cluster)) == ["12", f"12 jobs of user {B} have programs, and no more are loaded"]


def test_a_program_goes_with_its_connection(cluster, netd):
    """Also if its attachments are kept."""
    code = """
places = lambda fds: [line.split()[1] for fd in fds for line in open(f"/proc/self/fdinfo/{fd}") if line.startswith("ifindex")]
for number in range(14):
    one = connect()
    said, fds = ask(one, begin(number, sys.argv[1]), [datagrams(sys.argv[1])])
    assert said[:1] == b"\\0" and "0" not in places(fds), (said, places(fds))
    one.close()
    kept.append(fds)
for _ in range(1000):
    left = [place for fds in kept for place in places(fds) if place != "0"] if kept else []
    if not left: break
    time.sleep(0.01)
print(len(left), sum(len(places(fds)) for fds in kept))
"""
    assert on_host(cluster, code, address(cluster)) == ["0 28"]


def test_a_socket_of_another_kind_or_network_is_refused(cluster, netd):
    code = """
tcp = socket.socket(); tcp.bind((sys.argv[1], 0))
print(says(ask(connect(), begin(1, sys.argv[1]), [tcp])))
print(says(ask(connect(), begin(2, sys.argv[1]), [datagrams(sys.argv[1]), datagrams(sys.argv[1])])))
print(says(ask(connect(), begin(3, sys.argv[1]), [datagrams("127.0.0.1")])))
"""
    at = address(cluster)
    kind, several, elsewhere = on_host(cluster, code, at)
    assert kind == "the rank lends no socket for datagrams of this host"
    assert several == "the rank lends no socket, or several" and f"is at 127.0.0.1, not at {at}" in elsewhere
    network = on_host(cluster, "print(os.stat('/proc/self/ns/net').st_ino)", user=0)[0]
    code = """
import subprocess
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
subprocess.run(["ip", "addr", "add", sys.argv[1] + "/32", "dev", "lo"], check=True)
print(says(ask(connect(sys.argv[2]), begin(1, sys.argv[1]), [datagrams(sys.argv[1])])))
"""
    inside = ["unshare", "--net", PYTHON, "-c", ASK + code, at, network]
    done = subprocess.run([str(word) for word in cluster.testbed.on("n0", *inside)], capture_output=True, text=True, timeout=60)
    assert done.stdout == "the rank lends no socket for datagrams of this host\n", done


# Rules by which two hosts ask each other for what neither has. `tag` is SipHash-2-4 with 128 bits.
LOOP = """
import mmap
KEY = b"k" * 16
def rotate(x, by): return (x << by | x >> 64 - by) & (1 << 64) - 1
def tag(data):
    k = struct.unpack("<QQ", KEY)
    v = [k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d ^ 0xee, k[0] ^ 0x6c7967656e657261, k[1] ^ 0x7465646279746573]
    def rounds(count):
        m = (1 << 64) - 1
        for _ in range(count):
            v[0] = v[0] + v[1] & m; v[2] = v[2] + v[3] & m; v[1] = rotate(v[1], 13) ^ v[0]; v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32); v[2] = v[2] + v[1] & m; v[0] = v[0] + v[3] & m; v[1] = rotate(v[1], 17) ^ v[2]
            v[3] = rotate(v[3], 21) ^ v[0]; v[2] = rotate(v[2], 32)
    words = list(struct.unpack(f"<{len(data) // 8}Q", data)) + [len(data) % 256 << 56]
    for word in words: v[3] ^= word; rounds(2); v[0] ^= word
    v[2] ^= 0xee; rounds(4); first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xdd; rounds(4)
    return struct.pack("<QQ", first, v[0] ^ v[1] ^ v[2] ^ v[3])
own, peer, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
other = 1 - rank
one, waked = connect(), datagrams(own)
said, fds = ask(one, begin(7, own), [waked]); assert said[:1] == b"\\0", said
said, _ = ask(one, b"\\2" + struct.pack("<III", 5, rank, other) + socket.inet_aton(peer)); assert said[:1] == b"\\0", said
rules, events, records, areas, counters = [mmap.mmap(fd, 4096) for fd in fds[:5]]
rules[0:8] = struct.pack("<IBBBB", 2, 2, 0, 1, 0)
events[0:8] = struct.pack("<IBBBB", rank, 0, 0, 0, 1)
events[8:16] = struct.pack("<IBBBB", other, 0, 0, 0, 1)
emitted = lambda: struct.unpack_from("<Q", counters, 72)[0]
print("there", flush=True)
sys.stdin.readline()
for number in range(8):
    head = struct.pack("<IIIIBBBBHHII", 0x666f7574, 7, 5, number + 1, 3, 0, 0, 0, 0, 0, rank, other)
    waked.sendto(head + tag(head), (peer, 7547))
time.sleep(1)
before = emitted(); time.sleep(0.5)
print(before, emitted() - before, flush=True)
"""


def test_rules_do_not_make_packets_without_end(cluster, netd):
    """Two hosts of one user request data from each other in turn. Without a limit, 8 packets became 400 000
    per second, without end."""
    on = cluster.testbed.on
    told = subprocess.run([str(word) for word in on("n1", "ip", "-4", "-o", "addr", "show", "dev", "eth0")], capture_output=True, text=True)
    first, second = address(cluster), told.stdout.split()[3].split("/")[0]
    running = []
    for host, words in (("n0", (first, second, 0)), ("n1", (second, first, 1))):
        command = on(host, *as_user(B, PYTHON, "-c", ASK + LOOP, *words))
        running.append(subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    assert [one.stdout.readline() for one in running] == ["there\n"] * 2
    for one in running:
        one.stdin.write("go\n")
        one.stdin.flush()
    counts = [list(map(int, one.communicate(timeout=60)[0].split())) for one in running]
    assert all(before > 0 and still == 0 and before < 8 * 2 * 200 for before, still in counts), counts
