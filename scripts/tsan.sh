#!/bin/sh
# The programs of several threads (tests/programs/threads*.c) on a library built with the thread sanitizer:
# any report is a failure. usage: scripts/tsan.sh [RANKS]   (2); wants the staged mpirun. Takes what the
# installed compiler brings: the standard library itself is not instrumented, so the locks' slow paths tell of
# themselves (`lanes::lock_taken`).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
ranks=${1:-2}
target=$(rustc -vV | sed -n 's/^host: //p')
home=$root/build/tsan
cd "$root"
# For the target alone: programs that run while building are not instrumented.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=line-tables-only \
    cargo build --quiet --target "$target" --target-dir target/tsan -p tutti-abi
mkdir -p "$home/lib"
cp -RL build/stage/bin build/stage/include "$home"
cp "target/tsan/$target/debug/libmpi_abi.so" "$home/lib/libmpi_abi.so.1"
ln -sf libmpi_abi.so.1 "$home/lib/libmpi_abi.so"
runtime=$(rustc --print sysroot)/lib/rustlib/$target/lib/librustc-stable_rt.tsan.a
bad=0
for name in threads threads_lanes threads_mix; do
    cc -std=gnu11 -O1 -g -I"$home/include" -o "$home/$name" "tests/programs/$name.c" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive \
        -rdynamic -L"$home/lib" "-Wl,-rpath,$home/lib" -lmpi_abi -lpthread -ldl -lm -lrt
    TSAN_OPTIONS="halt_on_error=0 history_size=4" timeout 600 "$home/bin/mpirun" -n "$ranks" "$home/$name" > "$home/$name.txt" 2>&1 || bad=1
    reports=$(grep -c "WARNING: ThreadSanitizer" "$home/$name.txt" || true)
    echo "$name on $ranks ranks: $reports reports ($home/$name.txt)"
    [ "$reports" = 0 ] || bad=1
done
exit $bad
