"""Memory that Tutti shares between ranks, and what a program does to it: docs/exposed-memory.md has the table of calls."""

import os
import platform
import subprocess

import pytest

from harness import BUILT, SOURCES, check

# Buffers are shared after some uses, at their first use, without the kernel's word of changes, and never.
WAYS = {
    "usual": {},
    "always": {"TUTTI_MAPPED": "always"},
    "asked": {"TUTTI_MAPPED": "always", "TUTTI_MAPPED_WATCH": "0"},
    "never": {"TUTTI_MAPPED": "never"},
}


def is_possible():
    """Whether memory is shared at all: the kernel says what addresses are mapped to (Linux 6.11), and pages may be locked."""
    version = [int(part) for part in platform.release().split("-")[0].split(".")[:2]]
    return version >= [6, 11] and os.geteuid() == 0


def environment(way):
    # Memory that is often lost is exposed ever more seldom in the usual way.
    return {**WAYS[way], **({"EXPOSED": "1"} if is_possible() and way in ("always", "asked") else {})}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["children", "advice"])
def test_exposed_memory_keeps_the_promises_of_private_memory(tutti, name, way):
    check(tutti.run(2, tutti.compile(f"exposed/{name}.c"), env=environment(way)))


def test_children_beside_a_window_see_a_copy(tutti):
    check(tutti.run(2, tutti.compile("exposed/children.c"), "window", env=environment("always")))


def test_memory_is_not_exposed_where_system_calls_pass_by_the_library(tutti):
    check(tutti.run(2, tutti.compile("exposed/own_calls.c"), env=WAYS["always"]))


def test_forks_beside_collectives(tutti):
    check(tutti.run(2, tutti.compile("exposed/forks.c"), env=environment("always")))


def test_a_program_that_loads_mpi_at_run_time_keeps_the_promises(tutti):
    """Neither its names, nor those of what it loads later, were bound to the library."""
    source, folder = SOURCES / "exposed" / "loaded.c", BUILT / "tutti"
    folder.mkdir(parents=True, exist_ok=True)
    program, plugin = folder / "loaded", folder / "loaded_plugin.so"
    include = f"-I{tutti.prefix / 'include'}"
    for output, flags in ((program, []), (plugin, ["-DPLUGIN", "-shared", "-fPIC", "-Wl,-z,now"])):
        command = ["cc", "-std=gnu11", "-O1", "-w", include, *flags, "-o", output, source, "-ldl"]
        made = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stderr
    library = tutti.prefix / "lib" / "libmpi_abi.so.1"
    check(tutti.run(2, program, library, plugin, env=environment("always")))


@pytest.mark.parametrize("reach", ["apart", "reachable"])
@pytest.mark.parametrize("flags", [[], ["-DONE"]], ids=["many", "one"])
def test_memory_of_a_device_is_refused_by_name(tutti, flags, reach):
    """The driver, here a made one, is loaded after MPI_Init and asked about every buffer."""
    driver = tutti.compile("devices/fake_cuda.c", *flags, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
                           name="libcuda_one.so" if flags else "libcuda_many.so")
    check(tutti.run(2, tutti.compile("devices/device_pointers.c", "-ldl"), driver, reach))


@pytest.mark.parametrize("way", ["usual", "always"])
def test_files_that_a_program_puts_in_the_place_of_descriptors_stay_as_they_are(tutti, tmp_path, way):
    outcome = tutti.run(2, tutti.compile("replaced.c"), tmp_path / "file", env=WAYS[way], seconds=60)
    assert not outcome.timed_out and not outcome.left, str(outcome)
    # A rank may have been ended before it had a file.
    files = list(tmp_path.iterdir())
    assert files and all(file.read_bytes() == b"mine" for file in files), str(outcome)
    assert outcome.status != 0 and outcome.err.count("put another file in its place") in (1, 2), str(outcome)


@pytest.mark.parametrize("way", ["usual", "always"])
def test_a_limit_of_files_does_not_end_a_program(tutti, tmp_path, way):
    outcome = tutti.run(2, tutti.compile("replaced.c"), tmp_path / "file", "limit", env=WAYS[way], seconds=60)
    if outcome.status != 0:
        assert outcome.status < 128 and "file" in outcome.err and not outcome.timed_out, str(outcome)
