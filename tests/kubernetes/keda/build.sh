#!/usr/bin/env bash
# Provides KEDA and prints the folder that holds it: its operator, its metrics server, its CRDs and the RBAC rules of
# its installation. go.mod beside this file sets the version. The build takes as long as all of Kubernetes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=github.com/kedacore/keda/v2
# The folder's name is a hash of all inputs, so clones share it and a new version gets a new folder.
key=$(cd "$here" && cat build.sh go.mod go.sum | sha256sum | cut -d' ' -f1)
out=${XDG_CACHE_HOME:-$HOME/.cache}/weir/keda-$key
say() { echo "$*" >&2; }

go_list() { (cd "$here" && go list -m -f "$1" $module); }

# compile COMMAND NAME: NAME is the program's name in KEDA's images, which the API server records as field manager
compile() {
    local started=$SECONDS log=$out/partial/$2.log
    [ ! -x "$out/bin/$2" ] || return 0
    say "building $2 $version"
    # The file moves to bin/ only when it is complete.
    if ! (cd "$here" && CGO_ENABLED=0 go build -v -trimpath -ldflags "-s -w -X $module/version.Version=${version#v}" \
        -o "$out/partial/$2" "$module/cmd/$1") 2>&1 | tee "$log" |
        awk 'NR % 200 == 0 { printf "    %d packages\n", NR; fflush() }' >&2; then
        tail -n 20 "$log" >&2
        say "$2 $version could not be built: see above"
        exit 1
    fi
    mv "$out/partial/$2" "$out/bin/$2"
    rm "$log"
    say "    in $((SECONDS - started)) s"
}

objects() { # Copies the manifests that are applied before KEDA starts from its module.
    local source folder
    source=$(cd "$here" && go mod download -json $module | awk -F'"' '$2 == "Dir" { print $4 }')
    for folder in crd/bases rbac metrics-server; do
        mkdir -p "$out/objects.partial/$folder"
        install -m 644 "$source/config/$folder"/*.yaml "$out/objects.partial/$folder/"
    done
    mv "$out/objects.partial" "$out/objects"
}

if [ ! -d "$out/objects" ] || [ ! -x "$out/bin/keda" ] || [ ! -x "$out/bin/keda-adapter" ]; then
    command -v go >/dev/null || { say "go is missing. It builds KEDA for the tests: install Go 1.26 or later from go.dev"; exit 1; }
    mkdir -p "$out/bin" "$out/partial"
    version=$(go_list '{{.Version}}')
    compile operator keda
    compile adapter keda-adapter
    [ -d "$out/objects" ] || objects
fi
echo "$out"
