#!/bin/sh
# Makes dist/tutti_mpi-*.whl: builds Tutti for an old C library, strips it, and packs it by scripts/wheel.py.
# usage: scripts/wheel.sh
# GLIBC=2.28 is the oldest C library that it shall run with; Zig, a compiler that has all of them, comes as
# a Python package. With GLIBC= (empty) the ordinary build is packed, and runs where the C library is as new
# as here. ARCH=aarch64 builds for that processor. PROFILE is that of the build (release).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
glibc=${GLIBC-2.28}
here=$(uname -m)
arch=${ARCH:-$here}
profile=${PROFILE:-release}
stage=$root/build/wheel
zig=$root/build/zig
packages="cargo-zigbuild==0.24.1 ziglang==0.17.1"
rm -rf "$stage"
if [ -z "$glibc" ]; then
    (cd "$root" && cargo build --profile "$profile" --workspace --quiet)
    STRIP=1 "$root/scripts/install.sh" "$stage" > /dev/null
else
    if [ "$(cat "$zig/.installed" 2> /dev/null)" != "$packages" ]; then
        rm -rf "$zig"
        python3 -m venv "$zig"
        # shellcheck disable=SC2086 # a list of packages
        "$zig/bin/pip" install --quiet $packages
        echo "$packages" > "$zig/.installed"
    fi
    target=$arch-unknown-linux-gnu
    rustup target list --installed 2> /dev/null | grep -qx "$target" || rustup target add "$target"
    # Zig's linker strips, whatever the processor.
    upper=$(echo "$profile" | tr a-z- A-Z_)
    export "CARGO_PROFILE_${upper}_STRIP=symbols"
    (cd "$root" && TUTTI_LINKER=zig PATH="$zig/bin:$PATH" cargo zigbuild --quiet --profile "$profile" --target "$target.$glibc" -p tutti-abi -p tutti-launch \
        -p tutti-tools -p tutti-overlap -p tutti-fronts-mpich -p tutti-fronts-openmpi)
    # Fortran's layer is plain C of which all that it wants is old.
    [ "$arch" = "$here" ] || export CC="$arch-linux-gnu-gcc"
    TARGET="$target" "$root/scripts/install.sh" "$stage" > /dev/null
fi
python3 "$root/scripts/wheel.py" "$stage" "$root/dist"
