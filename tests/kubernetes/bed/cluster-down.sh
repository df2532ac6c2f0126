#!/usr/bin/env bash
# Stops the one-node cluster, and removes its processes, mounts, network namespace, cgroups and files. It is no error if
# the cluster is not up.
set -euo pipefail
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

remove_cgroups() { # Waits until the last process has left them.
    local folder until=$((SECONDS + 30))
    for folder in $(hierarchies); do
        while [ -d "$folder/$cgroup" ]; do
            find "$folder/$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null && break
            [ $SECONDS -lt $until ] || { echo "$folder/$cgroup still holds processes" >&2; exit 1; }
            sleep 0.1
        done
    done
}

if is_alive; then
    read -r pid _ <"$anchor"
    kill -KILL "$pid"
fi
remove_cgroups
rm -rf "$cluster"
