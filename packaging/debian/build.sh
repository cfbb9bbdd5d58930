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
REPOSITORY= CONTACT=
. "$root/packaging/project.env"
maintainer=${CONTACT:-Tutti maintainers <maintainers@tutti.invalid>}

# The licences, in the machine-readable form (DEP-5).
copyright() {
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: Tutti"
    [ -z "$REPOSITORY" ] || echo "Source: $REPOSITORY"
    printf '\nFiles: *\nCopyright: The Tutti developers\nLicense: Expat or Apache-2.0\n\n'
    echo "License: Expat"
    sed -e 's/^$/./' -e 's/^/ /' "$root/LICENSE-MIT"
    printf '\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n'
    printf '\nComment: Crates that the programs contain have the licences in THIRD-PARTY-LICENSES.gz.\n'
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"
DESTDIR=$tree STRIP=1 "$root/scripts/install.sh" /usr/lib/tutti > /dev/null
install -d "$tree/usr/bin" "$tree/usr/share/doc/tutti-mpi" "$tree/DEBIAN"
ln -s ../lib/tutti/bin/tutti "$tree/usr/bin/tutti"
for name in mpirun mpiexec mpicc mpicxx mpic++ mpifort mpif77 mpif90; do
    ln -s "../lib/tutti/bin/$name" "$tree/usr/bin/$name.tutti"
done
find "$tree/usr/lib/tutti/lib" -type f -name '*.so*' -exec strip --strip-unneeded {} + -exec chmod 644 {} +
# Manual pages, completion, the unit and the module lie where Debian looks. Pages of names that other
# libraries have, too, end with .tutti and are alternatives.
share=$tree/usr/lib/tutti/share
install -d "$tree/usr/share/man/man1" "$tree/usr/share/man/man7" "$tree/usr/share/bash-completion/completions" \
    "$tree/usr/share/zsh/vendor-completions" "$tree/usr/share/fish/vendor_completions.d" "$tree/usr/lib/systemd/system" \
    "$tree/usr/share/modules/modulefiles"
for page in "$share"/man/man1/mpi*.1; do
    mv "$page" "$tree/usr/share/man/man1/$(basename "$page" .1).tutti.1"
done
mv "$share"/man/man1/*.1 "$tree/usr/share/man/man1/"
mv "$share"/man/man7/*.7 "$tree/usr/share/man/man7/"
find "$tree/usr/share/man" -type f -exec gzip -9n {} +
mv "$share/bash-completion/completions/tutti" "$tree/usr/share/bash-completion/completions/"
mv "$share/zsh/site-functions/_tutti" "$tree/usr/share/zsh/vendor-completions/"
mv "$share/fish/vendor_completions.d/tutti.fish" "$tree/usr/share/fish/vendor_completions.d/"
mv "$tree/usr/lib/tutti/lib/systemd/system/tutti-netd.service" "$tree/usr/lib/systemd/system/"
mv "$share/modulefiles/tutti" "$tree/usr/share/modules/modulefiles/"
rm -rf "$share/man" "$share/modulefiles" "$tree/usr/lib/tutti/lib/systemd"
copyright > "$tree/usr/share/doc/tutti-mpi/copyright"
python3 "$root/scripts/third_party.py" "$tree/usr/share/doc/tutti-mpi"
gzip -9n "$tree/usr/share/doc/tutti-mpi/THIRD-PARTY-LICENSES"
rm "$tree/usr/share/doc/tutti-mpi/tutti.cdx.json"
{
    echo "tutti-mpi ($version-1) unstable; urgency=medium"
    printf '\n  * Release %s: see CHANGELOG.md of the sources.\n\n' "$version"
    echo " -- $maintainer  $(git -C "$root" log -1 --format=%cD 2> /dev/null || date -R)"
} | gzip -9n > "$tree/usr/share/doc/tutti-mpi/changelog.Debian.gz"
find "$tree/usr/share/doc" -type f -exec chmod 644 {} +
# The oldest C library whose symbols are wanted.
glibc=$(find "$tree/usr/lib/tutti" -type f \( -name '*.so*' -o -perm -100 \) -exec objdump -T {} \; 2> /dev/null \
    | sed -n 's/.*(\{0,1\}GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
cat > "$tree/DEBIAN/control" <<CONTROL
Package: tutti-mpi
Version: $version-1
Architecture: $architecture
Section: science
Priority: optional
Maintainer: $maintainer
${REPOSITORY:+Homepage: $REPOSITORY
}Depends: libc6 (>= $glibc), libgcc-s1
Suggests: gcc, gfortran, openssh-client
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Description: MPI library with the MPI 5.0 standard ABI
 Library, launcher and compiler wrappers. Programs that were built for MPICH,
 Intel MPI or Open MPI are run by libraries in folders of their own.
CONTROL
cat > "$tree/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
bin() { echo "/usr/bin/$1 $1 /usr/bin/$1.tutti"; }
page() { echo "/usr/share/man/man1/$1.1.gz $1.1.gz /usr/share/man/man1/$1.tutti.1.gz"; }
if [ "$1" = configure ]; then
    # shellcheck disable=SC2046 # words
    update-alternatives --install /usr/bin/mpirun mpirun /usr/bin/mpirun.tutti 30 \
        --slave $(bin mpiexec) --slave $(page mpirun) --slave $(page mpiexec)
    # shellcheck disable=SC2046
    update-alternatives --install /usr/bin/mpicc mpi /usr/bin/mpicc.tutti 30 \
        --slave $(bin mpicxx) --slave $(bin mpic++) --slave $(bin mpifort) --slave $(bin mpif77) --slave $(bin mpif90) \
        --slave $(page mpicc) --slave $(page mpicxx) --slave $(page mpic++) --slave $(page mpifort) --slave $(page mpif77) \
        --slave $(page mpif90)
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
