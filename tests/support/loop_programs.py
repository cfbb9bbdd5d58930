"""Random programs of the C that `tutti overlap` accepts: types, names, bounds, functions, input, overlapping
arguments.

A program prints all bits of its arrays and its loop variables. `check` compares it with the sequential
program, or has it refused with a place. Sanitizers watch both.
"""

import collections
import os
import random
import re
import subprocess
from pathlib import Path

from stencils import FLAGS, TOOL, settings

SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Leaks are the library's and the program's own concern; threads of ranks share two processors.
ENV = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
COUNTERS = ["int", "int", "long", "unsigned", "size_t", "size_t", "short", "unsigned short", "unsigned char", "signed char",
            "unsigned long long", "long long", "int16_t", "uint32_t", "ptrdiff_t"]
SIZES = ["int", "int", "long", "unsigned", "size_t", "short", "unsigned char", "uint16_t", "unsigned long long"]
ELEMENTS = ["double", "double", "float", "int", "long", "short", "unsigned char", "unsigned", "long double", "uint64_t", "signed char"]
# Words of isl's language, words of the programs that are made, and letters beyond ASCII.
NAMES = ["rat", "exists", "not", "NaN", "infty", "mod", "floor", "min", "max", "L0", "N0", "N1", "A0", "S0", "P0", "t0", "t1", "border",
         "begin", "end", "rank", "ranks", "low", "high", "count", "next", "x", "y", "größe", "überall", "wert", "tile", "steps_", "strip",
         "overlap_min", "values", "ranges", "at", "u", "v", "w", "kk", "implies", "and", "or", "true_", "lexmin"]


# Why programs were refused, and how often.
reasons = collections.Counter()


