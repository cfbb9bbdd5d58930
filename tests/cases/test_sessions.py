"""Sessions and the world (MPI-5 chapter 11): any order and number, each with level, buffer and error
handler."""

import pytest

from harness import check
from hosts import Cluster

# See sessions_order.c for the letters.
ORDERS = ["wf", "s", "sss", "m", "swfs", "wfs", "wfm", "wfsmsmsm", "mwfs", "hwfc", "hwfcss", "wfhmc", "wfHhcc", "hHwsmfcc", "whfc", "wHfcm",
          "smWmfs", "hwcfs", "HWfsc", "sWf", "hWfc", "mwmfm", "hhhhwfcccc" + 12 * "s"]


@pytest.mark.parametrize("order", ORDERS)
def test_sessions_and_the_world_come_in_any_order(tutti, order):
    check(tutti.run(2, tutti.compile("sessions_order.c"), order))


@pytest.mark.parametrize("order", ["swfs", "wfsms", "hwfcm"])
def test_more_ranks_and_a_thread(tutti, order):
    check(tutti.run(4, tutti.compile("sessions_order.c"), order))
    check(tutti.run(1, tutti.compile("sessions_order.c"), order))
    check(tutti.run(2, tutti.compile("sessions_order.c"), order, env={"TUTTI_PROGRESS_THREAD": "1"}))


@pytest.mark.parametrize("connections", ["never", "static"])
@pytest.mark.parametrize("order", ["swfs", "wfsms", "hwfcm"])
def test_sessions_between_hosts(mpi, hosts, order, connections):
    cluster = Cluster(mpi.name, hosts(2), 2)
    check(cluster.run(4, cluster.compile("sessions_order.c"), order, env={"TUTTI_CONNECTIONS": connections}))


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_session_has_its_buffer_and_its_error_handler(mpi, ranks):
    check(mpi.run(ranks, mpi.compile("session_objects.c")))
