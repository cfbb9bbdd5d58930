#!/bin/sh
# Fetches sources of programs that nobody here wrote, to be run on Tutti: build/public/NAME. From the
# distribution's source packages, PyPI and crates.io, by their ordinary clients; ior and npb from git, by
# IOR_GIT and NPB_GIT where their own repositories cannot be reached. usage: scripts/public.sh [mpich]
# [hdf5] [pnetcdf] [ior] [npb] [netpipe] [p4est] [valgrind] [rsmpi] [numba-mpi]
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
home=$root/build/public
mkdir -p "$home"

# Prints the system's package sources as source entries (deb-src), from both formats of apt's lists.
sources() {
    sed -n 's/^deb[[:space:]]/deb-src /p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2> /dev/null || true
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -e "$list" ] || continue
        awk '/^URIs:/ { uris = $2 } /^Suites:/ { $1 = ""; suites = $0 } /^Components:/ { $1 = ""; parts = $0 }
             /^Signed-By:/ { key = $2 }
             function out(  n, i, all) {
                 n = split(suites, all, " ")
                 for (i = 1; i <= n && uris != ""; i++)
                     print "deb-src " (key ~ /^\// ? "[signed-by=" key "] " : "") uris " " all[i] parts
                 uris = suites = parts = key = ""
             }
             NF == 0 { out() }
             END { out() }' "$list"
    done
}

# A list of packages of its own: the system's is left as it is.
debian() { # PACKAGE: its original source, unpacked in build/public/PACKAGE
    [ -d "$home/$1" ] && return
    lists=$home/.apt/lists
    mkdir -p "$lists/partial"
    sources > "$home/.apt/sources.list"
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

# A commit of a repository.
repository() { # NAME ADDRESS COMMIT
    [ -d "$home/$1" ] && return
    rm -rf "$home/$1.new"
    git clone --quiet --no-checkout "$2" "$home/$1.new"
    git -C "$home/$1.new" checkout --quiet "$3"
    mv "$home/$1.new" "$home/$1"
}

# A package of PyPI with its dependencies, in an environment of its own.
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
        mpich | netpipe | p4est | valgrind | hdf5 | pnetcdf) debian "$name" ;;
        ior) repository ior "${IOR_GIT:-https://github.com/hpc/ior.git}" 4.0.0 ;;
        npb) repository npb "${NPB_GIT:-https://github.com/lmontigny/NPB3.4.1.git}" a6b8b8dbddc8 ;;
        rsmpi) crate mpi 0.8.2 rsmpi ;;
        numba-mpi) python numba-mpi 1.3.1 psutil ;;
        *) echo "public: unknown program $name (mpich, hdf5, pnetcdf, ior, npb, netpipe, p4est, valgrind, rsmpi or numba-mpi)" >&2; exit 2 ;;
    esac
done
