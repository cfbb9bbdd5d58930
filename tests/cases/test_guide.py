"""Every command of the guide does what its page says."""

import os
import shutil
import subprocess

import pytest

import guide
from harness import ROOT, hang_up_as_usual
from hosts import Testbed, refusal
from slurm import Slurm
from slurm import refusal as no_slurm
from wheels import staged_profile

COMMANDS = ROOT / "tests" / "support" / "guide_commands"
# Pages that explain words and name programs.
WITHOUT_COMMANDS = {"programs", "glossary"}
# Stand-ins that only root can use.
FOR_ROOT = {"docker", "refuse"}
# Results of `make public`: a file that exists once it has run, and the place where programs find the rest.
PUBLIC = ROOT / "build" / "public"
BUILT = {
    "hdf5": (PUBLIC / "hdf5-built" / "installed" / "include" / "hdf5.h", PUBLIC / "hdf5-built" / "installed"),
    "pnetcdf": (PUBLIC / "pnetcdf-built" / "installed" / "include" / "pnetcdf.h", PUBLIC / "pnetcdf-built" / "installed"),
    "h5py": (PUBLIC / "h5py" / ".complete", PUBLIC / "h5py"),
    "mpi4py": (ROOT / "build" / "python" / "bin" / "python", ROOT / "build" / "python"),
}
# Languages and tools: commands that end with status 0 where programs of a page can run.
PROBES = {
    "gfortran": ("gfortran", "--version"),
    "perf": ("perf", "record", "-q", "-e", "cpu-clock", "-o", os.devnull, "true"),
    "valgrind": ("valgrind", "--version"),
    "rustc": ("rustc", "--version"),
    "julia": ("julia", "-e", 'using MPI, MPIPreferences; exit(MPIPreferences.abi == "MPIABI" ? 0 : 1)'),
    "Rscript": ("Rscript", "-e", 'quit(status = !nzchar(system.file(package = "Rmpi")))'),
}
SHELL = ("bash", "--noprofile", "--norc", "-e", "-c")


def environment(tutti, folder, stand_ins):
    """Returns the environment of a reader who has installed Tutti, with stand-ins for some commands."""
    extra = folder / ".commands"
    extra.mkdir(exist_ok=True)
    for name in stand_ins:
        source = COMMANDS / name
        if source.exists():
            shutil.copy(source, extra / name)
        else:
            subprocess.run(["cc", "-O2", "-o", extra / name, ROOT / "tests" / "cases" / "places" / f"{name}.c"], check=True, timeout=60)
    return {**tutti.env, "PATH": f"{tutti.prefix / 'bin'}:{extra}:{os.environ['PATH']}"}


def is_there(language):
    """Returns true if programs of a language can run."""
    probe = PROBES[language]
    return bool(shutil.which(probe[0])) and subprocess.run(probe, capture_output=True, timeout=120).returncode == 0


def run(tutti, block, folder, testbed, cluster):
    """Runs the commands of a block, on the first host of `testbed` unless that is None. Returns the status of
    the last one and their output."""
    needed = {block.words["stand-in"]} if "stand-in" in block.words else set()
    if "docker" in needed:
        needed.add("refuse")
    env = environment(tutti, folder, needed)
    env.update({name.upper(): str(place) for name, (_, place) in BUILT.items()})
    env.update(TUTTI=str(ROOT), PREFIX=str(tutti.prefix))
    if "make" in needed:
        env.update(STAGED_PROFILE=staged_profile(tutti), HOME=str(folder))
    if "with" in block.words:
        env["PATH"] = f"{BUILT[block.words['with']][1] / 'bin'}:{env['PATH']}"
    if cluster:
        env["SLURM_CONF"] = str(cluster.configuration)
    command = [*SHELL, block.text]
    if testbed:
        env["AGENT"] = str(testbed.agent)
        command = [str(word) for word in testbed.on("n0", *command)]
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, preexec_fn=hang_up_as_usual)
    return done.returncode, done.stdout


def can_run(block):
    """Returns true if the commands of a block can run on this machine."""
    words = block.words
    if words.get("stand-in") in FOR_ROOT and os.geteuid() != 0:
        return False
    if "with" in words and not BUILT[words["with"]][0].exists():
        return False
    if "needs" in words and not is_there(words["needs"]):
        return False
    if "manager" in words and no_slurm():
        return False
    return "hosts" not in words or not refusal()


@pytest.mark.parametrize("page", [*guide.pages(), ROOT / "README.md"], ids=lambda page: page.stem)
def test_page(tutti, page, tmp_path):
    """A reader goes through the page from top to bottom."""
    testbeds, clusters, blocks = {}, {}, guide.blocks(page)
    if page.stem not in WITHOUT_COMMANDS:
        assert any(block.language == "sh" for block in blocks), "a page without a command"
    try:
        for block in blocks:
            if "file" in block.words:
                (tmp_path / block.words["file"]).write_text(block.text, encoding="utf-8")
            if block.language != "sh" or not can_run(block):
                continue
            place = int(block.words.get("hosts", 0)), block.words.get("manager")
            if place[0] and place not in testbeds:
                testbeds[place] = Testbed(place[0], share=[tmp_path])
            if place[1] and place not in clusters:
                clusters[place] = Slurm(testbeds[place], tmp_path)
            status, output = run(tutti, block, tmp_path, testbeds.get(place), clusters.get(place))
            assert status == block.status(), f"{block} ends with {status}:\n{block.text}{output}"
            assert (wanted := guide.missing(block.expected, output)) is None, f"{block} does not say {wanted!r}:\n{output}"
    finally:
        for testbed in testbeds.values():
            testbed.down()


@pytest.mark.parametrize("page", [*guide.pages(), *ROOT.glob("*.md"), guide.PAGES / "SUMMARY.md"], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    assert guide.broken_links(page) == []


def test_pages_are_in_the_summary():
    listed = {page.name for page in guide.pages()} | {"SUMMARY.md"}
    assert listed == {path.name for path in guide.PAGES.rglob("*.md")}


def check(text, expected):
    """Checks the commands that are read from the text of a page, each with its expected output."""
    page = guide.ROOT / "build" / "tests" / "page.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    got = [(block.line, block.words, block.text, block.expected) for block in guide.blocks(page) if block.language == "sh"]
    assert got == expected


def test_pages_are_read_as_they_are_written():
    check("# A\n\n```sh,status=2,hosts=4\na\nb\n```\n\n```text\nx\n```\n", [(3, {"status": "2", "hosts": "4"}, "a\nb\n", ["x"])])
    check("```c,file=a.c\nint a;\n```\n```sh\ncc a.c\n```\n", [(4, {}, "cc a.c\n", [])])
    check("no `sh` here\n", [])
    assert guide.missing(["a", "b"], "1 a\n2 b\n") is None
    assert guide.missing(["a ... c"], "b\na, b, c\n") is None
    assert guide.missing(["b", "a"], "1 a\n2 b\n") == "a"
