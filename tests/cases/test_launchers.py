"""Command lines written for MPICH, Open MPI and Intel MPI. Runs every row of spec/launchers.tsv and
spec/parameters.tsv, and checks the effect of those that have a meaning here."""

import os
import subprocess

import pytest

from harness import ROOT, hang_up_as_usual


def rows(name):
    lines = (ROOT / "spec" / name).read_text(encoding="utf-8").splitlines()
    header, *rest = [line for line in lines if not line.startswith("#")]
    return [dict(zip(header.split("\t"), line.split("\t"))) for line in rest]


def shell(tutti, folder, *words, stdin="", env=None):
    """Runs mpirun with these words and returns status, standard output and standard error."""
    done = subprocess.run([tutti.mpirun, *map(str, words)], cwd=folder, env={**tutti.env, **(env or {})}, input=stdin, capture_output=True, text=True,
                          timeout=60, preexec_fn=hang_up_as_usual)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    """Creates a folder with the files that rows name."""
    (tmp_path / "hosts").write_text("localhost slots=8\n")
    (tmp_path / "ranks").write_text("rank 0=localhost slot=0\nrank 1=localhost slot=0:0\n")
    (tmp_path / "configuration").write_text("-n 2 echo began\n")
    (tmp_path / "parameters").write_text("# all\nrmaps_base_mapping_policy = slot\n")
    return tmp_path


def outcome(tutti, folder, verdict, to, words):
    status, out, err = shell(tutti, folder, *words)
    line = f"{' '.join(words)}: {status}\n{out}{err}"
    if verdict == "refused":
        assert status == 2 and to in err and "began" not in out, line
    else:
        assert status == 0, line
        assert ("began" in out) == (not {"-do-not-launch", "donotlaunch"} & set(words)), line
        assert ("is ignored" in err) == (verdict == "ignored"), line
        assert verdict != "ignored" or to in err, line
        if verdict == "ignored":
            assert shell(tutti, folder, "--strict", *words)[0] == 2, line


def test_every_option(tutti, folder):
    quiet = {"quiet", "q", "silent-abort", "outfile-pattern", "outfile"}
    for row in rows("launchers.tsv"):
        if row["try"].startswith("!"):
            continue
        for name in row["options"].split(", "):
            values = [] if row["try"].startswith("=") else row["try"].replace("/tmp/tutti-launchers", str(folder)).split()
            if name in quiet:
                continue
            # A configuration contains the program, and the line holds its options.
            program = [] if "configuration" in values else ["sh", "-c", "echo began"]
            count = ["-n", "2"] if "ppr" not in row["to"] and "--ppn" not in row["to"] else []
            outcome(tutti, folder, row["verdict"], row["to"], [*count, f"-{name}", *values, *program])


def test_every_parameter(tutti, folder):
    for row in rows("parameters.tsv"):
        for name in row["parameters"].split(", "):
            name = name.split("=")[0].replace("*", "x")
            outcome(tutti, folder, row["verdict"], row["to"], ["-n", "2", "--mca", name, row["try"], "sh", "-c", "echo began"])


def test_outputs_go_into_files(tutti, folder):
    program = ["sh", "-c", "echo out $PMI_RANK; echo err $PMI_RANK >&2"]
    status, out, err = shell(tutti, folder, "-n", 2, "--output-filename", "a/b", *program)
    assert status == 0 and sorted(out.split("\n")) == ["", "out 0", "out 1"] and "err 1" in err
    assert (folder / "a" / "b.1.out").read_text() == "out 1\n" and (folder / "a" / "b.0.err").read_text() == "err 0\n"
    status, out, err = shell(tutti, folder, "-n", 2, "--output", "dir=d:nocopy", *program)
    assert (status, out, err) == (0, "", "")
    assert (folder / "d" / "rank.1" / "stdout").read_text() == "out 1\n"
    status, out, err = shell(tutti, folder, "-n", 2, "-outfile-pattern", "o%r-%p", "-errfile-pattern", "all", *program)
    assert (status, out, err) == (0, "", "")
    assert (folder / "o1-0").read_text() == "out 1\n" and sorted((folder / "all").read_text().split("\n")) == ["", "err 0", "err 1"]
    status, out, err = shell(tutti, folder, "-n", 2, "--merge-stderr-to-stdout", "-prepend-pattern", "<%r>", *program)
    assert sorted(out.splitlines()) == ["<0>err 0", "<0>out 0", "<1>err 1", "<1>out 1"] and err == ""


