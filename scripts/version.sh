#!/bin/sh
# Sets the version in all files that contain it; Cargo.toml is the one that all builds read.
# usage: scripts/version.sh VERSION DAY
#        scripts/version.sh --check     compares the other files with Cargo.toml
set -eu
cd "$(dirname "$0")/.."
current=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Each file, and the line that has the version.
others='packaging/conda/recipe.yaml:  version: @
packaging/easybuild/tutti.eb:version = '\''@'\''
CITATION.cff:version: "@"'

if [ "$1" = --check ]; then
    echo "$others" | while IFS=: read -r file line; do
        wanted=$(echo "$line" | sed "s/@/$current/")
        grep -qxF "$wanted" "$file" || { echo "version: $file has no line '$wanted' (Cargo.toml has $current)" >&2; exit 1; }
    done
    exit
fi
sed -i "0,/^version = \"$current\"/s//version = \"$1\"/" Cargo.toml
echo "$others" | while IFS=: read -r file line; do
    old=$(echo "$line" | sed "s/@/$current/") new=$(echo "$line" | sed "s/@/$1/")
    sed -i "s|^$old\$|$new|" "$file"
done
sed -i "s/^date-released: .*/date-released: $2/" CITATION.cff
sed -i "s/^## Unreleased\$/## Unreleased\n\n## $1 ($2)/" CHANGELOG.md
exec "$0" --check
