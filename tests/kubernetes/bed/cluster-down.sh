#!/usr/bin/env bash
# Ends the one-node cluster. No process, mount, network namespace, cgroup or file of it is left. One that is not up is no error.
set -euo pipefail
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

remove_cgroups() { # As soon as the last process has left them.
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
