#!/usr/bin/env bash
# Gives the cluster's runtime image also the name of its build for GPUs. That build has NVIDIA's libraries besides, which
# the runtime opens only after it has found a driver, so that this image shows what happens without one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$here/../bed/cluster.sh"
# shellcheck source=tests/kubernetes/images.sh
. "$here/../images.sh"
tools=$("$bed/build.sh" containerd)
image=$(containers images ls -q | grep -m 1 -E '/weir-runtime:[^@]*[0-9]$')
containers images tag --force "$image" "$image-cuda" >/dev/null
