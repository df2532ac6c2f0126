#!/usr/bin/env bash
# Makes the image of the model server beside it, and puts it into the one-node cluster, which is up.
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
