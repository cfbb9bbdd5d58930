"""Programs under sanitizers and valgrind: nothing is said of the library, faults of their own are found."""

import shutil
import subprocess

import pytest

# The tool, the way of building the program, the words before it, and the deliberate fault that the tool has
# to find.
TOOLS = {
    "address": (["-fsanitize=address"], [], "leak"),
    "leak": (["-fsanitize=leak"], [], "leak"),
    "undefined": (["-fsanitize=undefined", "-fno-sanitize-recover"], [], "overflow"),
    "thread": (["-fsanitize=thread"], [], "race"),
    "memcheck": ([], ["valgrind", "--error-exitcode=9"], "uninitialised"),
    "memcheck-leaks": ([], ["valgrind", "--error-exitcode=9", "--leak-check=full"], "leak"),
    "helgrind": ([], ["valgrind", "--tool=helgrind", "--error-exitcode=9"], "race"),
}


def is_there(flags):
    """Returns true if the compiler has the library of a sanitizer."""
    words = ["cc", *flags, "-x", "c", "-", "-o", "/dev/null"]
    empty = "int main(void) { return 0; }"
    return subprocess.run(words, input=empty, text=True, capture_output=True).returncode == 0


@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_speaks_of_the_program_alone(tutti, mpi, tool):
    flags, before, fault = TOOLS[tool]
    if before and not shutil.which(before[0]):
        pytest.skip("valgrind is missing")
    if flags and not is_there(flags):
        pytest.skip("the compiler has no such sanitizer")
    program = mpi.compile("instruments.c", *flags, name=f"instruments-{tool if flags else 'plain'}")
    outcome = mpi.run_words(["-n", 2, *before, program])
    assert outcome.status == 0 and "done" in outcome.out and not outcome.left, outcome
    assert before or not outcome.err, outcome
    outcome = mpi.run_words(["-n", 2, *before, program, fault])
    assert outcome.status not in (0, None) and "instruments.c" in outcome.err, outcome


def test_what_the_user_has_told_a_tool_stands(tutti, mpi, tmp_path):
    if not is_there(["-fsanitize=thread"]):
        pytest.skip("the compiler has no thread sanitizer")
    program = mpi.compile("instruments.c", "-fsanitize=thread", name="instruments-thread")
    own = tmp_path / "own.supp"
    own.write_text("race:instruments.c\ncalled_from_lib:libmpi_abi.so.1\nrace:libmpi_abi.so.1\n")
    outcome = mpi.run_words(["-n", 2, program, "race"], env={"TSAN_OPTIONS": f"suppressions={own}"})
    assert outcome.status == 0 and "WARNING: ThreadSanitizer" not in outcome.err, outcome
