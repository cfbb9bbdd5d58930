"""A pytest plugin that orders tests for several processes and prints the expected remaining time.

`durations.tsv` beside this file has the seconds of each test, as of the last run of `pytest
--write-durations`. Tests of one file share expensive resources (testbeds, Slurm, wheels), so pytest-xdist
keeps them in one process. Files in INDEPENDENT are the exception: each of their tests may run in any process.
The longest groups start first.
"""

import time
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("durations.tsv")
# Files whose tests share nothing: their tests are spread over all processes.
INDEPENDENT = {"test_programs", "test_stress", "test_spaces", "test_files", "test_files_right", "test_standard", "test_overlap", "test_jobs"}
# Seconds for a test that the table does not know.
UNKNOWN_S = 1.0
# Seconds between two lines about the time left.
EVERY_S = 30


def read_durations():
    """Returns the seconds of each test, as last measured."""
    if not TABLE.exists():
        return {}
    rows = (line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: float(seconds) for seconds, name in rows}


def plain(nodeid):
    """Returns the test's name without the group that pytest-xdist appends."""
    return nodeid.rpartition("@")[0] if "@" in nodeid.rpartition("]")[2] else nodeid


class Schedule:
    """Orders the tests, and reports the time left while they run."""

    def __init__(self, config):
        self.config = config
        self.known = read_durations()
        self.took, self.left, self.said, self.begin = {}, {}, time.monotonic(), time.monotonic()

    def expected(self, nodeid):
        return self.known.get(nodeid, UNKNOWN_S)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        """Puts files into groups, the longest group first."""
        total = {}
        for item in items:
            name = item.path.stem
            alone = item.get_closest_marker("alone")
            item.group = item.nodeid if name in INDEPENDENT and not alone else name
            if item.group == name:
                item.add_marker(pytest.mark.xdist_group(name))
            total[item.group] = total.get(item.group, 0) + self.expected(item.nodeid)
        items.sort(key=lambda item: -total[item.group])
        self.left = {item.nodeid: self.expected(item.nodeid) for item in items}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        """Reports the tests to the process that collects the reports."""
        self.left = self.left or {plain(nodeid): self.expected(plain(nodeid)) for nodeid in ids}

    def pytest_runtest_logreport(self, report):
        name = plain(report.nodeid)
        self.took[name] = self.took.get(name, 0) + report.duration
        if report.when == "teardown":
            self.left.pop(name, None)
            self._report()

    def _report(self):
        """Prints the time left every half minute, judged by the pace so far."""
        now = time.monotonic()
        if now - self.said < EVERY_S or hasattr(self.config, "workerinput"):
            return
        self.said = now
        done = sum(self.expected(name) for name in self.took if name not in self.left)
        pace = (now - self.begin) / done if done else 1
        print(f"\n{len(self.left)} tests left, about {max(1, round(sum(self.left.values()) * pace / 60))} min", flush=True)

    def pytest_sessionfinish(self):
        if self.config.getoption("--write-durations") and not hasattr(self.config, "workerinput"):
            rows = sorted({**self.known, **self.took}.items(), key=lambda row: -row[1])
            text = "".join(f"{seconds:.2f}\t{name}\n" for name, seconds in rows)
            TABLE.write_text("# Seconds of each test, the longest first: pytest --write-durations\n" + text, encoding="utf-8")


def pytest_addoption(parser):
    parser.addoption("--write-durations", action="store_true", help="writes the seconds of each test to tests/support/durations.tsv")


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: looks at what the whole machine has; runs in a process without neighbours")
    config.pluginmanager.register(Schedule(config), "schedule-state")
