"""Runs all places and prints a table: place, outcome, seconds, leftovers (`make places`).

A row is good when the job came out right, or was ended with one sentence that says what is to be done, and
nothing is left; the seconds are those of the job, or from the mishap to its end. The exit status is the
number of rows that are not good.
"""

import argparse
import importlib
import os
import re
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import hosts  # noqa: E402
from harness import Mpi  # noqa: E402
from place import Row, Site, attempt  # noqa: E402


def places(of=""):
    """Returns all places of this folder, or of one of its files."""
    modules = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("place", "run", "terminal") and of in ("", path.stem))
    found = [importlib.import_module(name) for name in modules]
    return [place for module in found for place in getattr(module, "PLACES", [])]


def lacks(place):
    """Returns the reason why a place cannot be tried here, if any."""
    if place.hosts and (why := hosts.refusal()):
        return why
    for need in place.needs:
        if callable(need):
            if why := need():
                return why
            continue
        if need == "root" and os.geteuid() != 0:
            return "takes root"
        if need == "cgroup" and not any(os.access(path, os.W_OK) for path in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/cgroup.procs")):
            return "no control group can be made here"
        if need not in ("root", "cgroup") and not shutil.which(need):
            return f"there is no {need}"
    first = place.start.before[:1] or ("env",)
    return None if shutil.which(str(first[0])) else f"there is no {first[0]}"


class Runner:
    """Tries places, with the testbeds they share."""

    def __init__(self, mpi, operations=1000):
        self.mpi, self.operations = mpi, operations
        self.testbeds = {}
        self.folder = Path(tempfile.mkdtemp(prefix="tutti-places-"))
        # Places are also tried by users without rights.
        self.folder.chmod(0o755)

    def testbed(self, place):
        """Returns the testbed of a place, if it needs one."""
        if not place.hosts:
            return None
        if not place.shared:
            return hosts.Testbed(place.hosts, share=[self.folder])
        if place.hosts not in self.testbeds:
            self.testbeds[place.hosts] = hosts.Testbed(place.hosts, share=[self.folder])
        return self.testbeds[place.hosts]

    def row(self, place):
        """Runs the job of a place and returns its row."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        folder.chmod(0o777)
        testbed = None
        try:
            testbed = self.testbed(place)
            row = attempt(Site(self.mpi, place, folder, testbed, self.operations))
        except Exception as error:  # noqa: BLE001
            self.forget(place)
            return Row(place, f"BROKEN: {error}".splitlines()[0], False, detail=traceback.format_exc())
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if testbed and not place.shared:
                testbed.down()
        return row

    def forget(self, place):
        """Drops a testbed on which something went wrong, so that it is not used again."""
        if testbed := self.testbeds.pop(place.hosts, None):
            testbed.down()

    def close(self):
        """Takes everything away."""
        for testbed in self.testbeds.values():
            testbed.down()
        shutil.rmtree(self.folder, ignore_errors=True)


def line(row, width):
    """Returns a row of the table as text."""
    seconds = f"{row.seconds:5.1f}" if row.seconds else "     "
    late = " LATE" if row.seconds > row.place.seconds else ""
    mark = "  " if row.good and not late else "! "
    return f"{mark}{row.place.name:{width}} {seconds}{late}  left: {row.left:8} {row.what}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-k", default="", help="only places whose name this regular expression finds")
    parser.add_argument("--of", default="", help="only places of this file: net, spaces, one_host, ...")
    parser.add_argument("--light", action="store_true", help="only those that `make test` has")
    parser.add_argument("--long", action="store_true", help="also those that take minutes: many random operations")
    parser.add_argument("-v", action="store_true", help="also what was said, of rows that are not good")
    parser.add_argument("--list", action="store_true", help="only the names")
    parser.add_argument("--operations", type=int, default=1000, help="of each row of random operations")
    words = parser.parse_args()
    wanted = [place for place in places(words.of) if re.search(words.k, place.name) and (place.light or not words.light) and (words.long or not place.long)]
    width = max((len(place.name) for place in wanted), default=0)
    if words.list:
        print("\n".join(place.name for place in wanted))
        return 0
    runner, bad, skipped = Runner(Mpi("tutti"), words.operations), 0, 0
    try:
        for place in wanted:
            if why := lacks(place):
                print(f"  {place.name:{width}}        skipped: {why}", flush=True)
                skipped += 1
                continue
            row = runner.row(place)
            is_good = row.good and row.seconds <= place.seconds
            bad += not is_good
            print(line(row, width), flush=True)
            if words.v and not is_good:
                print(row.detail, flush=True)
    finally:
        runner.close()
    print(f"{len(wanted)} places: {len(wanted) - bad - skipped} good, {bad} not, {skipped} skipped")
    return min(bad, 100)


if __name__ == "__main__":
    sys.exit(main())
