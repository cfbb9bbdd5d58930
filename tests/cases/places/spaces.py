"""Ranks in namespaces of their own, and ranks under filters of system calls: the words that set them up,
before the words of a program.

Each function gives words for one rank: `mpirun -n 3 WORDS... program`. `refusal(words)` says why they cannot
be used here. `ranks_under` gives the same for a job whose ranks are not all alike.
"""

import contextlib
import subprocess

from harness import BUILT as PROGRAMS
from harness import SOURCES
from place import OPERATIONS, Place, Start

SOURCE = SOURCES / "filter.c"
BUILT = PROGRAMS / "filter"


def nothing():
    """Starts the rank as the launcher does, without a namespace of its own."""
    return []


def user_namespace():
    """Gives the rank its own user namespace, as container run-times do for users without rights."""
    return ["unshare", "--user", "--map-root-user"]


def pid_namespace():
    """Gives the rank its own user and pid namespaces and the same addresses as all others. Only the proof of
    identity tells ranks apart."""
    return ["unshare", "--user", "--map-root-user", "--pid", "--fork", "setarch", "--addr-no-randomize"]


def pid_namespace_with_proc():
    """Gives the rank its own user and pid namespaces with a /proc of its own, as containers have it."""
    return ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]


def filtered(error="EPERM", calls="all", first=0):
    """Returns words that set a filter by which calls fail with `error` after the `first` ones: see
    tests/programs/filter.c."""
    if not BUILT.exists() or BUILT.stat().st_mtime < SOURCE.stat().st_mtime:
        BUILT.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", BUILT, SOURCE], check=True, timeout=60)
    return [str(BUILT), error, str(first), calls]


def filtered_late(error="EPERM", calls="all", first=60):
    """Returns words that set a filter in the middle of the job."""
    return filtered(error, calls, first)


def ranks_under(*groups):
    """Returns the words after `mpirun` for groups of (ranks, words). Each group runs `program` in its own
    environment."""

    def command(program, *arguments):
        parts = [["-n", ranks, *words, program, *arguments] for ranks, words in groups]
        return [word for index, part in enumerate(parts) for word in ([":"] if index else []) + part]

    return command


def refusal(words):
    """Returns the reason why these words cannot be used here, if any."""
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True, timeout=30)
    except OSError as error:
        return f"{words[0]}: {error.strerror}"
    return f"not permitted here: {tried.stderr.strip()}" if tried.returncode else None


# Environments for the random programs by name. Each value is a function without arguments.
SETUPS = {
    "a user namespace per rank": user_namespace,
    "a pid namespace per rank": pid_namespace,
    "a pid namespace and /proc per rank": pid_namespace_with_proc,
    "a filter, EPERM": filtered,
    "a filter, ENOSYS": lambda: filtered("ENOSYS"),
    "a filter that refuses to write": lambda: filtered("EPERM", "process_vm_writev"),
    "a filter that comes early": lambda: filtered_late(first=5),
    "a filter that comes late": lambda: filtered_late("ENOSYS", first=100),
    "a late filter that refuses to write": lambda: filtered_late("EPERM", "process_vm_writev", 40),
}


def under(setup):
    """Starts each rank with the words of this setup."""

    @contextlib.contextmanager
    def inside(site):
        site.start.within = tuple(SETUPS[setup]())
        yield

    return inside


def permitted(setup):
    """Says why this setup cannot be made here, or nothing."""
    return lambda: refusal(SETUPS[setup]())


def row(setup, name, start=None, **more):
    """Returns a place of this setup."""
    return Place(name, start or Start(), inside=under(setup), needs=(permitted(setup),), **more)


RANDOM = {
    "collectives": ("coll_stress.c", ("0", "7", "40", "2000", OPERATIONS)),
    "messages": ("stress.c", ("0", "7", OPERATIONS)),
}
LIGHT = ("a user namespace per rank", "a pid namespace per rank", "a filter, EPERM", "a filter that comes late")

PLACES = [
    *(row(setup, setup, light=setup in LIGHT) for setup in SETUPS),
    *(row(setup, f"{setup}, four hosts", Start(ranks=8, arguments=("100000",)), hosts=4) for setup in LIGHT),
    *(row(setup, f"{setup}, random {kind}", Start(program=program, arguments=words), seconds=600)
      for setup in LIGHT for kind, (program, words) in RANDOM.items()),
]
