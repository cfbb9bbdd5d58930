"""Messages to a user whose program crashes, hangs or does not free its objects."""

import signal

import pytest


def told(outcome, part):
    return [line for line in outcome.err.splitlines() if part in line]


@pytest.mark.parametrize("how, status, name", [("segv", 139, "SIGSEGV"), ("abort", 134, "SIGABRT"), ("sent", 139, "SIGSEGV")])
def test_a_crash_is_told_with_its_place(tutti, how, status, name):
    outcome = tutti.run(2, tutti.compile("crash.c"), how)
    assert outcome.status == status and not outcome.left, str(outcome)
    first = told(outcome, "tutti: rank 0: signal")
    assert len(first) == 1 and name in first[0], str(outcome)
    frames = told(outcome, "tutti: rank 0:")[1:]
    crash = next(number for number, line in enumerate(frames) if "crash_deliberately" in line)
    assert "crash.c:" in frames[crash] and "main" in frames[crash + 1] and crash <= 5, str(outcome)
    assert ("address 0x0" in first[0]) == (how == "segv"), str(outcome)


def test_a_stack_that_overflows_is_told(tutti):
    outcome = tutti.run(2, tutti.compile("crash.c"), "stack")
    assert outcome.status == 139 and told(outcome, "overflow_stack"), str(outcome)
    assert len(told(outcome, "tutti: rank 0:")) <= 65


def test_a_crash_is_not_told_where_that_is_not_wanted(tutti):
    outcome = tutti.run(2, tutti.compile("crash.c"), "segv", env={"TUTTI_BACKTRACE": "0"})
    assert outcome.status == 139 and not told(outcome, "tutti:"), str(outcome)


def test_a_handler_of_the_program_stays(tutti):
    outcome = tutti.run(2, tutti.compile("crash.c"), "segv", "own")
    assert outcome.status == 5 and "own handler" in outcome.out and not told(outcome, "tutti:"), str(outcome)


@pytest.mark.parametrize("way, size, rank", [("send", 64, 0), ("send", 1 << 22, 0), ("receive", 64, 1), ("bcast", 64, 1)])
def test_memory_of_a_device_is_named(tutti, way, size, rank):
    """Memory without access stands for memory of a device. A program that passes it to MPI gets an error that
    names the function."""
    outcome = tutti.run(2, tutti.compile("device.c"), way, size)
    assert outcome.status == 139 and not outcome.left, str(outcome)
    function = {"send": "MPI_Send", "receive": "MPI_Recv", "bcast": "MPI_Bcast"}[way]
    assert told(outcome, f"tutti: rank {rank}: {function} was given memory that it cannot use"), str(outcome)
    assert told(outcome, "memory of a device (GPU) cannot be handed to MPI"), str(outcome)


def test_memory_of_a_device_is_an_error_where_the_kernel_copies(tutti):
    outcome = tutti.run(2, tutti.compile("device.c"), "receive", 1 << 22, env={"TUTTI_SINGLE_COPY": "always", "TUTTI_MAPPED": "never"})
    if outcome.status == 139:
        pytest.skip("the system lets no process read the memory of another")
    assert outcome.status == 0 and "MPI_ERR_BUFFER" in outcome.out and "memory of a device" in outcome.out, str(outcome)


def test_an_interrupt_tells_who_waits(tutti):
    """Ctrl-C on a deadlock says where ranks wait, and nothing where none has waited for long."""
    job = tutti.begin(2, tutti.compile("deadlock.c"))
    assert job.until(lambda out, _: out.count("waits now") == 2), job.errors()
    assert not job.until(lambda *_: False, seconds=2)
    job.process.send_signal(signal.SIGINT)
    outcome = job.wait(30)
    assert outcome.status == 130, str(outcome)
    assert len(told(outcome, "waiting")) == 2 and "a receive from rank 1, tag 3" in outcome.err, str(outcome)


def test_an_interrupt_of_a_busy_job_is_silent(tutti):
    job = tutti.begin(2, "sh", "-c", "echo waits now; sleep 60")
    assert job.until(lambda out, _: out.count("waits now") == 2), job.errors()
    job.process.send_signal(signal.SIGINT)
    outcome = job.wait(30)
    assert outcome.status == 130 and not told(outcome, "waiting"), str(outcome)


def test_what_is_left_is_told(tutti):
    program = tutti.compile("leaks.c")
    outcome = tutti.run(3, program, "some", env={"TUTTI_REPORT_LEAKS": "1"})
    assert outcome.status == 0
    assert told(outcome, "MPI_Finalize") == ["tutti: rank 1: in MPI_Finalize there are left: 2 requests, 2 communicators, a datatype"], str(outcome)
    assert not told(tutti.run(3, program, "some"), "left")
    assert not told(tutti.run(3, program, env={"TUTTI_REPORT_LEAKS": "1"}), "left")
