"""`tutti overlap`: programs made by it compute the same bits as the sequential ones, on any number of
ranks."""

import os
import random
import re
import subprocess

import pytest

import loop_programs
from harness import SOURCES
from stencils import build, one, settings, translate

KERNELS = ["jacobi-1d", "fdtd-1d", "seidel-2d", "adi-2d", "heat-2d", "fdtd-2d", "heat-3d"]
# In place along the dimension that is distributed: only slanted tiles are legal.
ONLY_TILES = {"seidel-2d", "adi-2d"}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_equal_bit_by_bit(mpi, tmp_path, kernel):
    draw = random.Random(kernel)
    source, sequential = SOURCES / "overlap" / f"{kernel}.c", tmp_path / "sequential"
    build("cc", source, sequential)
    for scheme, *more in (["auto"], ["step"], ["tiles"], ["auto", "--no-overlap"], ["tiles", "--measure"]):
        target = tmp_path / f"{scheme}{''.join(more)}.c"
        refused = translate(source, target, "--scheme", scheme, *more)
        assert bool(refused) == (scheme == "step" and kernel in ONLY_TILES), refused
        assert target.exists() != bool(refused)
        if refused:
            continue
        build(mpi.mpicc, target, target.with_suffix(""))
        for ranks in draw.sample(range(1, 9), 2):
            size, steps, env = draw.randint(5, 40), draw.randint(0, 20), settings(draw)
            expected = subprocess.run([sequential, str(size), str(steps)], capture_output=True, text=True).stdout
            got = mpi.run(ranks, target.with_suffix(""), size, steps, env=env)
            what = f"{scheme} {more}, {ranks} ranks, size {size}, {steps} steps, {env}"
            assert got.status == 0 and (not got.err or "--measure" in more), f"{what}\n{got}"
            assert got.out == expected, what


def test_random_stencils_are_equal_bit_by_bit(mpi, tmp_path):
    """10 of them; `make public` has 500, and OVERLAP_STENCILS any number."""
    count, seed = int(os.environ.get("OVERLAP_STENCILS", 10)), random.randrange(10**6)
    print(f"seed {seed}")
    assert sum(one(mpi, tmp_path, seed, number, runs=1) > 0 for number in range(count)) >= count * 3 / 4


def test_random_loops_are_equal_bit_by_bit_or_refused(mpi, tmp_path):
    """12 of them, under sanitizers; `make public` has 2000, and OVERLAP_LOOPS any number."""
    count, seed = int(os.environ.get("OVERLAP_LOOPS", 12)), random.randrange(10**6)
    print(f"seed {seed}")
    outcomes = [loop_programs.check(mpi, tmp_path, seed, number) for number in range(count)]
    assert outcomes.count("refused") <= count / 2, outcomes


def parallel(mpi, folder, name, text, ranks, *arguments, stdin=None, flags=()):
    """Returns the output of a program run sequentially and run on ranks, and the standard error of the
    latter."""
    source, target = folder / f"{name}.c", folder / f"{name}-mpi.c"
    source.write_text(text)
    build("cc", source, folder / name)
    assert not translate(source, target)
    build(mpi.mpicc, target, target.with_suffix(""), *flags)
    (folder / "input").write_text(stdin or "")
    expected = subprocess.run([folder / name, *map(str, arguments)], input=stdin or "", capture_output=True, text=True, timeout=60).stdout
    with open(folder / "input", encoding="ascii") as file:
        got = mpi.run(ranks, target.with_suffix(""), *arguments, stdin=file)
    assert got.status == 0, got
    return expected, got.out, got.err


