#!/usr/bin/env bash
# Starts a one-node Kubernetes with real pods in namespaces of its own. Nothing in it can reach another machine, and
# everything ends with its first process. Writes target/cluster/kubeconfig and target/cluster/exec. A cluster that is
# already up stays unchanged.
set -euo pipefail
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

check() {
    if [ "$(uname -s)" != Linux ] || [ "$(id -u)" != 0 ]; then
        echo "a Kubernetes with real pods needs root on Linux" >&2
        exit 1
    fi
    local program package
    while read -r program package; do
        command -v "$program" >/dev/null && continue
        echo "$program is missing. On Debian and Ubuntu: apt-get install $package" >&2
        exit 1
    done <"$bed/system-packages.txt"
}

# Closes files and leaves folder and cgroup of the caller, so that the cluster's processes hold none of them. The
# terminal and the variables are dropped below.
leave_caller() {
    local folder descriptor
    for folder in $(hierarchies); do
        mkdir -p "$folder/$cgroup/system"
        inherit_processors "$folder/$cgroup" "$folder/$cgroup/system"
        echo "$BASHPID" >"$folder/$cgroup/system/cgroup.procs"
    done
    for descriptor in /proc/self/fd/*; do
        descriptor=${descriptor##*/}
        [ "$descriptor" -le 2 ] || exec {descriptor}>&-
    done
    cd /
}

inherit_processors() { # A new cpuset of cgroup v1 is empty.
    local folder file
    for folder in "$@"; do
        for file in cpuset.cpus cpuset.mems; do
            [ ! -f "$folder/$file" ] || cat "$folder/../$file" >"$folder/$file"
        done
    done
}

# Starts the first process of new namespaces; when it ends, all processes in them end. To be called in the background.
first_process() {
    leave_caller
    exec setsid env -i PATH="$PATH" unshare --net --mount --pid --fork --kill-child --mount-proc -- "$tools/bin/pause"
}

inside() (
    leave_caller
    exec nsenter --net="/proc/$pid/ns/net" --mount="/proc/$pid/ns/mnt" --pid="/proc/$pid/ns/pid_for_children" -- \
        env -i PATH="$PATH" "$@" </dev/null
)

write_exec() {
    cat >"$cluster/exec" <<SH
#!/bin/bash
# Runs a command in the cluster's network, with its kubectl and its DNS: exec COMMAND...
# Arguments, environment, input and exit code are passed through.
read -r pid since <"$anchor" 2>/dev/null || { echo "the cluster is not up: make cluster-up" >&2; exit 1; }
export PATH="$tools/bin:\$PATH" KUBECONFIG="$cluster/kubeconfig"
exec nsenter --net="/proc/\$pid/ns/net" -- unshare --mount -- \\
    /bin/sh -c 'mount --bind "\$0" /etc/resolv.conf && exec "\$@"' "$cluster/resolv.conf" "\$@"
SH
    chmod +x "$cluster/exec"
    printf 'nameserver 198.18.0.10\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n' >"$cluster/resolv.conf"
}

check
one_at_a_time
if is_alive && "$cluster/exec" kubectl wait --for condition=Available -n kube-system deployment/dns --timeout 30s >/dev/null 2>&1; then
    echo "the cluster is up"
    exit
fi
tools=$("$bed/build.sh" etcd kubernetes containerd cni coredns pause)
"$bed/cluster-down.sh"
mkdir -p "$cluster/state"
first_process </dev/null >"$cluster/state/first-process.log" 2>&1 &
pid=$!
disown
trap '"$bed/cluster-down.sh"' ERR
until inside test /proc/1/exe -ef "$tools/bin/pause" 2>/dev/null; do kill -0 $pid; sleep 0.05; done
echo "$pid $(started $pid)" >"$anchor"
write_exec
inside "$bed/boot.sh" "$tools" "$cluster/state" "/$cgroup"
cp "$cluster/state/admin.kubeconfig" "$cluster/kubeconfig"
echo "the cluster is up. In its network: target/cluster/exec kubectl get pods -A"
