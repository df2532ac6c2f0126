#!/usr/bin/env bash
# Runs the tests that need a control plane: the chart's, then all others concurrently with those that kill the API
# server. `make test-kube` runs this; CARGO names cargo.
set -euo pipefail
cd "$(dirname "$0")/../.."
beside=tests/kubernetes/bed/with-control-plane.sh
tests=("${CARGO:-cargo}" nextest run --workspace --test kubernetes --ignore-default-filter)

$beside tests/kubernetes/chart.sh install
restarts() {
    WEIR_TEST_RESTARTS=1 $beside "${tests[@]}" -E 'test(an_api_server_that_restarts)' 2>&1 | sed -u 's/^/restarts | /'
}

# Compiles the tests once, so that neither run waits for the other to compile.
"${tests[@]}" --no-run
restarts &
restarts=$!
failed=0
$beside "${tests[@]}" || failed=1
wait $restarts || failed=1
exit $failed
