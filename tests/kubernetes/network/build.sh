#!/usr/bin/env bash
# Provides kube-router, which enforces NetworkPolicies, and prints its file. go.mod beside this file sets the version.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The folder's name is a hash of all inputs, so clones share it and a new version gets a new folder.
key=$(cd "$here" && cat build.sh go.mod go.sum | sha256sum | cut -d' ' -f1)
out=${XDG_CACHE_HOME:-$HOME/.cache}/weir/network-$key
if [ ! -x "$out/kube-router" ]; then
    command -v go >/dev/null || { echo "go is missing. It builds kube-router for the tests: install Go 1.26 or later from go.dev" >&2; exit 1; }
    mkdir -p "$out"
    echo "building kube-router" >&2
    # The file has its name only when it is complete.
    (cd "$here" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o "$out/partial" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router)
    mv "$out/partial" "$out/kube-router"
fi
echo "$out/kube-router"
