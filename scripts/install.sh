#!/bin/sh
# Installs what `cargo build --release` has made. usage: scripts/install.sh PREFIX
# DESTDIR, if set, goes before PREFIX; PROFILE is that of the build (release), TARGET its processor and
# system, if cargo was told one. With STRIP=1 programs and libraries are installed without symbols for a
# debugger (libmpi_abi.so.1: 37 MB -> 6), with DEBUG_INFO=1 besides, these lie beside them as FILE.debug.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:?usage: scripts/install.sh PREFIX}
to=${DESTDIR:-}$prefix
built=${CARGO_TARGET_DIR:-$root/target}/${TARGET:+$TARGET/}${PROFILE:-release}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)

install -d "$to/bin" "$to/lib/pkgconfig" "$to/include" "$to/share/tutti"
# A running job keeps the old file, because each file is put in its place by a rename. A file that has not
# changed stays, so that no build that depends on it is repeated.
place() { # MODE FROM TO
    if cmp -s "$2" "$3"; then return; fi
    install -m "$1" "$2" "$3.new"
    mv -f "$3.new" "$3"
}
# A program or a library.
binary() { # FROM TO
    [ -n "${STRIP:-}" ] || { place 755 "$1" "$2"; return; }
    strip --strip-unneeded -o "$2.stripped" "$1"
    if [ -n "${DEBUG_INFO:-}" ]; then
        objcopy --only-keep-debug "$1" "$2.debug"
        objcopy --add-gnu-debuglink="$2.debug" "$2.stripped"
    fi
    place 755 "$2.stripped" "$2"
    rm -f "$2.stripped"
}
binary "$built/mpirun" "$to/bin/mpirun"
binary "$built/tutti" "$to/bin/tutti"
binary "$built/tutti-overlap" "$to/bin/tutti-overlap"
# For administrators: `systemctl enable --now tutti-netd`, where PREFIX is one that systemd looks into.
install -d "$to/lib/systemd/system"
unit=$to/lib/systemd/system/tutti-netd.service
sed "s|@PREFIX@|$prefix|" "$root/scripts/tutti-netd.service" > "$unit.made"
place 644 "$unit.made" "$unit"
rm -f "$unit.made"
place 755 "$root/crates/abi/wrappers/mpicc" "$to/bin/mpicc"
place 644 "$root/crates/abi/include/mpi.h" "$to/include/mpi.h"
place 644 "$root/crates/abi/include/mpi_removed.h" "$to/include/mpi_removed.h"
place 644 "$root/crates/abi/include/mpi-ext.h" "$to/include/mpi-ext.h"
place 644 "$root/crates/launch/suppressions/thread-sanitizer.supp" "$to/share/tutti/thread-sanitizer.supp"
place 644 "$root/crates/launch/suppressions/valgrind.supp" "$to/share/tutti/valgrind.supp"
binary "$built/libmpi_abi.so" "$to/lib/libmpi_abi.so.1"
# Libraries for programs that were built for other ABIs: in folders of their own, so that they never shadow
# another library by accident.
front() { # FOLDER BUILT NAME ALSO...
    install -d "$to/lib/tutti/$1"
    binary "$built/$2" "$to/lib/tutti/$1/$3"
    folder=$to/lib/tutti/$1 name=$3
    shift 3
    for also in "$@"; do ln -sf "$name" "$folder/$also"; done
}
# Programs load libmpi.so without a version. A wheel has an empty library in its place.
front mpich libmpi_mpich.so libmpi.so.12 libmpich.so.12 libmpicxx.so.12 libmpichcxx.so.12 libmpi.so libmpich.so
front openmpi libmpi_openmpi.so libmpi.so.40 libmpi_cxx.so.40 libmpi.so
# Programs by which scripts determine the library. They lie beside the ABIs' libraries: in bin they would
# identify Tutti as another library.
install -d "$to/lib/tutti/openmpi/bin" "$to/lib/tutti/mpich/bin"
place 755 "$root/crates/fronts/wrappers/ompi_info" "$to/lib/tutti/openmpi/bin/ompi_info"
place 755 "$root/crates/fronts/wrappers/mpichversion" "$to/lib/tutti/mpich/bin/mpichversion"
place 755 "$root/crates/fronts/wrappers/impi_info" "$to/lib/tutti/mpich/bin/impi_info"
# Fortran's layer in C, for each ABI. The layer calls the library of that ABI: the standard's by its name, the
# fronts' beside it.
layer() { # FOLDER NAME LIBRARY FLAG ALSO...
    folder=$to/$1 name=$2 library=$to/$3 flag=$4
    shift 4
    sources=$root/crates/fronts/fortran
    if [ ! -e "$folder/$name" ] || [ -n "$(find "$sources" -name '*.[ch]' -newer "$folder/$name")" ]; then
        # shellcheck disable=SC2086 # flags
        ${CC:-cc} -std=gnu11 -O2 -fPIC -shared -Wall -Wno-maybe-uninitialized $flag -Wl,-soname,"$name" -Wl,-Bsymbolic-functions \
            -Wl,-z,undefs -Wl,--enable-new-dtags '-Wl,-rpath,$ORIGIN:$ORIGIN/../..' -o "$folder/$name.new" "$sources/fortran.c" \
            "$library" "$to/lib/libmpi_abi.so.1"
        mv -f "$folder/$name.new" "$folder/$name"
    fi
    for also in "$@"; do ln -sf "$name" "$folder/$also"; done
}
layer lib libmpifort_abi.so.1 lib/libmpi_abi.so.1 "" libmpifort_abi.so
# Open MPI's modules have libraries of their own; those that end with -gfortran are Debian's.
layer lib/tutti/openmpi libmpi_mpifh.so.40 lib/tutti/openmpi/libmpi.so.40 -DTUTTI_OPENMPI libmpi_usempi_ignore_tkr.so.40 \
    libmpi_usempif08.so.40 libmpi_mpifh-gfortran.so.40 libmpi_usempi_ignore_tkr-gfortran.so.40 libmpi_usempif08-gfortran.so.40
layer lib/tutti/mpich libmpifort.so.12 lib/tutti/mpich/libmpi.so.12 -DTUTTI_MPICH libmpichf90.so.12 libmpichfort.so.12 libfmpich.so.12
place 644 "$root/crates/fronts/fortran/generated/mpif.h" "$to/include/mpif.h"
ln -sf mpicc "$to/bin/mpifort"
ln -sf mpicc "$to/bin/mpif77"
ln -sf mpicc "$to/bin/mpif90"
ln -sf mpirun "$to/bin/mpiexec"
ln -sf mpicc "$to/bin/mpicxx"
ln -sf mpicc "$to/bin/mpic++"
ln -sf libmpi_abi.so.1 "$to/lib/libmpi_abi.so"
sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$version|g" "$root/crates/abi/wrappers/tutti.pc.in" > "$to/lib/pkgconfig/tutti.pc"
ln -sf tutti.pc "$to/lib/pkgconfig/mpi.pc"
# An environment module: `module use PREFIX/share/modulefiles; module load tutti`.
install -d "$to/share/modulefiles/tutti"
module=$to/share/modulefiles/tutti/$version
sed -e "s|@PREFIX@|$prefix|g" -e "s|@VERSION@|$version|g" "$root/packaging/module/tutti.in" > "$module.made"
place 644 "$module.made" "$module"
rm -f "$module.made"
# Manual pages, completion for shells: by the program that has their tables, where it runs here.
if [ -z "${TARGET:-}" ]; then
    "$built/tutti" manual "$to/share"
fi
echo "installed in $to"
