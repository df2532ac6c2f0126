#!/usr/bin/env bash
# Runs a command with a control plane and simulated nodes: with-control-plane.sh COMMAND...
# The command finds the control plane by WEIR_TEST_KUBECONFIG, and its kubectl is first on PATH. Needs no root. Everything
# listens on 127.0.0.1, and ends with the command, even if this script is killed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
command -v openssl >/dev/null || { echo "openssl is missing. On Debian and Ubuntu: apt-get install openssl" >&2; exit 1; }
# Simulated nodes have no kubelet and no kube-proxy.
tools=$("$here/build.sh" etcd kubernetes/{kube-apiserver,kube-controller-manager,kube-scheduler,kubectl} kwok)
bin=$tools/bin
state=$root/target/control-plane/$$
address=127.0.0.1 services=10.96.0.0/16
pids=()
launch=()
# Tests kill the API server, so it is restarted.
again=kube-apiserver
# If possible, the kernel ends the programs together with this shell.
if setpriv --pdeathsig KILL true 2>/dev/null; then launch=(setpriv --pdeathsig KILL); fi
# shellcheck source=tests/kubernetes/bed/control-plane.sh
. "$here/control-plane.sh"

free_ports() { # free_ports COUNT
    python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))' "$1"
}

note_calls() { # Logs the calls of service accounts, which a test compares with their rights.
    cat >"$state/audit.yaml" <<YAML
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
  - {level: Metadata, userGroups: ["system:serviceaccounts"]}
YAML
    api_flags=(--audit-policy-file "$state/audit.yaml" --audit-log-path "$state/audit.log")
}

pretend_nodes() {
    local stages=() stage
    for stage in "$tools"/stages/*.yaml; do stages+=(--config "$stage"); done
    kubectl apply -f "$here/nodes.yaml" >/dev/null
    start kwok "$bin/kwok" --kubeconfig "$state/admin.kubeconfig" "${stages[@]}" --cidr 10.244.0.0/16 \
        --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake
    wait_for 60 kwok kubectl wait --for condition=Ready node --all --timeout 1s
}

end() { # Kills all programs, because nothing needs to be saved, and an API server without etcd would drain for a minute.
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
    wait "${pids[@]}" 2>/dev/null || true
    # The API server, too, if the kernel does not end it together with the shell that restarts it.
    kill -KILL "$(cat "$state/kube-apiserver.pid" 2>/dev/null)" 2>/dev/null || true
    rm -rf "$state"
    rmdir "$root/target/control-plane" 2>/dev/null || true
}

forget_the_killed() { # Removes folders of scripts that were killed before they could clean up.
    local folder
    for folder in "$root"/target/control-plane/*/; do
        kill -0 "$(basename "$folder")" 2>/dev/null || rm -rf "$folder"
    done
}

[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
forget_the_killed
mkdir -p "$state"
trap end EXIT
read -r port etcd_port peer_port < <(free_ports 3)
note_calls
control_plane
pretend_nodes
kubectl apply -f "$root/crds/yaml" >/dev/null
wait_for 60 kube-apiserver kubectl wait --for condition=Established crd --all --timeout 1s
WEIR_TEST_KUBECONFIG=$state/admin.kubeconfig PATH=$bin:$PATH "$@"
