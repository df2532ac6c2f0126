#!/usr/bin/env bash
# Runs inside the cluster's namespaces and starts network, control plane, containers, node and DNS: boot.sh TOOLS STATE
# CGROUP
set -euo pipefail
tools=$1 cgroup=$3
bin=$tools/bin
state=/run/weir # short: the path of a Unix socket has at most 107 bytes
# Address ranges that networks around this machine are unlikely to use.
address=100.64.0.10 pods=203.0.113.0/24 services=198.18.0.0/16
port=6443 etcd_port=2379 peer_port=2380
pids=() api_flags=()
launch=(setsid)
bed=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes/bed/control-plane.sh
. "$bed/control-plane.sh"

files() { # Files written outside the state vanish with the mount namespace.
    mount --make-rshared /
    local folder
    # The kubelet makes the sockets of device plugins in its usual directory, whatever its --root-dir is, and containerd
    # has the results of CNI plugins in theirs.
    mkdir -p /var/lib/kubelet /var/lib/cni
    for folder in /run /var/log /var/lib/kubelet /var/lib/cni; do mount -t tmpfs tmpfs $folder; done
    mkdir -p $state
    mount --bind "$1" $state
    mkdir -p $state/tmp
    export TMPDIR=$state/tmp
    cd $state
}

# The node's address is on a bridge without ports, and the default route leads there: the kernel routes an address of a
# Service before it translates it, so the address needs a route.
network() {
    ip link set lo up
    ip link add node0 type bridge
    ip addr add $address/24 dev node0
    ip link set node0 up
    ip route add default dev node0
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

snapshotter() { # Some file systems cannot hold the upper layer of an overlay.
    mkdir -p $state/overlay/{lower,upper,work,merged}
    if mount -t overlay overlay -o lowerdir=$state/overlay/lower,upperdir=$state/overlay/upper,workdir=$state/overlay/work \
        $state/overlay/merged 2>/dev/null; then
        umount $state/overlay/merged
        echo overlayfs
    else
        echo native
    fi
}

containers() {
    mkdir -p $state/cni
    cat >$state/cni/10-weir.conflist <<JSON
{"cniVersion": "1.0.0", "name": "weir", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$state/cni-addresses", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
    # If the cluster must not lower oom_score_adj, runc fails to set it and dies: "can't get final child's PID from
    # pipe".
    cat >$state/containerd.toml <<TOML
version = 3
root = "$state/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
  path = "$state/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "$(snapshotter)"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "weir.dev/pause:test"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["$bin"]
  conf_dir = "$state/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  runtime_path = "$bin/containerd-shim-runc-v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  BinaryName = "$(command -v runc)"
  SystemdCgroup = false
TOML
    start containerd "$bin/containerd" --config $state/containerd.toml
    wait_for 60 containerd "$bin/ctr" --address /run/containerd.sock version
    for program in pause coredns; do
        python3 "$bed/image.py" $state/image.tar weir.dev/$program:test "$bin/$program"
        "$bin/ctr" --address /run/containerd.sock --namespace k8s.io images import --snapshotter "$(snapshotter)" $state/image.tar >$state/log/import.log 2>&1
        rm $state/image.tar
    done
}

node() {
    identity node /O=system:nodes/CN=system:node:node0 "DNS:node0,IP:$address"
    identity proxy /CN=system:kube-proxy
    for name in node proxy; do kubeconfig $name https://$address:$port; done
    printf 'nameserver 198.18.0.10\n' >$state/resolv.conf
    cat >$state/kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $state/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $state/pki/node.crt
tlsPrivateKeyFile: $state/pki/node.key
containerRuntimeEndpoint: unix:///run/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $cgroup
failCgroupV1: false # otherwise 1.35 and later refuse cgroup v1
failSwapOn: false
clusterDomain: cluster.local
clusterDNS: [198.18.0.10]
resolvConf: $state/resolv.conf
podLogsDir: $state/pod-logs
volumePluginDir: $state/volume-plugins
imageGCHighThresholdPercent: 100 # imported images cannot be pulled again
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
YAML
    cat >$state/proxy.yaml <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $state/proxy.kubeconfig}
mode: iptables
clusterCIDR: $pods
hostnameOverride: node0
nodePortAddresses: [primary]
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s} # these settings belong to the machine, not to the namespace
YAML
    start kubelet "$bin/kubelet" --kubeconfig $state/node.kubeconfig --config $state/kubelet.yaml --hostname-override node0 \
        --node-ip $address --root-dir $state/kubelet --cert-dir $state/kubelet-pki
    start kube-proxy "$bin/kube-proxy" --config $state/proxy.yaml
    wait_for 120 kubelet kubectl wait --for condition=Ready node/node0 --timeout 1s
}

dns() {
    kubectl apply -f "$bed/dns.yaml" >/dev/null
    wait_for 120 kubelet kubectl rollout status -n kube-system deployment/dns --timeout 1s
}

files "$2"
network
control_plane
containers
node
dns