class Program:
    """A program under construction."""

    def __init__(self, draw):
        self.draw = draw
        self.names = draw.sample(NAMES, len(NAMES)) if draw.random() < 0.5 else [f"n{number}" for number in range(40)]
        self.size, self.steps, self.factor = self.name(), self.name(), self.name()
        self.time, self.dimensions = self.name(), draw.choice([1, 1, 2, 2, 3])
        self.counters = [self.name() for _ in range(self.dimensions)]
        self.arrays = {self.name(): draw.choice(ELEMENTS) for _ in range(draw.randint(1, 3))}
        if draw.random() < 0.4:
            self.arrays = dict.fromkeys(self.arrays, draw.choice(ELEMENTS))
        self.types = [draw.choice(COUNTERS) for _ in range(self.dimensions + 1)]
        self.size_type, self.steps_type = draw.choice(SIZES), draw.choice(SIZES)
        self.is_shared = draw.random() < 0.3
        self.is_function = draw.random() < 0.4
        self.is_global = not self.is_function and draw.random() < 0.3
        self.reads_input = draw.random() < 0.4
        self.reach = draw.choice([1, 1, 2])
        self.is_odd = draw.random() < 0.35

    def name(self):
        return self.names.pop()

    def one_of(self, *items):
        return self.draw.choice(items)

    def bounds(self, depth, around):
        """Draws the first value and the end of a loop: within the array, sometimes moving with a loop around
        it, or with time."""
        low, high = str(self.reach + self.draw.randint(0, 1)), f"{self.size} - {self.reach + self.draw.randint(0, 1)}"
        if self.is_odd and around and self.draw.random() < 0.4:
            other = self.draw.choice(around)
            if self.draw.random() < 0.5:
                low = self.one_of(f"{other} + {self.reach}", f"{self.reach} + {other}", other)
            else:
                high = self.one_of(f"{self.size} - {other} - {self.reach}", f"{other} + 1", other)
        elif self.is_odd and self.draw.random() < 0.25:
            low, high = self.one_of((f"{self.reach} + {self.time}", high), (low, f"{self.size} - {self.reach} - {self.time}"))
        if self.draw.random() < 0.1:
            low = self.one_of(f"({self.draw.choice(COUNTERS)})({low})", f"(({low}))", f"{low} + 1 - 1")
        return low, high, self.one_of("<", "<", "<=") if high.count("-") == 1 and "reach" not in high and self.draw.random() < 0.3 else "<"

    def loop(self, at, around):
        name, kind = self.counters[at], self.types[at]
        low, high, relation = self.bounds(at, around)
        if relation == "<=":
            high = f"{high} - 1"
        step = self.one_of(f"{name}++", f"{name}++", f"++{name}", f"{name} += 1", f"{name} = {name} + 1")
        declared = "" if self.is_shared else f"{kind} "
        return f"for ({declared}{name} = {low}; {name} {relation} {high}; {step})"

    def subscript(self, name, offset):
        if offset == 0:
            return self.one_of(name, name, name, f"({name})", f"0 + {name}")
        return self.one_of(f"{name} {'-' if offset < 0 else '+'} {abs(offset)}", f"{offset} + {name}" if offset > 0 else f"{name} - {-offset}")

    def element(self, array, offsets):
        return array + "".join(f"[{self.subscript(name, offset)}]" for name, offset in zip(self.counters, offsets))

    def value(self, sources, kind):
        """Draws an expression without overflow: fractions of real numbers, remainders of whole ones."""
        def read():
            return self.element(self.draw.choice(sources), [self.draw.randint(-self.reach, self.reach) for _ in self.counters])
        number = self.draw.randint(1, 4)
        if kind in ("double", "float", "long double"):
            terms = [f"{self.draw.randint(1, 9) / 40} * {read()}" for _ in range(number)]
            terms += [self.factor + " * 0.125"] * (self.draw.random() < 0.2)
            terms += [f"(double)({self.counters[0]} % 3) / 8"] * (self.draw.random() < 0.2)
            terms += [f"({self.counters[-1]} > 5 ? 0.25 : 0.5)"] * (self.draw.random() < 0.1)
            return " + ".join(terms)
        terms = [f"(long)fmod((double){read()}, 31.0)" for _ in range(number)] + [f"(long)({self.counters[0]} % 7)"] * (self.draw.random() < 0.2)
        return f"({' + '.join(terms)}) % 97"

    def nest(self):
        written = self.draw.choice(list(self.arrays))
        others = [name for name in self.arrays if name != written]
        sources = others if others and self.draw.random() < 0.5 else list(self.arrays)
        kind, order = self.arrays[written], list(range(self.dimensions))
        lines, around = "", []
        for depth, at in enumerate(order):
            lines += "    " * (depth + 2) + self.loop(at, around) + self.one_of(" {\n", "\n" if depth + 1 < self.dimensions else " {\n")
            around.append(self.counters[at])
        braces = lines.count("{\n")
        target = self.element(written, [0] * self.dimensions)
        blanks = "    " * (2 + self.dimensions)
        if len(others) and self.draw.random() < 0.2:
            body = f"{blanks}{target} = {self.element(self.draw.choice(others), [0] * self.dimensions)};\n"
        elif self.draw.random() < 0.2:
            local = self.one_of("part", "sum_", "tmp")
            kind_of_local = kind if kind in ("double", "float", "long double") else "long"
            body = f"{blanks}{kind_of_local} {local} = {self.value(sources, kind)};\n{blanks}{target} = {local};\n"
        else:
            body = "".join(f"{blanks}{target} = {self.value(sources, kind)};\n" for _ in range(self.draw.choice([1, 1, 2])))
        return lines + body + "".join("    " * (2 + depth) + "}\n" for depth in reversed(range(self.dimensions - braces, self.dimensions)))

    def text(self):
        d, size = self.dimensions, self.size
        arrays, over = list(self.arrays), "".join(f"    for (long z{at} = 0; z{at} < (long){self.size}; z{at}++)\n" for at in range(self.dimensions))
        at = "".join(f"[z{one}]" for one in range(d))
        place = " + ".join(f"{3 + 4 * one} * z{one}" for one in range(d))
        first = "".join(f"        {name}{at} = ({kind})(({place}) * {7 + number} % 101){' / 101' if kind in ('double', 'float', 'long double') else ''};\n"
                        for number, (name, kind) in enumerate(self.arrays.items()))
        last = "".join(f'        printf("%La ", (long double){name}{at});\n' for name in arrays)
        rows = f"[{size}]" * (d - 1)
        counters = self.counters if self.is_shared else []
        time = "" if self.is_shared else f"{self.types[-1]} "
        region = f"""{self.one_of('#pragma scop', '#pragma tutti overlap') }
    for ({time}{self.time} = 0; {self.time} < {self.steps}; {self.time}++) {{
{"".join(self.nest() for _ in range(self.draw.randint(1, 3)))}    }}
"""
        region = self.styled(region)
        if region.startswith("#pragma scop"):
            region += "#pragma endscop\n"
        shared = "".join(f"    {kind} {name} = 77;\n" for name, kind in zip([*counters, self.time], self.types)) if self.is_shared else ""
        shown = "".join(f'    printf("{name} %ld\\n", (long){name});\n' for name in [*counters, self.time]) if self.is_shared else ""
        numbers = f"{self.size_type} {size}, {self.steps_type} {self.steps}, double {self.factor}"
        head = ["#include <math.h>", "#include <stddef.h>", "#include <stdint.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <time.h>", ""]
        whole = f"""    const {self.size_type} {size} = ({self.size_type})atoi(argv[argc - 2]);
    const {self.steps_type} {self.steps} = ({self.steps_type})atoi(argv[argc - 1]);
    double {self.factor} = 0.5;
"""
        if self.reads_input:
            whole += f'    if (scanf("%lf", &{self.factor}) != 1)\n        return 3;\n    srand((unsigned)time(NULL));\n    printf("once\\n");\n'
        blocks = f"sizeof({{kind}}[{size}]{rows})"
        memory = ""
        if self.is_global:
            head += [f"static {kind} {name}{'[48]' * d};" for name, kind in self.arrays.items()]
        for name, kind in self.arrays.items():
            pointer = f"{kind} (*{name}){rows}" if d > 1 else f"{kind} *{name}"
            if not self.is_global:
                memory += f"    {pointer} = calloc(2, {blocks.format(kind=kind)} + 16);\n"
        body = f"{whole}{memory}{over}    {{\n{first}    }}\n"
        if self.is_function:
            pointers = ", ".join(f"{kind} (*{name}){rows}" if d > 1 else f"{kind} *{name}" for name, kind in self.arrays.items())
            head += [f"static void work({numbers}, {pointers})", "{", shared + region + shown, f"    (void){self.factor};", "}", ""]
            body += f"    work({size}, {self.steps}, {self.factor}, {', '.join(self.arguments())});\n"
        else:
            body += f"    (void){self.factor};\n{shared}{region}{shown}"
        body += f"{over}    {{\n{last}    }}\n"
        return "\n".join(head) + f"\nint main(int argc, char **argv)\n{{\n{body}    return 0;\n}}\n"

    def styled(self, region):
        """Returns the same loops as other people indent them."""
        pragma, *lines = region.splitlines()
        style = self.one_of("plain", "plain", "flat", "one line", "gnu", "after")
        if style == "flat":
            lines = [line.strip() for line in lines]
        elif style == "one line":
            lines = [" ".join(line.strip() for line in lines)]
        elif style == "gnu":
            lines = [new for line in lines for new in ([line[:-2], line[: len(line) - len(line.lstrip())] + "  {"] if line.endswith(" {") else [line])]
        elif style == "after":
            lines = [line + self.one_of("", " // because", " /* for (;;) { */") for line in lines]
        return "\n".join([pragma, *lines]) + "\n"

    def arguments(self):
        """Arrays, of which one may lie in another, if they are of one type."""
        names = list(self.arrays)
        kinds = set(self.arrays.values())
        if len(names) > 1 and len(kinds) == 1 and self.dimensions == 1 and self.draw.random() < 0.4:
            # Half of the memory of an array is behind it.
            names[1] = self.one_of(names[0], f"&{names[0]}[1]", f"{names[0]} + 3", f"{names[0]} + {self.size} - 2", f"{names[0]} + {self.size}")
        return names


