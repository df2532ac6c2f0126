#!/usr/bin/env bash
# Provides KEDA and prints the folder that holds it: its operator and its metrics server, the definitions of its objects, and the rights
# that it is installed with. go.mod beside this file says which version. It takes as long to build as all of Kubernetes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
module=github.com/kedacore/keda/v2
# Named by what it is made of: clones share it, and a new version never meets an old folder.
key=$(cd "$here" && cat build.sh go.mod go.sum | sha256sum | cut -d' ' -f1)
out=${XDG_CACHE_HOME:-$HOME/.cache}/weir/keda-$key
say() { echo "$*" >&2; }

go_list() { (cd "$here" && go list -m -f "$1" $module); }

compile() { # compile COMMAND NAME: the name is that in KEDA's images, by which the API server notes who wrote what
    local started=$SECONDS log=$out/partial/$2.log
    [ ! -x "$out/bin/$2" ] || return 0
    say "building $2 $version"
    # What is not whole has another name.
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

objects() { # What is applied before KEDA is started, as it lies in its module.
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
