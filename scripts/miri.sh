#!/bin/sh
# What Miri can look at of the code that moves and combines memory: layouts, packing, copies and kernels, and the engine on real memory.
# usage: scripts/miri.sh; wants `rustup toolchain install nightly --component miri,rust-src`. Left out: 80-bit and 128-bit floats (assembly), and all that
# asks the kernel for memory.
set -eu
cd "$(dirname "$0")/.."
export MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=2
cargo +nightly miri test --quiet --target-dir target/miri -p tutti-data --lib -- --skip extended --skip quad --skip wide_floats --skip every_allowed_pair
cargo +nightly miri test --quiet --target-dir target/miri -p tutti-core --lib -- engine::tests::bcast engine::tests::allreduce engine::tests::alltoallv
