#!/usr/bin/env bash
# Runs the client tests against the model server alone and behind the gateway, concurrently; then the scenarios of `weir
# up`.
#
#     scripts/client-tests.sh [PYTEST ARGUMENT...]     # what `make test-platform` ends with
#
# WEIR and WEIR_RUNTIME name the programs; the default is those of the dev profile, which cargo has already built for
# the other tests.
set -euo pipefail
cd "$(dirname "$0")/.."
export WEIR=${WEIR:-$PWD/target/debug/weir} WEIR_RUNTIME=${WEIR_RUNTIME:-$PWD/target/debug/weir-runtime}

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# These tests have their own servers and mostly wait, for minutes. They run concurrently with the others, unless
# arguments select tests.
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
    start "storage" tests/storage
fi
failed=0
for one in "${suites[@]}"; do wait "$one" || failed=1; done
# The same scenarios also run on the one-node cluster.
[ $# -gt 0 ] || .venv/bin/python -B tests/scenarios/local.py | sed -u "s/^/local   | /" || failed=1
# Repeats the results at the end of the output, because the lines of the suites are far above and mixed.
[ $failed = 0 ] || grep -HE '^(FAILED|ERROR) |^[0-9]+ (passed|failed)' "$logs"/* | sed "s|^$logs/||" || true
exit $failed
