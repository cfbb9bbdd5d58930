#!/bin/sh
# Builds the modules mpi and mpi_f08 for a Fortran compiler and puts them beside an installed Tutti; .mod
# files are a compiler's own, so that each has a folder. usage: [FC=gfortran] scripts/fortran.sh PREFIX
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
prefix=${1:?usage: scripts/fortran.sh PREFIX}
to=${DESTDIR:-}$prefix
compiler=${FC:-gfortran}
command -v "$compiler" > /dev/null || { echo "fortran: there is no compiler $compiler; name one: FC=flang make install-fortran" >&2; exit 1; }
sources=$root/crates/fronts/fortran
folder=$to/lib/tutti/fortran/$(basename "$compiler")
install -d "$folder" "$to/include"
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cp "$sources"/*.f90 "$sources"/*.inc "$sources/generated/mpif.h" "$sources"/generated/*.inc "$build"
(cd "$build" && "$compiler" -c -O2 -fPIC mpi.f90 && "$compiler" -c -O2 -fPIC mpi_f08.f90 && ar rcs libtutti_f08.a mpi.o mpi_f08.o)
install -m 644 "$build"/*.mod "$build/libtutti_f08.a" "$folder"
echo "installed the modules mpi and mpi_f08 of $compiler in $folder"
