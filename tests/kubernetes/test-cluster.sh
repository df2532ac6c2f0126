#!/usr/bin/env bash
# Tests the one-node cluster with real pods on a real kubelet, and a user's path through Weir on it; `make test-cluster`
# runs this. `test-cluster.sh bed` tests the cluster without Weir, `test-cluster.sh short` only the short walk.
set -euo pipefail
cd "$(dirname "$0")/../.."
bed=tests/kubernetes/bed
exec=target/cluster/exec
passed=0

# shellcheck source=tests/kubernetes/checks.sh
. tests/kubernetes/checks.sh

code() { local code=0; "$@" >/dev/null 2>&1 || code=$?; echo $code; } # code COMMAND...: prints its exit code

remains() { # Prints everything that a cluster could leave on the machine, sorted. A dead process that waits for its parent is nothing.
    {
        find /sys/fs/cgroup -maxdepth 2 -name 'weir-*'
        cut -d ' ' -f 2 /proc/mounts
        find /run/netns /run/containerd /var/log/containers /var/lib/kubelet /opt -mindepth 1 -maxdepth 1 2>/dev/null || true
        ps -eo stat=,pid=,args= | awk '$1 !~ /^Z/ && /kube-apiserver|kubelet|containerd|etcd|weir\/kubernetes-/ && !/awk/'
        ls -d target/cluster 2>/dev/null || true
    } | LC_ALL=C sort
}

new_remains() { comm -13 <(echo "$before") <(remains); } # What was not there before the cluster was started.

a_command_keeps_what_it_is_given() {
    check "arguments" "[a b][][*]" "$($exec printf '[%s]' 'a b' '' '*')"
    check "environment" "of the caller" "$(WEIR_TEST="of the caller" $exec printenv WEIR_TEST)"
    check "input" "from the pipe" "$(echo "from the pipe" | $exec cat)"
    check "exit code" 42 "$(code $exec sh -c 'exit 42')"
    check "working folder" "$PWD" "$($exec pwd)"
}

# A Deployment is available a moment before its Service routes to it.
get() { $exec curl -sS --retry 30 --retry-connrefused --retry-delay 1 --retry-max-time 30 "$1" 2>/dev/null; }

pods_run() {
    check "the node is ready" True "$($exec kubectl get node node0 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')"
    $exec kubectl create namespace pods >/dev/null
    $exec kubectl apply -n pods -f tests/kubernetes/pods.yaml >/dev/null
    $exec kubectl wait -n pods --for condition=Available deployment/health --timeout 60s >/dev/null
    check "a service by its name" OK "$(get http://health.pods:8080/health)"
    check "a service by its full name" OK "$(get http://health.pods.svc.cluster.local:8080/health)"
    check "logs" 1 "$($exec kubectl logs -n pods deployment/health | grep -c '^CoreDNS-')"
}

the_way_out_is_closed() {
    check "another machine is unreachable" 1 "$(code $exec sh -c 'timeout 2 bash -c "</dev/tcp/192.0.2.1/80" || exit 1')"
}

it_can_be_started_twice() {
    local before
    before=$(cat target/cluster/anchor)
    # The cluster must not hold the output open, so that `cat` ends with the script.
    check "cluster-up.sh on a running cluster" "the cluster is up" "$(timeout 60 $bed/cluster-up.sh | cat)"
    check "it is the same cluster" "$before" "$(cat target/cluster/anchor)"
}

weir() {
    local before
    make image PROFILE="${PROFILE:-release}"
    scripts/clients.sh
    tests/kubernetes/weir-up.sh | cat
    before=$($exec kubectl get pods -n weir-system -o name)
    tests/kubernetes/weir-up.sh | cat
    check "pods after a second installation" "$before" "$($exec kubectl get pods -n weir-system -o name)"
    $exec .venv/bin/python tests/kubernetes/walk.py
    $exec .venv/bin/python tests/kubernetes/sdk.py
    $exec .venv/bin/python tests/kubernetes/faults.py
    tests/kubernetes/foreign/load.sh
    $exec .venv/bin/python tests/kubernetes/foreign.py
    servers triton kserve
    $exec .venv/bin/python tests/kubernetes/storage.py
    access
    $exec .venv/bin/python tests/kubernetes/tls.py
    tests/kubernetes/gpu/load.sh
    $exec .venv/bin/python tests/kubernetes/gpu.py
    tests/kubernetes/network/up.sh
    $exec .venv/bin/python tests/kubernetes/network_policy.py
    passed=$((passed + 9))
}

servers() { # servers NAME...: tests model servers of others, except those for which this machine has no package.
    scripts/servers.sh "$@" || [ $? = 75 ]
    [ -e .servers/triton ] || { echo "test-cluster: skipped: the pods of other model servers"; return 0; }
    tests/kubernetes/servers/load.sh "$@"
    $exec .venv/bin/python tests/kubernetes/servers.py "$@" from_triton_to_kserve
    passed=$((passed + 1))
}

access() { # Runs the tests of access control with the program `weir` of the images.
    local built=${PROFILE:-release}
    WEIR=$PWD/target/${built/#dev/debug}/weir $exec .venv/bin/python tests/kubernetes/access.py
}

short() { # Installs Weir on a new cluster, and walks the short way through it.
    make image PROFILE="${PROFILE:-release}"
    scripts/clients.sh
    tests/kubernetes/weir-up.sh | cat
    $exec .venv/bin/python tests/kubernetes/short_walk.py
    passed=$((passed + 1))
}

whole() { # [bed]: all other tests, or only those of the cluster.
    $bed/cluster-up.sh | cat
    a_command_keeps_what_it_is_given
    pods_run
    the_way_out_is_closed
    it_can_be_started_twice
    [ "${1:-}" = bed ] || weir
}

skip() {
    echo "test-cluster: skipped: $*"
    exit
}

[ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ] || skip "real pods need root on Linux"
unshare --mount --net --pid --fork true 2>/dev/null || skip "this machine allows no new namespaces"
if [ "${1:-}" = short ]; then
    while read -r program package; do
        command -v "$program" >/dev/null || skip "real pods need $program: install the package $package"
    done <$bed/system-packages.txt
fi
$bed/cluster-down.sh
before=$(remains)
trap '$bed/cluster-down.sh' EXIT
case ${1:-} in short) short ;; *) whole "$@" ;; esac
$bed/cluster-down.sh
check "objects left after cluster-down.sh" "" "$(new_remains)"
check "cluster-down.sh without a cluster" 0 "$(code $bed/cluster-down.sh)"
echo "test-cluster: $passed checks passed"
