#!/bin/sh
# Installs what `cargo build --release` has made. usage: scripts/install.sh PREFIX
# DESTDIR, if set, goes before PREFIX; PROFILE is that of the build (release).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:?usage: scripts/install.sh PREFIX}
to=${DESTDIR:-}$prefix
built=${CARGO_TARGET_DIR:-$root/target}/${PROFILE:-release}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

install -d "$to/bin" "$to/lib/pkgconfig" "$to/include"
# A running job keeps the old file: each is put in its place by a rename. What is the same stays, so that nobody builds on it anew.
place() { # MODE FROM TO
    if cmp -s "$2" "$3"; then return; fi
    install -m "$1" "$2" "$3.new"
    mv -f "$3.new" "$3"
}
place 755 "$built/mpirun" "$to/bin/mpirun"
place 755 "$built/tutti" "$to/bin/tutti"
place 755 "$root/crates/abi/wrappers/mpicc" "$to/bin/mpicc"
place 644 "$root/crates/abi/include/mpi.h" "$to/include/mpi.h"
place 644 "$root/crates/abi/include/mpi_removed.h" "$to/include/mpi_removed.h"
place 755 "$built/libmpi_abi.so" "$to/lib/libmpi_abi.so.1"
# Libraries for programs that were built for other ABIs: in folders of their own, so that they never shadow another library by accident.
front() { # FOLDER BUILT NAME ALSO...
    install -d "$to/lib/tutti/$1"
    place 755 "$built/$2" "$to/lib/tutti/$1/$3"
    folder=$to/lib/tutti/$1 name=$3
    shift 3
    for also in "$@"; do ln -sf "$name" "$folder/$also"; done
}
front mpich libmpi_mpich.so libmpi.so.12 libmpich.so.12 libmpicxx.so.12
front openmpi libmpi_openmpi.so libmpi.so.40 libmpi_cxx.so.40
ln -sf mpirun "$to/bin/mpiexec"
ln -sf mpicc "$to/bin/mpicxx"
ln -sf mpicc "$to/bin/mpic++"
ln -sf libmpi_abi.so.1 "$to/lib/libmpi_abi.so"
sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$version|g" "$root/crates/abi/wrappers/tutti.pc.in" > "$to/lib/pkgconfig/tutti.pc"
ln -sf tutti.pc "$to/lib/pkgconfig/mpi.pc"
echo "installed in $to"
