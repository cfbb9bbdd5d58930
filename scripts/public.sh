#!/bin/sh
# Fetches sources of programs that nobody here wrote, to be run on Tutti: build/public/NAME. From the distribution's source
# packages and PyPI, by their ordinary clients. usage: scripts/public.sh [mpich] [netpipe] [hpcc]
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

[ $# -gt 0 ] || set -- mpich
for name in "$@"; do
    case $name in
        mpich | netpipe | hpcc) debian "$name" ;;
        *) echo "public: unknown program $name (mpich, netpipe or hpcc)" >&2; exit 2 ;;
    esac
done
