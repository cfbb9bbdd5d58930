"""A grid on io-servers of four hosts: written by all ranks together, read back as tiles, copied off, drawn.

usage: python run.py STAGE [--side 512] [--hosts 4]       (STAGE: where Tutti is staged)

The hosts are namespaces of this machine (`tutti testbed`, which takes root), an io-server on each, as a user
starts them: by a mount file.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
SHADES = " .:-=+*#%@"
# The h5py that `make public` has built knows MPI.
H5PY = HERE.parents[1] / "build" / "public" / "h5py"
PYTHON = H5PY / "bin" / "python" if (H5PY / ".complete").exists() else sys.executable


def draw(field, rows=24, columns=72):
    """Draws the field in characters, on a logarithmic scale. Each character is the mean of its part."""
    parts = [np.array_split(line, columns, axis=1) for line in np.array_split(field, rows, axis=0)]
    means = np.array([[part.mean() for part in line] for line in parts])
    scaled = np.log1p(means) / max(np.log1p(means).max(), 1e-9) * (len(SHADES) - 1)
    return "\n".join("".join(SHADES[int(round(value))] for value in line) for line in scaled)


def start_servers(tutti, testbed, hosts, place):
    """Starts a server on each host, and enters them in one mount file."""
    mount, servers = place / "mount", []
    for host in range(hosts):
        root = place / f"server-{host}"
        root.mkdir()
        words = [tutti, "testbed", "exec", "--name", testbed, f"n{host}", tutti, "io-server", "--mount", mount, "--root", root, "--servers", hosts,
                 "--stripe", 65536, "--interface", "eth0"]
        server = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        servers.append(server)
        print(server.stdout.readline().strip())
    return mount, servers


def main():
    parser = argparse.ArgumentParser(description="a grid on io-servers")
    parser.add_argument("stage", type=Path)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--hosts", type=int, default=4)
    options = parser.parse_args()
    stage = options.stage.resolve()
    tutti, testbed = stage / "bin" / "tutti", f"io-{os.getpid()}"
    place = Path(tempfile.mkdtemp(dir="/var/tmp", prefix="tutti-io-"))
    servers = []
    up = [tutti, "testbed", "up", "--name", testbed, "--with", os.getpid(), options.hosts]
    try:
        subprocess.run([str(word) for word in up], check=True, stdout=subprocess.DEVNULL)
        mount, servers = start_servers(tutti, testbed, options.hosts, place)
        enter = [tutti, "testbed", "exec", "--name", testbed, "n0"]
        hosts = ",".join(f"n{host}:1" for host in range(options.hosts))
        job = [stage / "bin" / "mpirun", "--agent", f"/run/tutti-testbed/{testbed}/agent", "--host", hosts, "-n", options.hosts,
               "-genv", "TUTTI_IO_MOUNT", mount, PYTHON, HERE / "grid.py", "tutti:grid", options.side]
        subprocess.run([str(word) for word in (*enter, *job)], check=True)
        for errand in (["ls"], ["check"], ["cp", "tutti:grid", place / "grid"]):
            subprocess.run([str(word) for word in (*enter, tutti, "io", *errand, "--mount", mount)], check=True)
        field = np.fromfile(place / "grid").reshape(options.side, options.side)
        print(draw(field))
        print(f"the sum of the grid, of the copy: {field.sum():.6f}")
    finally:
        for server in servers:
            server.terminate()
        time.sleep(0.1)
        subprocess.run([str(tutti), "testbed", "down", "--name", testbed], check=False, stdout=subprocess.DEVNULL)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
