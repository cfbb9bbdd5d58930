#!/bin/sh
# Makes sure that what Tutti is built and tested with is there; installs it from Debian or Ubuntu where
# that is allowed, and otherwise says the line to type. With --check it installs nothing: it prints the line
# and ends with 1 if something is missing.
# usage: scripts/need.sh [--check] [build] [python] [fabric] [hosts] [starters] [slurm] [overlap] [public] [fortran] [packages]
#        [kernel]
set -u

check=
[ "${1:-}" != --check ] || { check=1; shift; }
packages=
want() { # COMMAND PACKAGE...: the packages, if the command fails
    command=$1
    shift
    sh -c "$command" >/dev/null 2>&1 || packages="$packages $*"
}

# The newest package of libclang among the versions that report operators.
newest_libclang() {
    for version in 21 20 19 18 17; do
        if apt-cache show "libclang1-$version" >/dev/null 2>&1; then
            echo "libclang1-$version"
            return
        fi
    done
    echo libclang1-19
}

for part in "${@:-build}"; do
    case $part in
        build)
            want "command -v cc" gcc libc6-dev
            want "command -v c++" g++
            want "command -v git" git
            ;;
        python)
            want "command -v python3" python3
            want "python3 -c 'import venv, ensurepip'" python3-venv
            want "test -f \"\$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"include\"))')/Python.h\"" python3-dev
            ;;
        fabric)
            want "test -f /usr/include/rdma/fi_domain.h" libfabric1 libfabric-dev
            ;;
        hosts)
            # Several hosts on one machine.
            want "command -v ip && command -v tc" iproute2
            want "command -v nsenter && command -v unshare" util-linux
            want "command -v nft" nftables
            # Workers of a Kubernetes job run it.
            want "command -v ssh" openssh-client
            want "PATH=$PATH:/usr/sbin command -v sshd" openssh-server
            ;;
        starters)
            # The client of PMIx; our declarations are compared with its headers.
            want "ls /usr/lib/*/libpmix.so.2" libpmix2
            want "ls /usr/lib/*/pmix2/include/pmix.h" libpmix-dev
            ;;
        slurm)
            want "command -v slurmctld && command -v slurmd && command -v srun" slurm-wlm
            want "command -v munged" munge
            ;;
        fortran)
            want "command -v gfortran" gfortran
            ;;
        kernel)
            # Only to change crates/offload/bpf/packets.c: its object is committed.
            want "clang --version | grep -q 'version 14[.]'" clang llvm
            want "test -f /usr/include/bpf/bpf_helpers.h" libbpf-dev
            ;;
        packages)
            # Build systems that look for MPI, and tools that make packages.
            want "command -v cmake" cmake make
            want "command -v pkg-config" pkg-config
            want "command -v meson && command -v ninja" meson ninja-build
            want "command -v autoconf" autoconf
            want "test -f /usr/share/aclocal/ax_mpi.m4" autoconf-archive
            want "command -v dpkg-deb && command -v objdump" dpkg binutils
            want "command -v lintian" lintian
            want "test -f /etc/profile.d/modules.sh || test -f /etc/profile.d/lmod.sh" environment-modules
            ;;
        overlap)
            # Libraries that `tutti overlap` loads at run time. libisl is part of gcc.
            want "ls /usr/lib/*/libclang*-1[7-9].so* || ls /usr/lib/*/libclang*-2[0-9].so*" "$(newest_libclang)"
            want "ls /usr/lib/*/libisl.so.2[0-9]" libisl23
            ;;
        public)
            # Tools and libraries that the programs of other projects need to be built.
            want "test -f /usr/include/zlib.h" zlib1g-dev
            want "command -v valgrind" valgrind
            want "command -v bzip2" bzip2
            want "command -v debootstrap" debootstrap
            want "command -v autoreconf && command -v libtoolize && command -v m4" autoconf automake libtool m4
            ;;
        *) echo "need: unknown part $part (build, python, fabric, hosts, starters, slurm, overlap, public, fortran, kernel or packages)" >&2; exit 2 ;;
    esac
done

if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
    echo "need: Rust is installed but not on the PATH; type:  . \"\$HOME/.cargo/env\"" >&2
    exit 1
fi
rust=
if [ -n "$check" ]; then
    missing=
    command -v cargo >/dev/null 2>&1 || missing=" Rust"
    [ -n "$missing$packages" ] || exit 0
    echo "need: missing:$missing$packages" >&2
    echo "need: \`make need\` installs it on Debian and Ubuntu; elsewhere install the packages of these names by hand" >&2
    exit 1
fi
if ! command -v cargo >/dev/null 2>&1; then
    rust=1
    if apt-cache show rustup >/dev/null 2>&1; then
        packages="$packages rustup"
        rust=apt
    fi
fi

if [ -n "$packages" ]; then
    line="apt-get install -y --no-install-recommends$packages"
    if [ "$(id -u)" = 0 ]; then
        echo "need: $line"
        # shellcheck disable=SC2086  # a list of packages
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive $line; } || exit 1
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        echo "need: sudo $line"
        # shellcheck disable=SC2086
        { sudo apt-get update -qq && sudo DEBIAN_FRONTEND=noninteractive $line; } || exit 1
    else
        echo "need: some packages are missing; type:  sudo $line" >&2
        exit 1
    fi
fi

if [ "$rust" = apt ]; then
    # rustup reads the version from rust-toolchain.toml.
    (cd "$(dirname "$0")/.." && rustup toolchain install) || exit 1
elif [ -n "$rust" ]; then
    echo "need: Rust is missing; type:  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y && . \"\$HOME/.cargo/env\"" >&2
    exit 1
fi
