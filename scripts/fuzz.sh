#!/bin/sh
# Runs every fuzz target for a number of seconds (10) with libFuzzer itself, which needs neither a nightly
# compiler nor cargo-fuzz. Findings are written to build/fuzz. Later runs continue from the inputs that are
# kept there.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
seconds=${1:-10}
target=x86_64-unknown-linux-gnu
home=$root/build/fuzz

coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
cd "$root/fuzz"
# shellcheck disable=SC2086  # words, for another to split
RUSTFLAGS="--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 $(echo $coverage)" \
    cargo build --quiet --release --bins --target "$target" --target-dir "$home/target"
for file in fuzz_targets/*.rs; do
    name=$(basename "$file" .rs)
    mkdir -p "$home/$name"
    echo "fuzz: $name for $seconds s"
    "$home/target/$target/release/$name" -max_total_time="$seconds" -verbosity=0 -artifact_prefix="$home/$name-" "$home/$name"
done
