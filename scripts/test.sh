#!/bin/sh
# Runs the stages of `make test` one after the other, and stops at the first that fails. Before each stage it
# prints the time that this and the later stages are likely to take: as long as in the last run here
# (build/test-seconds), at first as long as on 2 cores. usage: scripts/test.sh [STAGE...]: rust, loom,
# programs, mpi4py
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
mkdir -p build
seconds=build/test-seconds
[ -f $seconds ] || printf 'rust 200\nloom 60\nprograms 420\nmpi4py 120\n' > $seconds

title() {
    case $1 in
        rust) echo "Rust: proofs, protocols in simulation, parsers" ;;
        loom) echo "lock-free code, by loom" ;;
        programs) echo "whole programs through mpirun, on this host and on hosts made for it" ;;
        mpi4py) echo "mpi4py's own test suite" ;;
        *) echo "test: unknown stage $1 (rust, loom, programs or mpi4py)" >&2; exit 2 ;;
    esac
}

# The seconds that these stages took.
expected() {
    sum=0
    for stage in "$@"; do
        took=$(sed -n "s/^$stage //p" $seconds)
        sum=$((sum + ${took:-60}))
    done
    echo $sum
}

[ $# -gt 0 ] || set -- rust loom programs mpi4py
number=0 all=$#
while [ $# -gt 0 ]; do
    number=$((number + 1))
    text=$(title "$1")
    echo "== $number of $all: $text (about $(($(expected "$1") / 60 + 1)) min; all that is left: $(($(expected "$@") / 60 + 1)) min)"
    begin=$(date +%s)
    make --no-print-directory PROFILE="${PROFILE:-dev}" "test-$1"
    { grep -v "^$1 " $seconds; echo "$1 $(($(date +%s) - begin))"; } > $seconds.new
    mv $seconds.new $seconds
    shift
done
