#!/bin/sh
# Checks the dependencies against RustSec's advisories, by default against a dated snapshot, because a build machine may
# reach only Cargo's registry. WEIR_ADVISORIES=latest fetches the current advisories from GitHub instead.
#
# The snapshot is `git archive HEAD crates | gzip -9n` of github.com/RustSec/advisory-db, in the public domain (CC0), at
# commit bf5c0d245a92671908518d7e765914d437954ed6.
set -eu
cd "$(dirname "$0")/.."
snapshot=scripts/advisory-db-2026-08-21.tar.gz
date=2026-08-21T08:28:40+02:00

if [ "${WEIR_ADVISORIES:-}" = latest ]; then
    exec cargo deny --log-level error check advisories
fi
# Folder name that cargo-deny derives from the address of RustSec's database.
database=target/advisory-db/advisory-db-3157b0e258782691
rm -rf "$database"
mkdir -p "$database"
tar -xzf "$snapshot" -C "$database"
# cargo-deny reads the age of the database from git.
git -C "$database" init -q
git -C "$database" add -A
GIT_AUTHOR_DATE=$date GIT_COMMITTER_DATE=$date git -C "$database" \
    -c user.name=weir -c user.email=weir@localhost -c commit.gpgsign=false commit -qm snapshot
exec cargo deny --log-level error --offline check advisories
