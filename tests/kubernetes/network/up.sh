#!/usr/bin/env bash
# Lets kube-router enforce NetworkPolicies on the running one-node cluster, until the cluster ends. Needs ipset, and a kernel
# with ip_set, xt_set and br_netfilter. An engine that already runs stays unchanged.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$here/../bed/cluster.sh"
# shellcheck source=tests/kubernetes/images.sh
. "$here/../images.sh"
log=$cluster/state/log/kube-router.log
is_alive || { echo "the cluster is not up: make cluster-up" >&2; exit 1; }
command -v ipset >/dev/null || { echo "ipset is missing. On Debian and Ubuntu: apt-get install ipset" >&2; exit 1; }
tools=$("$bed/build.sh" containerd)
router=$("$here/build.sh")

enforces() { "$cluster/exec" iptables -n -L KUBE-ROUTER-FORWARD >/dev/null 2>&1; }

enforces && exit
# Packets between pods of one bridge pass iptables only with this setting, which belongs to the cluster's network.
"$cluster/exec" sh -c 'echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables'
inside setsid env NODE_NAME=node0 "$router" --kubeconfig "$cluster/state/admin.kubeconfig" --run-firewall=true --run-router=false \
    --run-service-proxy=false --run-loadbalancer=false --service-cluster-ip-range=198.18.0.0/16 --metrics-port=0 >"$log" 2>&1 &
for _ in $(seq 600); do
    if enforces; then exit; fi
    sleep 0.1
done
echo "kube-router enforces nothing after 60 s. The end of $log:" >&2
tail -n 20 "$log" >&2
exit 1
