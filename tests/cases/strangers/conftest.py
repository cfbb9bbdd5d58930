"""Fixtures of all tests with two users."""

import os
import shutil

import pytest

from strangers import A, B, folder_of, refusal


@pytest.fixture
def users(tutti):
    """Skips unless two users are available, and removes their sockets before and after the test."""
    if why := refusal():
        pytest.skip(why)
    for user in (A, B):
        shutil.rmtree(folder_of(user), ignore_errors=True)
    yield A, B
    for user in (A, B):
        shutil.rmtree(folder_of(user), ignore_errors=True)


@pytest.fixture
def folder(users, tmp_path):
    """Creates a folder of user A that others can read, where programs of A run."""
    for above in (tmp_path, *tmp_path.parents):
        if above.owner() == "root" and above.stat().st_mode & 0o1 == 0 and str(above) != "/root":
            os.chmod(above, above.stat().st_mode | 0o711)
    place = tmp_path / "a"
    place.mkdir()
    os.chown(place, A, A)
    return place
