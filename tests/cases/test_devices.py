"""Memory of devices that is given to MPI."""

import pytest

from harness import check


@pytest.mark.parametrize("reach", ["apart", "reachable"])
@pytest.mark.parametrize("flags", [[], ["-DONE"]], ids=["many", "one"])
def test_memory_of_a_device_is_refused_by_name(tutti, flags, reach):
    """The driver, here a made one, is loaded after MPI_Init and asked about every buffer."""
    driver = tutti.compile("devices/fake_cuda.c", *flags, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
                           name="libcuda_one.so" if flags else "libcuda_many.so")
    check(tutti.run(2, tutti.compile("devices/device_pointers.c", "-ldl"), driver, reach))