def test_input_goes_to_the_rank_that_is_said(tutti, folder):
    program = ["sh", "-c", "echo $PMI_RANK: $(cat)"]
    assert sorted(shell(tutti, folder, "-n", 2, "--stdin", 1, *program, stdin="x")[1].splitlines()) == ["0:", "1: x"]
    assert sorted(shell(tutti, folder, "-n", 2, "-s", "none", *program, stdin="x")[1].splitlines()) == ["0:", "1:"]
    status, _, err = shell(tutti, folder, "-n", 2, "--stdin", 2, *program)
    assert status == 2 and "there are 2 ranks" in err


def test_variables_that_are_said(tutti, folder):
    def names(*options):
        env = {"OWN_A": "1", "OWN_B": "2"}
        out = shell(tutti, folder, "-n", 1, *options, "env", env=env)[1]
        return {line.split("=")[0] for line in out.splitlines()} & {"OWN_A", "OWN_B", "HOME"}

    assert names("-genvall") == {"OWN_A", "OWN_B", "HOME"}
    assert names("-genvnone") == set() and names("-genvlist", "OWN_B") == {"OWN_B"}
    assert names("-genvexcl", "OWN_A,HOME") == {"OWN_B"} and names("--unset-env", "OWN_*") == {"HOME"}
    assert names("-genvnone", "-envlist", "HOME") == {"HOME"}


def test_ranks_are_where_it_is_said(tutti, folder):
    def bound(*options):
        status, out, err = shell(tutti, folder, *options, "sh", "-c", "echo $PMI_RANK $(taskset -cp $$ | sed 's/.*: //')")
        assert status == 0, err
        return [line.split(" ", 1)[1] for line in sorted(out.splitlines())]

    cores = sorted(os.sched_getaffinity(0))
    first, whole = str(cores[0]), bound("-n", 1, "--bind-to", "none")[0]
    assert bound("-n", 2, "--rankfile", "ranks") == [first, first]
    assert bound("-n", 2, "--map-by", "rankfile:file=ranks") == [first, first]
    assert bound("-n", 2, "--cpu-set", "0") == [first, first]
    assert bound("-n", 2, "--map-by", "slot:PE=1")[0] == first
    if len(cores) == 2:
        assert bound("-n", 2, "--map-by", "node:PE=2") == [whole, whole]
    assert len(bound("--map-by", "ppr:3:node")) == 3
    status, _, err = shell(tutti, folder, "-n", 4, "--map-by", "ppr:3:node", "true")
    assert status == 2 and "there is room for 3" in err
    status, _, err = shell(tutti, folder, "-n", 3, "--rankfile", "ranks", "true")
    assert status == 2 and "there is room for 2" in err
    status, _, err = shell(tutti, folder, "-n", 1, "--map-by", "core:PE=4096", "true")
    assert status == 2 and "PE=4096: ranks may use" in err


def test_what_is_shown(tutti, folder):
    assert "ranks 0-1" in shell(tutti, folder, "-n", 2, "--display-map", "--do-not-launch", "sh", "-c", "echo began")[1]
    assert "began" not in shell(tutti, folder, "-n", 2, "--display-map", "--do-not-launch", "sh", "-c", "echo began")[1]
    err = shell(tutti, folder, "-n", 2, "-print-all-exitcodes", "sh", "-c", "exit $PMI_RANK")[2]
    assert "mpirun: rank 0 exited with code 0\n" in err and "mpirun: rank 1 exited with code 1\n" in err
    shell(tutti, folder, "--report-pid", "pid", "true")
    assert int((folder / "pid").read_text()) > 1
