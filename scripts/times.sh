#!/bin/sh
# Measures what CONTRIBUTING.md says of times: seconds from an edit in a crate to a staged library and to its
# unit tests, built and run. usage: scripts/times.sh [CRATE...]; on an idle machine, after `make dev` and
# `cargo test --workspace --no-run`.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- base sys data topo transport coll core io abi launch storage checkpoint tools overlap netd offload testbed
printf '%-12s %10s %10s\n' crate 'make dev' 'unit tests'
for crate in "$@"; do
    source=crates/$crate/src/lib.rs
    [ -f "$source" ] || source=crates/$crate/src/main.rs
    package=$(sed -n 's/^name = "\(.*\)"/\1/p' "crates/$crate/Cargo.toml" | head -n 1)
    # Adds a comment at the end of a file: the smallest possible edit.
    cp -p "$source" build/times.saved
    echo "// $(date +%s)" >> "$source"
    begin=$(date +%s.%N)
    make --no-print-directory dev > /dev/null
    staged=$(date +%s.%N)
    cargo test --quiet -p "$package" --lib --bins > /dev/null 2>&1 || echo "$crate: its tests fail"
    tested=$(date +%s.%N)
    cp build/times.saved "$source"
    echo "$crate $begin $staged $tested" | awk '{ printf "%-12s %8.0f s %8.0f s\n", $1, $3 - $2, $4 - $3 }'
done
rm -f build/times.saved
