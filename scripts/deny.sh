#!/usr/bin/env bash
# Advisories, licences and sources of the crates in use (deny.toml), where cargo-deny is installed. Without a
# copy of the database of advisories and without a network, advisories are left out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v cargo-deny >/dev/null; then
    echo "crates are not checked for advisories and licences: cargo-deny is not installed" >&2
    exit 0
fi
cargo deny --offline check licenses bans sources
if ! cargo deny fetch db >/dev/null 2>&1; then
    echo "crates are not checked for advisories: the database cannot be had" >&2
    exit 0
fi
cargo deny check advisories