INPUT = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void smooth(int steps, double weight, double *a, double *b);
static double a[400], b[400];
int main(void)
{
    double weight, sum = 0;
    FILE *file = fopen("log", "a");
    printf("before\\n");
    if (!file || scanf("%lf", &weight) != 1)
        return 1;
    fprintf(file, "%ld\\n", (long)getpid());
    fclose(file);
    srand((unsigned)getpid());
    for (int i = 0; i < 400; i++)
        a[i] = b[i] = rand() % 100;
    smooth(0, weight, a, b);
    smooth(20, weight, a, b);
    for (int i = 0; i < 400; i++)
        sum += a[i] - b[i];
    printf("%d\\n", sum == 0);
    return 0;
}
"""
SMOOTH = """void smooth(int steps, double weight, double *a, double *b)
{
#pragma tutti overlap
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < 399; i++)
            b[i] = a[i] + weight * (a[i - 1] - 2 * a[i] + a[i + 1]);
        for (int i = 1; i < 399; i++)
            a[i] = b[i];
    }
}
"""


def test_all_but_regions_runs_once_also_in_several_files(tutti, tmp_path):
    """Input, output, a log, the process number are those of rank 0; main is in a file without a region."""
    (tmp_path / "input.c").write_text(INPUT)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "input.c").write_text(SMOOTH)
    sources = [tmp_path / "input.c", tmp_path / "other" / "input.c"]
    subprocess.run([tutti.mpicc, "--overlap", "-O1", *sources, "-o", tmp_path / "program"], check=True, timeout=120)
    (tmp_path / "number").write_text("0.25\n")
    for ranks in (1, 4):
        (tmp_path / "log").unlink(missing_ok=True)
        with open(tmp_path / "number", encoding="ascii") as stdin:
            got = tutti.run(ranks, tmp_path / "program", stdin=stdin, cwd=tmp_path)
        assert got.status == 0 and got.out == "before\n1\n" and not got.err, got
        assert len((tmp_path / "log").read_text().split()) == 1


def test_loop_variables_are_left_as_the_loops_leave_them(mpi, tmp_path):
    text = """#include <stdio.h>
#include <stdlib.h>
double a[100], b[40][40];
int main(int argc, char **argv)
{
    int i = 7, j = 8, t = 9, k = 10, n = atoi(argv[argc - 1]), steps = atoi(argv[argc - 2]);
#pragma tutti overlap
    for (t = 0; t < steps; t++) {
        for (i = 1; i < n; i++)
            a[i] = a[i] * 0.5 + 1;
        for (j = 3; j < n; j++)
            for (k = j; k < n - j; k++)
                b[j][k] = b[j][k] + a[j];
    }
    printf("%d %d %d %d %a\\n", i, j, k, t, b[3][4]);
    return 0;
}
"""
    for steps, n in ((0, 30), (3, 30), (3, 2), (2, 0)):
        expected, got, err = parallel(mpi, tmp_path, "counters", text, 2, steps, n)
        assert got == expected and not err, (steps, n, got, expected)


def test_memory_that_overlaps_is_computed_by_rank_0_alone(mpi, tmp_path):
    text = """#include <stdio.h>
static double a[200];
static void smooth(double *p, double *q, int steps)
{
#pragma scop
    for (int t = 0; t < steps; t++) {
        for (int i = 1; i < 99; i++)
            q[i] = (p[i - 1] + p[i] + p[i + 1]) / 3;
        for (int i = 1; i < 99; i++)
            p[i] = q[i] * 0.9;
    }
#pragma endscop
}
int main(void)
{
    double *w = a, sum = 0;
    for (int i = 0; i < 200; i++)
        a[i] = i * 5 % 31;
    w += WHERE;
    smooth(a, w, 3);
    for (int i = 0; i < 200; i++)
        sum += a[i] * i;
    printf("%a\\n", sum);
    return 0;
}
"""
    for where in (0, 1, 98, 99, 100):
        expected, got, err = parallel(mpi, tmp_path, "memory", text.replace("WHERE", str(where)), 3)
        words = "overlap: memory.c:6: p and q overlap in memory: rank 0 computes the region alone\n"
        assert got == expected and err == (words if where < 99 else ""), (where, err)


def test_sizes_that_wrap_around_are_computed_by_rank_0_alone(mpi, tmp_path):
    """The first loop begins at a great number, and is not entered."""
    text = """#include <stdio.h>
