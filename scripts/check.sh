#!/usr/bin/env bash
# Checks the changes since BASE: format, clippy, and the tests of each crate that contains a changed file.
#
# scripts/check.sh [BASE]        # run by `make check`
#
# BASE is the commit where this branch left origin/main, or HEAD if that branch does not exist. Tests that start
# processes are left to `make test-platform`.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || echo HEAD)}

changed() {
    git diff --name-only "$base"
    git ls-files --others --exclude-standard
}

# Prints the package of the nearest manifest above a file, or `all` for a file of the whole workspace.
package() {
    local folder
    folder=$(dirname "$1")
    while [ "$folder" != . ]; do
        if [ -f "$folder/Cargo.toml" ]; then
            sed -n 's/^name = "\(weir-[a-z-]*\)"/\1/p' "$folder/Cargo.toml" | head -n 1
            return
        fi
        folder=$(dirname "$folder")
    done
    case $1 in Cargo.* | rust-toolchain.toml | clippy.toml | .cargo/* | .config/*) echo all ;; esac
}

packages=$(changed | sort -u | while read -r file; do package "$file"; done | sort -u)
"$cargo" fmt --check
"$cargo" clippy --quiet --workspace --all-targets -- -D warnings
if [ -z "$packages" ]; then
    echo "no crate has changed since $base"
    exit
fi
tests="package(weir-tidy)"
for name in $packages; do
    if [ "$name" = all ]; then tests="all()"; else tests="$tests | package($name)"; fi
done
echo "tests of:" $packages
exec "$cargo" nextest run --workspace --cargo-quiet --status-level fail -E "($tests) & not binary(platform)"
