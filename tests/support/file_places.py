"""Directories for files of the tests, and hints that make ranks exchange data."""

import tempfile
from pathlib import Path

import pytest

# Memory and a disk; where there is only one of them, that.
PLACES = [path for path in ("/dev/shm", "/var/tmp") if Path(path).is_dir()]
EXCHANGE = ["romio_cb_write", "enable", "romio_cb_read", "enable", "cb_buffer_size", "4096"]


@pytest.fixture(params=PLACES)
def place(request):
    with tempfile.TemporaryDirectory(dir=request.param, prefix="tutti-files-") as path:
        yield path
