#!/bin/sh
# Runs the tests of the code that moves and combines memory under Miri: layouts, packing, copies and kernels,
# and the engine on real memory.
# usage: scripts/miri.sh; needs `rustup toolchain install nightly --component miri,rust-src`.
# Miri is a thousand times slower than a processor. Under cfg(miri) the tests take few of their cases, each
# kind of element and operator once. Left out (`ignore` gives the reason at each test): 80-bit and 128-bit
# floats, which are assembly, tests without pointers, and tests that request memory from the kernel.
set -eu
cd "$(dirname "$0")/.."
export MIRIFLAGS="-Zmiri-disable-isolation"
cargo +nightly miri test --quiet --target-dir target/miri -p tutti-data --lib
cargo +nightly miri test --quiet --target-dir target/miri -p tutti-core --lib -- engine::tests::bcast engine::tests::scan engine::tests::alltoallv
