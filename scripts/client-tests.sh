#!/usr/bin/env bash
# Runs the client tests against the model server alone and behind the gateway, side by side; then the scenarios of `weir up`.
#
#     scripts/client-tests.sh [PYTEST ARGUMENT...]     # what `make test-platform` ends with
#
# WEIR and WEIR_RUNTIME name the programs; without them they are those of the dev profile, which cargo has built
# for the other tests already.
set -euo pipefail
cd "$(dirname "$0")/.."
export WEIR=${WEIR:-$PWD/target/debug/weir} WEIR_RUNTIME=${WEIR_RUNTIME:-$PWD/target/debug/weir-runtime}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# They have servers of their own and mostly wait, for minutes: beside the others, unless arguments choose among the tests.
waiting=(tests/clients/test_{stuck,polled_repository,waits,shutdown}.py)

suite() { # suite NAME PYTEST ARGUMENT...
    local name=$1
    shift
    .venv/bin/python -m pytest --quiet -p no:cacheprovider "$@" 2>&1 | tee "$logs/${name// /}" | sed -u "s/^/$name | /"
}

suites=()
start() { suite "$@" & suites+=($!); }

start "gateway" tests/clients --through gateway "$@"
if [ $# -gt 0 ]; then
    start "alone  " tests/clients "$@"
else
    start "alone  " tests/clients "${waiting[@]/#/--ignore=}"
    start "waiting" "${waiting[@]}"
fi
failed=0
for one in "${suites[@]}"; do wait "$one" || failed=1; done
# What the one-node cluster is tested with, too.
[ $# -gt 0 ] || .venv/bin/python -B tests/scenarios/local.py | sed -u "s/^/local   | /" || failed=1
# Again, for those who see the end of the output only: the suites' lines are far above, and mixed.
[ $failed = 0 ] || grep -HE '^(FAILED|ERROR) |^[0-9]+ (passed|failed)' "$logs"/* | sed "s|^$logs/||" || true
exit $failed