def translate(source, target, *options):
    made = subprocess.run([TOOL, "overlap", source, "-o", target, *options], capture_output=True, text=True, timeout=300)
    refused = re.fullmatch(rf"{re.escape(str(source))}:\d+:\d+: error: .*\n", made.stderr)
    assert (made.returncode == 0 and not made.stderr) or (made.returncode == 1 and refused), f"status {made.returncode}: {made.stderr}"
    return made.stderr


def build(compiler, source, program, *flags):
    """Compiles under sanitizers; returns flags that silence the warnings there were."""
    made = subprocess.run([compiler, *FLAGS, *SANITIZED, *flags, source, "-o", program, "-lm"], capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, f"{source} does not compile:\n{made.stderr}"
    return sorted({f"-Wno-{kind.split('=')[0]}" for kind in re.findall(r"\[-W([a-z+-]+)", made.stderr)})


def runs_alone(program, *arguments):
    """Returns the output of the sequential program, or None if a sanitizer stops it."""
    done = subprocess.run([program, *map(str, arguments)], input="0.75\n", capture_output=True, text=True, timeout=120, env={**os.environ, **ENV})
    return done.stdout if done.returncode == 0 else None


def check(mpi, folder, seed, number):
    """Draws program `number` and compares it. Returns 'equal', 'alone' (rank 0 computed it alone), 'refused',
    or 'undefined' (no defined result)."""
    draw = random.Random(f"{seed} {number}")
    folder = Path(folder)
    source, target = folder / f"l{number}.c", folder / f"l{number}-mpi.c"
    source.write_text(Program(draw).text())
    (folder / "input").write_text("0.75\n")
    scheme = draw.choice(["auto", "auto", "step", "tiles"])
    try:
        if refusal := translate(source, target, "--scheme", scheme, *draw.choice([[], [], ["--no-overlap"]])):
            assert not target.exists()
            reasons[re.sub(r"^[^`]*`.*` ", "", refusal.strip())] += 1
            return "refused"
        known = build("cc", source, folder / "sequential", "-Wno-error")
        build(mpi.mpicc, target, folder / "parallel", *known)
        outcome = "undefined"
        for _ in range(2):
            ranks, size, steps = draw.randint(1, 7), draw.randint(4, 40), draw.choice([0, 1, 2, draw.randint(3, 20)])
            env = settings(draw)
            expected = runs_alone(folder / "sequential", size, steps)
            if expected is None:
                continue
            with open(folder / "input", encoding="ascii") as stdin:
                got = mpi.run(ranks, folder / "parallel", size, steps, env={**env, **ENV}, stdin=stdin)
            what = f"--scheme {scheme}, {ranks} ranks, size {size}, {steps} steps, {env}"
            says = re.fullmatch(r"(overlap: l\d+\.c:\d+: [^\n]* rank 0 computes the region alone\n)*", got.err)
            assert got.status == 0 and says, f"{what}\n{got}"
            assert got.out == expected, f"{what}\nother results"
            outcome = "alone" if got.err else outcome if outcome == "alone" else "equal"
        return outcome
    except AssertionError as wrong:
        raise AssertionError(f"program {number} of seed {seed}: {wrong}\n{source.read_text()}") from None
