# Functions for images in the containerd of the one-node cluster; to be sourced after bed/cluster.sh.

# Runs a command in all namespaces of the cluster, in which containerd listens.
inside() {
    local pid
    read -r pid _ <"$anchor"
    nsenter --net="/proc/$pid/ns/net" --mount="/proc/$pid/ns/mnt" --pid="/proc/$pid/ns/pid_for_children" -- \
        env -i PATH="$tools/bin:$PATH" "$@" </dev/null
}

digest() { tar -xOf "$1" index.json | grep -o 'sha256:[0-9a-f]*' | head -n 1; } # digest ARCHIVE: prints the digest of its manifest

containers() { inside ctr --address /run/containerd.sock --namespace k8s.io "$@" 2>>"$cluster/state/log/import.log"; }

import() { # import ARCHIVE: imports an image into the cluster's containerd, unless it is already there
    local snapshotter
    containers images ls | grep -qF "$(digest "$1")" && return
    snapshotter=$(sed -n 's/.*snapshotter = "\(.*\)"/\1/p' "$cluster/state/containerd.toml")
    containers images import --snapshotter "$snapshotter" "$1" >/dev/null
}
