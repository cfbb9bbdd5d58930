#!/bin/sh
# Fetches sources of programs that nobody here wrote, to be run on Tutti: build/public/NAME. From the distribution's source
# packages, PyPI and crates.io, by their ordinary clients. usage: scripts/public.sh [mpich] [netpipe] [p4est] [valgrind] [rsmpi] [numba-mpi]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/build/public
mkdir -p "$home"

# A list of packages of its own: the system's is left as it is.
debian() { # PACKAGE: its original source, unpacked in build/public/PACKAGE
    [ -d "$home/$1" ] && return
    lists=$home/.apt/lists
    mkdir -p "$lists/partial"
    . /etc/os-release
    echo "deb-src http://deb.debian.org/debian ${VERSION_CODENAME:-stable} main" > "$home/.apt/sources.list"
    set -- "$1" -qq -o "Dir::Etc::sourcelist=$home/.apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$lists" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root
    package=$1
    shift
    [ -n "$(find "$lists" -name '*Sources*' -print -quit)" ] || apt-get "$@" update
    (cd "$home" && apt-get "$@" source --tar-only --download-only "$package" > /dev/null)
    archive=$(find "$home" -maxdepth 1 -name "${package}_*.orig.tar.*" | head -n 1)
    mkdir "$home/$package.new"
    tar -xf "$archive" -C "$home/$package.new" --strip-components=1
    mv "$home/$package.new" "$home/$package"
    rm -f "$archive" "$home/$package"_*.dsc
}

# A crate's sources, as cargo unpacks them.
crate() { # NAME VERSION PROGRAM
    [ -d "$home/$3" ] && return
    mkdir -p "$home/.$3/src"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$1" "$2" > "$home/.$3/Cargo.toml"
    echo 'fn main() {}' > "$home/.$3/src/main.rs"
    (cd "$home/.$3" && cargo fetch --quiet)
    cp -r "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$1-$2" "$home/$3"
}

# A package of PyPI with what it needs, in an environment of its own.
python() { # NAME VERSION MORE...
    [ -e "$home/$1/.complete" ] && return
    name=$1 wanted="$1==$2"
    shift 2
    rm -rf "$home/$name"
    python3 -m venv "$home/$name"
    "$home/$name/bin/pip" install --quiet "$wanted" "$@"
    touch "$home/$name/.complete"
}

[ $# -gt 0 ] || set -- mpich
for name in "$@"; do
    case $name in
        mpich | netpipe | p4est | valgrind) debian "$name" ;;
        rsmpi) crate mpi 0.8.2 rsmpi ;;
        numba-mpi) python numba-mpi 1.3.1 psutil ;;
        *) echo "public: unknown program $name (mpich, netpipe, p4est, valgrind, rsmpi or numba-mpi)" >&2; exit 2 ;;
    esac
done
