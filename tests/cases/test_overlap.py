"""`tutti overlap`: programs made by it compute the same bits as the sequential ones, on any number of ranks."""

import os
import random
import re
import subprocess

import pytest

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
    """20 of them; `make public` has 500, and OVERLAP_STENCILS any number."""
    count, seed = int(os.environ.get("OVERLAP_STENCILS", 20)), random.randrange(10**6)
    print(f"seed {seed}")
    assert sum(one(mpi, tmp_path, seed, number, runs=1) > 0 for number in range(count)) >= count * 3 / 4


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
    """What a measured program has printed: its first line, seconds and share by name, the way that was kept."""
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
    """What --no-overlap leaves out: tests, and sends that are not waited for at once."""
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
