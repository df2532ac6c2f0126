# Images of the one-node cluster's containerd; to be sourced after bed/cluster.sh.

# In all namespaces of the cluster: where its containerd listens.
inside() {
    local pid
    read -r pid _ <"$anchor"
    nsenter --net="/proc/$pid/ns/net" --mount="/proc/$pid/ns/mnt" --pid="/proc/$pid/ns/pid_for_children" -- \
        env -i PATH="$tools/bin:$PATH" "$@" </dev/null
}

digest() { tar -xOf "$1" index.json | grep -o 'sha256:[0-9a-f]*' | head -n 1; } # digest ARCHIVE: of its manifest

containers() { inside ctr --address /run/containerd.sock --namespace k8s.io "$@" 2>>"$cluster/state/log/import.log"; }

import() { # import ARCHIVE: into the cluster's containerd, unless it is there
    local snapshotter
    containers images ls | grep -qF "$(digest "$1")" && return
    snapshotter=$(sed -n 's/.*snapshotter = "\(.*\)"/\1/p' "$cluster/state/containerd.toml")
    containers images import --snapshotter "$snapshotter" "$1" >/dev/null
}
