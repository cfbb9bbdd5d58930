"""Memory that Tutti shares between ranks, and calls of programs that act on it: docs/exposed-memory.md has
the table of calls."""

import os
import platform
import subprocess

import pytest

from harness import BUILT, SOURCES, check

# Buffers are shared after some uses, at their first use, without the kernel's word of changes, and never.
WAYS = {
    "usual": {},
    "always": {"TUTTI_MAPPED": "always"},
    "asked": {"TUTTI_MAPPED": "always", "TUTTI_DEBUG": "mapped_watch=0"},
    "never": {"TUTTI_MAPPED": "never"},
}


def is_possible():
    """Returns true if memory can be shared: the kernel must report what addresses are mapped to (Linux 6.11),
    and pages must be lockable."""
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
    """Neither the names of the program nor those of objects that it loads later were bound to the library."""
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