#include <stdlib.h>
static double a[100], b[100];
int main(int argc, char **argv)
{
    size_t n = (size_t)atoi(argv[argc - 1]);
    for (size_t i = 0; i < 100; i++)
        a[i] = b[i] = i * 5 % 31;
#pragma scop
    for (size_t t = 0; t < 4; t++) {
        for (size_t i = n - 5; i < n; i++)
            a[i] = a[i] + 1;
        for (size_t i = 1; i < 99; i++)
            b[i] = a[i - 1] + a[i + 1];
    }
#pragma endscop
    for (size_t i = 0; i < 100; i++)
        printf("%a %a\\n", a[i], b[i]);
    return 0;
}
"""
    for n in (3, 5, 50):
        expected, got, err = parallel(mpi, tmp_path, "wraps", text, 2, n)
        words = "overlap: wraps.c:10: with these sizes a number of a loop does not fit its type: rank 0 computes the region alone\n"
        assert got == expected and err == (words if n < 5 else ""), (n, err)


def test_threads_inside_of_ranks_compute_the_same(mpi, tmp_path):
    """heat-2d with OpenMP: parallel loops in the program, and results of one rank, of threads, of both."""
    source, target = SOURCES / "overlap" / "heat-2d.c", tmp_path / "threads.c"
    build("cc", source, tmp_path / "sequential")
    assert not translate(source, target) and "#pragma omp parallel for" in target.read_text()
    build(mpi.mpicc, target, tmp_path / "threads", "-fopenmp")
    expected = subprocess.run([tmp_path / "sequential", "50", "40"], capture_output=True, text=True).stdout
    for ranks, threads in ((1, 3), (3, 2)):
        got = mpi.run(ranks, tmp_path / "threads", 50, 40, env={"OMP_NUM_THREADS": str(threads), "OVERLAP_SPAN": "3"})
        assert got.status == 0 and got.out == expected, f"{ranks} ranks of {threads} threads\n{got}"


def measured(mpi, program, *arguments):
    """Returns the output of a measured program: its first line, seconds and share by name, and the variant
    that was kept."""
    got = mpi.run(2, program, *arguments, env={"OVERLAP_SPAN": "4"})
    assert got.status == 0, got
    table = {name: float(value) for name, value in re.findall(r"^(T_comp|T_comm|T_exec|ROR) +(-?[0-9.]+) [s%]$", got.err, re.M)}
    kept = re.search(r"^overlap: (tiles of \d+ steps, \d+ positions in a row|step by step, the inner part in \d+)$", got.err, re.M)
    return got.err.splitlines()[0], table, kept


def test_a_measured_program_prints_its_table(mpi, tmp_path):
    for kernel, lines in (("seidel-2d", "lines 14 to 19"), ("jacobi-1d", "lines 19 to 24")):
        target = tmp_path / f"{kernel}.c"
        assert not translate(SOURCES / "overlap" / f"{kernel}.c", target, "--measure")
        build(mpi.mpicc, target, target.with_suffix(""))
        first, table, kept = measured(mpi, target.with_suffix(""), 60, 60)
        assert first == f"overlap: {lines}, 2 ranks" and kept, (first, kept)
        assert all(table[name] > 0 for name in ("T_comp", "T_comm", "T_exec")), table
        share = 100 * (table["T_comp"] + table["T_comm"] - table["T_exec"]) / min(table["T_comp"], table["T_comm"])
        # Of numbers that were rounded to a millionth.
        rounded = 2e-4 * (1 + abs(share) / 100) / min(table["T_comp"], table["T_comm"])
        assert abs(share - table["ROR"]) < 0.1 + rounded, table


def test_a_waiting_program_waits_where_the_other_one_computes(tmp_path):
    """Tests and sends that are not waited for at once are left out by --no-overlap."""
    source = SOURCES / "overlap" / "jacobi-1d.c"
    texts = []
    for more in ([], ["--no-overlap"]):
        assert not translate(source, tmp_path / "program.c", *more)
        texts.append((tmp_path / "program.c").read_text())
    assert "MPI_Test(" in texts[0] and "MPI_Test(" not in texts[1]
    assert "Made from jacobi-1d.c by tutti overlap --no-overlap." in texts[1] and texts[1].count("overlap_wait(") > texts[0].count("overlap_wait(")


def test_the_wrapper_translates_and_compiles(tutti, tmp_path):
    source = SOURCES / "overlap" / "seidel-2d.c"
    subprocess.run([tutti.mpicc, "--overlap", "-O2", source, "-o", tmp_path / "seidel"], check=True, timeout=120)
    build("cc", source, tmp_path / "sequential")
    got = tutti.run(3, tmp_path / "seidel", 30, 9, env={"OVERLAP_HEIGHT": "2"})
    assert got.status == 0 and got.out == subprocess.run([tmp_path / "sequential", "30", "9"], capture_output=True, text=True).stdout
    bad = tmp_path / "bad.c"
    bad.write_text("int main(void)\n{\n#pragma scop\n    while (1)\n        ;\n#pragma endscop\n}\n")
    made = subprocess.run([tutti.mpicc, "--overlap", bad, "-o", tmp_path / "bad"], capture_output=True, text=True, timeout=60)
    assert made.returncode != 0 and "bad.c:4:5: error: " in made.stderr and not (tmp_path / "bad").exists()
