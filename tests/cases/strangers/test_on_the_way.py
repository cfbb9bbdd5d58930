"""A proxy between two hosts reads and changes their messages; TUTTI_PROTECT protects from it."""

import re
import shutil
import struct

import pytest

from harness import ROOT
from hosts import Cluster
from on_the_way import PORTS, OnTheWay

# First bytes of connections: of ranks, of daemons, and of the clients of io-servers (header and message of a
# Hello).
RANKS, DAEMONS, CLIENTS = b"tutti\x03", b"tutti-d", struct.pack("<IQ", 19, 0) + b"\0\3"
# Beyond the greetings and the first exchanges.
BEHIND = 20_000
TEXT = b"known-plain-text"
FORGED = "not what the other end sent"


@pytest.fixture(scope="module")
def two(tutti, hosts):
    """Creates two hosts with a rank on each."""
    if not shutil.which("nft"):
        pytest.skip("nft is missing, which leads connections to somebody in between")
    return Cluster(tutti.name, hosts(2), 1)


@pytest.fixture(scope="module")
def letters(two):
    return two.compile(ROOT / "tests" / "cases" / "strangers" / "letters.c")


@pytest.fixture
def way(two, tmp_path):
    return OnTheWay(two.testbed, two.testbed.hosts, tmp_path)


def run(two, letters, protection, *more, options=(), env=None):
    settings = {"TUTTI_PORT_RANGE": PORTS, "TUTTI_PROTECT": protection, "TUTTI_CONNECTIONS": "static", **(env or {})}
    return two.run(2, letters, *(more or (3000, 1000)), env=settings, options=options, seconds=60)


def wrong(job):
    """Returns the number of messages that differ from those sent, as rank 1 reports at the end of a job."""
    assert job.status == 0 and not job.timed_out, job
    return int(re.search(r"rank 1: (\d+) of", job.out).group(1))


@pytest.mark.parametrize("protection", ["auto", "greeting", "authenticate", "encrypt"])
def test_nothing_changed_is_nothing_noticed(two, letters, way, protection):
    with way.changing(RANKS, "nothing"):
        for bytes in (1000, 300_000):
            job = run(two, letters, protection, 50, bytes)
            assert wrong(job) == 0
        assert len(way.record.read_bytes()) > 10_000_000, "the letters passed there"


@pytest.mark.parametrize("deed", ["flip", "insert", "repeat", "drop", "cut"])
@pytest.mark.parametrize("protection", ["auto", "authenticate", "encrypt"])
def test_what_is_changed_ends_the_job(two, letters, way, protection, deed):
    """No rank gets wrong bytes; the job ends with one message that says why."""
    with way.changing(RANKS, deed, BEHIND):
        job = run(two, letters, protection)
        assert way.has_changed()
    assert job.status != 0 and "are wrong" not in job.out, job
    # If the dropped piece was the last one of its sender, nothing follows that could be found wrong, and the
    # other rank only sees that the connection ends too early.
    expected = {"cut": ["cannot be reached"], "drop": [FORGED, "cannot be reached"]}.get(deed, [FORGED])
    assert any(text in job.err for text in expected), job.err


@pytest.mark.parametrize("protection", ["auto", "authenticate", "encrypt"])
def test_long_letters_are_protected_too(two, letters, way, protection):
    with way.changing(RANKS, "flip", 3_000_000):
        job = run(two, letters, protection, 20, 1_000_000)
        assert way.has_changed()
    assert job.status != 0 and "are wrong" not in job.out and FORGED in job.err, job


def test_behind_a_greeting_alone_nothing_is_noticed(two, letters, way):
    """Shows that the proxy of these tests works: with `greeting` a change goes unnoticed, as documented."""
    with way.changing(RANKS, "flip", BEHIND, TEXT.decode()):
        job = run(two, letters, "greeting")
        assert way.has_changed()
    assert wrong(job) == 1


def test_a_weaker_greeting_is_refused(two, letters, way):
    """A proxy removes the protection from the greeting: the connection fails, and letters go by datagrams."""
    with way.changing(RANKS, "flip", 12):
        job = run(two, letters, "encrypt")
        assert way.has_changed()
    assert "are wrong" not in job.out or wrong(job) == 0, job


@pytest.mark.parametrize("protection,reads", [("greeting", True), ("authenticate", True), ("encrypt", False), ("auto", False)])
def test_who_reads_streams_reads_what_is_not_encrypted(two, letters, way, protection, reads):
    with way.changing(RANKS, "nothing"):
        assert wrong(run(two, letters, protection)) == 0
        assert (TEXT in way.record.read_bytes()) == reads


@pytest.mark.parametrize("deed", ["flip", "insert", "repeat", "drop", "cut"])
def test_daemons_are_protected_always(two, letters, way, deed):
    """A changed byte between mpirun's daemons, which carry the output of the ranks, ends the job."""
    with way.changing(DAEMONS, deed, 2000):
        job = run(two, letters, "greeting")
        assert way.has_changed()
    assert job.status != 0 and not job.timed_out and "are wrong" not in job.out, job
    assert "n1" in job.err, job.err


@pytest.mark.parametrize("deed", ["flip", "insert", "repeat"])
@pytest.mark.parametrize("protection", ["auto", "authenticate", "encrypt"])
def test_requests_and_data_of_io_servers_are_protected(two, letters, way, protection, deed):
    with way.changing(CLIENTS, deed, BEHIND):
        job = run(two, letters, protection, 100, 1000, "tutti:letters", options=["--io-servers", "1"])
        assert way.has_changed()
    assert job.status != 0 and not job.timed_out and "are wrong" not in job.out, job
    assert FORGED in job.err, job.err


def test_behind_a_greeting_alone_io_servers_notice_nothing(two, letters, way):
    with way.changing(CLIENTS, "flip", BEHIND, TEXT.decode()):
        job = run(two, letters, "greeting", 100, 1000, "tutti:letters", options=["--io-servers", "1"])
        assert way.has_changed()
    assert re.search(r"[1-9]\d* of 100 letters are wrong", job.out), job


@pytest.mark.parametrize("protection,reads", [("greeting", True), ("authenticate", True), ("encrypt", False), ("auto", False)])
def test_who_reads_all_packets_reads_what_is_not_encrypted(two, letters, way, protection, reads):
    """Letters by streams and by datagrams, and those in a file of io-servers. What is printed is never
    read."""
    with way.listening("n1"):
        for env in ({}, {"TUTTI_CONNECTIONS": "never"}):
            job = run(two, letters, protection, 100, 1000, "tutti:letters", options=["--io-servers", "1"], env=env)
            assert wrong(job) == 0
            packets = way.record.read_bytes()
            assert len(packets) > 200_000 and (TEXT in packets) == reads
        assert b"letters are wrong" not in packets
