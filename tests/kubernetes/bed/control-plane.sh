# Starts the parts of a cluster that need no root: etcd, API server, controllers, scheduler; to be sourced. The caller
# must set: $bin, $state, $address (of the API server), $port, $etcd_port, $peer_port, $services (range), $launch; and
# $api_flags, if any.
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/kubernetes/bed/processes.sh
. "$here/processes.sh"
# shellcheck source=tests/kubernetes/bed/identities.sh
. "$here/identities.sh"

kubectl() { "$bin/kubectl" --kubeconfig "$state/admin.kubeconfig" "$@"; }

control_plane() {
    local server=https://$address:$port
    authority
    # The API server has the first address of the Services' range, whatever the length of the range's prefix (16 or 24
    # bits).
    identity apiserver /CN=kube-apiserver \
        "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:$address,IP:${services%.*}.1"
    identity aggregator /CN=aggregator
    identity admin /O=system:masters/CN=admin
    identity controllers /CN=system:kube-controller-manager
    identity scheduler /CN=system:kube-scheduler
    for name in admin controllers scheduler; do kubeconfig $name "$server"; done
    etcd
    api_server
    controllers
    scheduler
}

etcd() { # No data needs to survive a crash of the machine, so no write waits for the disk.
    local url=http://127.0.0.1:$etcd_port
    start etcd "$bin/etcd" --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn --listen-peer-urls "http://127.0.0.1:$peer_port" \
        --listen-client-urls "$url" --advertise-client-urls "$url"
}

api_server() {
    start kube-apiserver "$bin/kube-apiserver" "${api_flags[@]}" --etcd-servers "http://127.0.0.1:$etcd_port" \
        --bind-address "$address" --advertise-address "$address" --secure-port "$port" --service-cluster-ip-range "$services" \
        --tls-cert-file "$state/pki/apiserver.crt" --tls-private-key-file "$state/pki/apiserver.key" \
        --client-ca-file "$state/pki/ca.crt" --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
        --requestheader-client-ca-file "$state/pki/ca.crt" --requestheader-allowed-names aggregator \
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
        --requestheader-extra-headers-prefix X-Remote-Extra- \
        --proxy-client-cert-file "$state/pki/aggregator.crt" --proxy-client-key-file "$state/pki/aggregator.key" \
        --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$state/pki/tokens.pub" \
        --service-account-signing-key-file "$state/pki/tokens.key" --allow-privileged \
        --kubelet-client-certificate "$state/pki/admin.crt" --kubelet-client-key "$state/pki/admin.key" \
        --kubelet-preferred-address-types InternalIP # otherwise logs and exec look up the node's name in DNS
    wait_for 120 kube-apiserver kubectl get --raw /readyz
}

# At the default of 20 requests a second, thousands of objects would take minutes. The grace period is long, so that a
# node does not count as lost, and its pods as not ready, because a test stops the API server for a minute.
controllers() {
    start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$state/controllers.kubeconfig" --secure-port 0 \
        --leader-elect=false --use-service-account-credentials --service-account-private-key-file "$state/pki/tokens.key" \
        --root-ca-file "$state/pki/ca.crt" --horizontal-pod-autoscaler-sync-period 2s --kube-api-qps 500 --kube-api-burst 1000 --node-monitor-grace-period 5m
}

scheduler() {
    start kube-scheduler "$bin/kube-scheduler" --kubeconfig "$state/scheduler.kubeconfig" --secure-port 0 --leader-elect=false
}
