#!/bin/sh
# Makes a release from the current commit: see RELEASING.md. It publishes nothing.
# usage: scripts/release.sh VERSION
# CHECKS= (empty) leaves the tests out, PARTS="source materials wheel debian" chooses what is made.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
version=${1:-}
parts=${PARTS-source materials wheel debian}
day=$(date -u +%Y-%m-%d)

stop() { echo "release: $1" >&2; exit 1; }
step() { echo "== $1"; }

echo "$version" | grep -qxE '[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?' || stop "VERSION is MAJOR.MINOR.PATCH, for example 1.0.0"
[ -z "$(git status --porcelain)" ] || stop "the working tree has changes that are not committed"
if git rev-parse -q --verify "refs/tags/v$version" > /dev/null; then stop "the tag v$version exists"; fi
sed -n '/^## Unreleased$/,/^## [^U]/p' CHANGELOG.md | grep -q '^- ' || stop "CHANGELOG.md has nothing below ## Unreleased"

if [ -n "${CHECKS-all}" ]; then
    step "tests (.ci/run)"
    .ci/run
fi

step "version $version"
scripts/version.sh "$version" "$day"
# Cargo.lock has the version of each crate of the workspace.
cargo update --workspace --offline --quiet
git commit -qam "release: version $version"
git tag -a "v$version" -m "Tutti $version"

# Times in archives are that of the commit, so that the same commit gives the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
to=dist/$version
rm -rf "$to"
mkdir -p "$to"
for part in $parts; do
    step "$part"
    case $part in
        source) git archive --format=tar --prefix="tutti-$version/" "v$version" | gzip -9n > "$to/tutti-$version.tar.gz" ;;
        materials) python3 scripts/third_party.py "$to" ;;
        wheel)
            scripts/wheel.sh
            mv dist/tutti_mpi-"$version"-*.whl "$to"
            ;;
        debian)
            cargo build --release --locked --quiet -p tutti-abi -p tutti-launch -p tutti-tools -p tutti-overlap -p tutti-fronts-mpich \
                -p tutti-fronts-openmpi
            packaging/debian/build.sh "$to"
            ;;
        *) stop "unknown part $part (source, materials, wheel or debian)" ;;
    esac
done
(cd "$to" && sha256sum -- * > SHA256SUMS)
step "made in $to"
ls -l "$to"
. packaging/project.env
cat << END
Nothing is published. Look at $to, then:
  git push ${REPOSITORY:-REPOSITORY} HEAD "v$version"
  twine upload ${INDEX:+--repository-url "$INDEX" }$to/*.whl
END
[ -n "$REPOSITORY" ] || echo "(packaging/project.env names neither the repository nor the index yet)"
