#!/bin/sh
# Compares two builds of Tutti, cell by cell in turn: the working tree with the commit REV.
# usage: [REV=COMMIT] [SUBJECT=COMMIT] scripts/ab.sh [OPTION of `tutti compare`]...
#   REV      the commit before; by default what has landed last: origin/main, or else the newest commit older
#            than four hours
#   SUBJECT  a commit in place of the working tree
# Builds of commits are kept in build/ab/COMMIT, the working tree goes to build/ab/tree. The exit status is
# that of `tutti compare --build`: 0 if nothing is slower, 3 if a cell is slower, 1 if something fails.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
ab=$root/build/ab
mkdir -p "$ab"

# Builds the sources of a folder and installs the result. The commit is noted last, as a sign that the
# installation is complete.
install_build() { # FOLDER TARGET PREFIX COMMIT
    echo "ab: building $4 in $3" >&2
    rm -f "$3/.installed"
    if ! CARGO_TARGET_DIR=$2 make -s -C "$1" install PREFIX="$3" > "$ab/$4.log" 2>&1; then
        tail -n 20 "$ab/$4.log" >&2
        echo "ab: $4 does not build, see build/ab/$4.log" >&2
        exit 1
    fi
    echo "$4" > "$3/.installed"
}

# Prints the prefix of a commit, which is built unless it is there. One checkout and one target folder serve
# all commits, so that what they share is compiled once.
build_commit() { # COMMIT
    commit=$(git rev-parse --short "$1^{commit}")
    if [ ! -e "$ab/$commit/.installed" ]; then
        git worktree prune
        if [ -e "$ab/source/.git" ]; then
            git -C "$ab/source" checkout --quiet --force --detach "$commit" >&2
        else
            git worktree add --quiet --force --detach "$ab/source" "$commit" >&2
        fi
        install_build "$ab/source" "$ab/target" "$ab/$commit" "$commit"
    fi
    echo "$ab/$commit"
}

rev=${REV:-$(git rev-parse --verify --quiet origin/main || git rev-list -1 --before='4 hours ago' HEAD)}
before=$(build_commit "$rev")
install_build "$root" "${CARGO_TARGET_DIR:-$root/target}" "$ab/tree" "$(git describe --always --dirty --exclude '*')"
now=$ab/tree
if [ -n "${SUBJECT:-}" ]; then now=$(build_commit "$SUBJECT"); fi
case " $* " in *" --ledger"*) scripts/peers.sh >&2 ;; esac
exec "$ab/tree/bin/tutti" compare --build "$before" --subject "$now" "$@"
