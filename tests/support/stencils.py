"""Random affine stencils: each translated by `tutti overlap`, run on random ranks, compared bit by bit with
the sequential program."""

import random
import subprocess
from pathlib import Path

from harness import ROOT

TOOL = ROOT / "build" / "stage" / "bin" / "tutti"
VARIABLES = "ijk"
FLAGS = ["-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-std=gnu11"]


def stencil(draw):
    """Returns the text of a program. Its arguments are size and steps, its output all bits of its arrays."""
    dimensions = draw.choice([1, 1, 2, 2, 3])
    names = "ABC"[: draw.randint(1, 3)]
    reach = draw.choice([1, 1, 2])
    element = draw.choice(["double", "double", "float"])
    size = "".join("[n]" for _ in range(dimensions))
    variables = VARIABLES[:dimensions]
    nests = [nest(draw, names, variables, reach) for _ in range(draw.randint(1, 3))]
    over = "".join(f"    for (int {v} = 0; {v} < n; {v}++)\n" for v in variables)
    at = "".join(f"[{v}]" for v in variables)
    place = " + ".join(f"{3 + 4 * number} * {v}" for number, v in enumerate(variables))
    first = "\n".join(f"        {name}{at} = (({place}) * {7 + number} % 101) / ({element})101;" for number, name in enumerate(names))
    last = "\n".join(f'        printf("%a ", (double){name}{at});' for name in names)
    pointers = "\n".join(f"    {element} (*{name}){size[3:]} = malloc(sizeof({element}{size}));" for name in names) if dimensions > 1 else \
        "\n".join(f"    {element} *{name} = malloc(n * sizeof *{name});" for name in names)
    return f"""#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{{
    const int n = atoi(argv[argc - 2]), steps = atoi(argv[argc - 1]);
{pointers}
{over}    {{
{first}
    }}
#pragma scop
    for (int t = 0; t < steps; t++) {{
{"".join(nests)}    }}
#pragma endscop
{over}    {{
{last}
    }}
    return 0;
}}
"""


def nest(draw, names, variables, reach):
    """Draws a nest of loops with one or two statements. Half of them read nothing that they write."""
    written = draw.choice(names)
    sources = names.replace(written, "") if len(names) > 1 and draw.random() < 0.5 else names
    number = draw.choice([1, 1, 2])
    statements = "".join(assignment(draw, written, sources, variables, reach) for _ in range(number))
    lines, depth = "", 2
    for v in variables:
        low, high = reach + draw.randint(0, 1), reach + draw.randint(0, 1)
        lines += "    " * depth + f"for (int {v} = {low}; {v} < n - {high}; {v}++)"
        depth += 1
        lines += " {\n" if v == variables[-1] else "\n"
    return lines + statements + "    " * (depth - 1) + "}\n"


def assignment(draw, written, sources, variables, reach):
    """Draws one statement, whose factors add up to less than one."""
    def read():
        offsets = [draw.randint(-reach, reach) for _ in variables]
        shifted = (f"[{v} {'-' if o < 0 else '+'} {abs(o)}]" if o else f"[{v}]" for v, o in zip(variables, offsets))
        return draw.choice(sources) + "".join(shifted)

    terms = [f"{draw.randint(1, 9) / 10 / 4} * {read()}" for _ in range(draw.randint(1, 4))]
    target = written + "".join(f"[{v}]" for v in variables)
    return "    " * (2 + len(variables)) + f"{target} = {' + '.join(terms)};\n"


def translate(source, target, *options):
    """Translates a program. Returns the error text of a refusal, otherwise an empty text."""
    made = subprocess.run([TOOL, "overlap", source, "-o", target, *options], capture_output=True, text=True, timeout=120)
    assert made.returncode in (0, 1) and (made.returncode == 0 or "error: " in made.stderr), made.stderr
    return made.stderr if made.returncode else ""


def build(compiler, source, program, *flags):
    """Compiles without warnings."""
    made = subprocess.run([compiler, *FLAGS, *flags, source, "-o", program, "-lm"], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, f"{source} does not compile:\n{made.stderr}"


def settings(draw):
    """Ways of a run: how long each is tried, and sometimes heights, widths, parts and the distribution."""
    env = {"OVERLAP_SPAN": str(draw.choice([0, 1, 1, 2, 2, 3, 5]))}
    if draw.random() < 0.5:
        env |= {"OVERLAP_HEIGHT": str(draw.choice([1, 2, 3, 4, 8])), "OVERLAP_WIDTH": str(draw.choice([1, 2, 3, 8]))}
    if draw.random() < 0.3:
        env["OVERLAP_SCHEME"] = draw.choice(["step", "tiles"])
    if draw.random() < 0.5:
        env["OVERLAP_TESTS"] = str(draw.choice([1, 2, 5]))
    return env


def equal(mpi, draw, source, sequential, options, threads, runs):
    """Translates and compares on random ranks, sizes and settings; whether it was translated."""
    target = source.with_name(f"{source.stem}-{'-'.join(options).strip('-')}.c")
    if translate(source, target, *options):
        assert not target.exists()
        return False
    build(mpi.mpicc, target, target.with_suffix(""), *(["-fopenmp"] if threads > 1 else []))
    for _ in range(runs):
        ranks, size, steps, env = draw.choice([1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8]), draw.randint(4, 40), draw.randint(0, 20), settings(draw)
        expected = subprocess.run([sequential, str(size), str(steps)], capture_output=True, text=True, timeout=60).stdout
        got = mpi.run(ranks, target.with_suffix(""), size, steps, env={**env, "OMP_NUM_THREADS": str(threads)})
        what = f"{options}, {ranks} ranks of {threads} threads, size {size}, {steps} steps, {env}:\n{source.read_text()}"
        assert got.status == 0 and not got.err, f"{what}\n{got}"
        assert got.out == expected, f"{what}\nother results"
    return True


def one(mpi, folder, seed, number, runs=2):
    """Draws stencil `number` and compares; how many distributions it has."""
    draw = random.Random(f"{seed} {number}")
    folder = Path(folder)
    source, sequential = folder / f"s{number}.c", folder / f"s{number}"
    source.write_text(stencil(draw))
    build("cc", source, sequential)
    done = 0
    try:
        for scheme in ("auto", draw.choice(["step", "tiles"])):
            options = ["--scheme", scheme, *draw.choice([[], [], ["--no-overlap"]])]
            done += equal(mpi, draw, source, sequential, options, draw.choice([1, 1, 1, 2]), runs)
    except AssertionError as wrong:
        raise AssertionError(f"stencil {number} of seed {seed}: {wrong}") from None
    return done
