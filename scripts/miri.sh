#!/bin/sh
# What Miri can look at of the code that moves and combines memory: layouts, packing, copies and kernels, and
# the engine on real memory.
# usage: scripts/miri.sh; wants `rustup toolchain install nightly --component miri,rust-src`. Miri is a thousand times slower than a processor: under
# cfg(miri) the tests take few of their cases, each kind of element and operator once. Left out (`ignore` says
# why at each test): 80-bit and 128-bit floats, which are assembly, and tests without pointers; and all that
# asks the kernel for memory.
set -eu
cd "$(dirname "$0")/.."
export MIRIFLAGS="-Zmiri-disable-isolation"
cargo +nightly miri test --quiet --target-dir target/miri -p tutti-data --lib
cargo +nightly miri test --quiet --target-dir target/miri -p tutti-core --lib -- engine::tests::bcast engine::tests::scan engine::tests::alltoallv
