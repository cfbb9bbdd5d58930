#!/bin/sh
# The short check after an edit: lints and unit tests of the crates that changed, and the smoke set of
# programs (tests/support/smoke.txt). usage: scripts/quick.sh [REV]: changed since REV (where this branch left
# origin/main, or the newest commit older than four hours), uncommitted edits included.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
since=${1:-$(git merge-base HEAD origin/main 2>/dev/null || git rev-list -1 --before="4 hours ago" HEAD)}
changed=$(git diff --name-only "$since"; git ls-files --others --exclude-standard)
crates=$(echo "$changed" | sed -n 's|^\(crates/fronts/[a-z]*\)/.*|\1|p; s|^\(crates/[a-z]*\)/.*|\1|p; s|^\(xtask\)/.*|\1|p' | sort -u)

packages= tested=
for crate in $crates; do
    [ -f "$crate/Cargo.toml" ] || continue
    package="-p $(sed -n 's/^name = "\(.*\)"/\1/p' "$crate/Cargo.toml" | head -n 1)"
    packages="$packages $package"
    # A front looks for libmpi_abi.so.1 as soon as it is loaded, so it has no unit tests.
    case $crate in crates/fronts/*) ;; *) tested="$tested $package" ;; esac
done

echo "== 1 of 3: formatting, tidy, clippy of${packages:- no crate}"
cargo fmt --all --check
cargo xtask tidy
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086  # a list of packages
    cargo clippy --quiet $packages --all-targets -- -D warnings
fi
if [ -n "$tested" ]; then
    echo "== 2 of 3: unit tests of$tested"
    # shellcheck disable=SC2086
    cargo test --quiet $tested --lib --bins
fi
echo "== 3 of 3: programs"
make --no-print-directory dev
scripts/need.sh python
scripts/python.sh
grep -v '^#' tests/support/smoke.txt | xargs build/python/bin/python -m pytest -q -n 2
