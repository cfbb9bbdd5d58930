#!/bin/sh
# Makes a Debian package of a build: usage: packaging/debian/build.sh FOLDER
# PROFILE is that of the build (release). Files are in /usr/lib/tutti, as /usr/bin/mpirun may be another
# library's; alternatives of the names are offered with a priority below theirs, so that an administrator
# chooses.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:?usage: packaging/debian/build.sh FOLDER}
mkdir -p "$folder"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
architecture=$(dpkg --print-architecture)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
DESTDIR=$tree STRIP=1 "$root/scripts/install.sh" /usr/lib/tutti > /dev/null
install -d "$tree/usr/bin" "$tree/usr/share/doc/tutti-mpi" "$tree/DEBIAN"
ln -s ../lib/tutti/bin/tutti "$tree/usr/bin/tutti"
for name in mpirun mpicc mpicxx mpifort; do
    ln -s "../lib/tutti/bin/$name" "$tree/usr/bin/$name.tutti"
done
cat "$root/LICENSE-MIT" "$root/LICENSE-APACHE" > "$tree/usr/share/doc/tutti-mpi/copyright"
chmod 644 "$tree/usr/share/doc/tutti-mpi/copyright"
# The oldest C library whose symbols are wanted.
glibc=$(find "$tree/usr/lib/tutti" -type f \( -name '*.so*' -o -perm -100 \) -exec objdump -T {} \; 2> /dev/null \
    | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
cat > "$tree/DEBIAN/control" <<CONTROL
Package: tutti-mpi
Version: $version-1
Architecture: $architecture
Section: science
Priority: optional
Maintainer: Tutti maintainers <maintainers@tutti.invalid>
Depends: libc6 (>= $glibc), libgcc-s1
Suggests: gcc, gfortran, openssh-client
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Description: MPI library of the MPI 5.0 standard ABI, also for programs of MPICH's and Open MPI's
 Library, launcher and compiler wrappers. Programs that were built for MPICH,
 Intel MPI or Open MPI are run by libraries in folders of their own.
CONTROL
cat > "$tree/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    update-alternatives --install /usr/bin/mpirun mpirun /usr/bin/mpirun.tutti 30
    update-alternatives --install /usr/bin/mpicc mpi /usr/bin/mpicc.tutti 30 \
        --slave /usr/bin/mpicxx mpicxx /usr/bin/mpicxx.tutti --slave /usr/bin/mpifort mpifort /usr/bin/mpifort.tutti
fi
POSTINST
cat > "$tree/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
if [ "$1" != upgrade ]; then
    update-alternatives --remove mpirun /usr/bin/mpirun.tutti
    update-alternatives --remove mpi /usr/bin/mpicc.tutti
fi
PRERM
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm"
package=$folder/tutti-mpi_$version-1_$architecture.deb
dpkg-deb --root-owner-group --build "$tree" "$package" > /dev/null
echo "$package"
