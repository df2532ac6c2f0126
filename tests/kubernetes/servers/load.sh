#!/usr/bin/env bash
# Builds the images of model servers of others, and imports them into the running one-node cluster.
#
#     load.sh NAME...     # environments of .servers, which scripts/servers.sh installs
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$here/../bed/cluster.sh"
# shellcheck source=tests/kubernetes/images.sh
. "$here/../images.sh"
tools=$("$bed/build.sh" containerd)
mkdir -p "$root/target/images/servers"
for name in "$@"; do
    archive=$root/target/images/servers/$name.tar
    # An image has the Python of its environment.
    "$root/.servers/$name/bin/python" -B "$here/image.py" "$name" "$archive"
    import "$archive"
    # An archive has up to 1 GB, and containerd has its own copy.
    rm "$archive"
done
