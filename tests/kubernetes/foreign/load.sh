#!/usr/bin/env bash
# Builds the image of the model server in this folder, and imports it into the running one-node cluster.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$here/../bed/cluster.sh"
# shellcheck source=tests/kubernetes/images.sh
. "$here/../images.sh"
tools=$("$bed/build.sh" containerd)
archive=$root/target/images/foreign.tar
mkdir -p "$(dirname "$archive")"
python3 -B "$here/image.py" "$archive"
import "$archive"
