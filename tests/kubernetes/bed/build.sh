#!/usr/bin/env bash
# Provides the programs of a Kubernetes and prints the folder that holds them: build.sh [MODULE[/PROGRAM]...], all by
# default. A module is a folder beside this file whose go.mod lists its programs and their versions. A program on PATH
# or in KUBEBUILDER_ASSETS in the same version is copied; any other is built.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The folder's name is a hash of all inputs, so clones share it and a new version gets a new folder.
key=$(cd "$here" && cat build.sh */go.mod */go.sum */*.go | sha256sum | cut -d' ' -f1)
out=${XDG_CACHE_HOME:-$HOME/.cache}/weir/kubernetes-$key
say() { echo "$*" >&2; }

packages() { # packages MODULE: the tools that its go.mod lists
    awk '/^tool \(/ { block = 1; next } /^\)/ { block = 0 } block { print $1 } /^tool [^(]/ { print $2 }' "$here/$1/go.mod"
}

# version MODULE PACKAGE: the version of the Go module that contains the package, the one with the longest matching path
version() {
    awk -v package="$2/" '{ sub(/^require /, "") }
        $2 ~ /^v/ && index(package, $1 "/") == 1 && length($1) > longest { longest = length($1); found = $2 }
        END { print found }' "$here/$1/go.mod"
}

program() { # program MODULE PACKAGE: the usual name of the program
    case $2 in
        go.etcd.io/etcd/server/v3) echo etcd ;;
        *) basename "$2" ;;
    esac
}

stamp() { # stamp MODULE VERSION: linker flags that set the version, which release builds set outside the source
    local number=${2#v}
    case $1 in
        kubernetes)
            local at=k8s.io/component-base/version
            echo "-X $at.gitVersion=$2 -X $at.gitMajor=${number%%.*} -X $at.gitMinor=$(cut -d. -f2 <<<"$number")"
            ;;
        containerd) echo "-X github.com/containerd/containerd/v2/version.Version=$2" ;;
        kwok) echo "-X sigs.k8s.io/kwok/pkg/consts.Version=$2" ;;
        helm) echo "-X helm.sh/helm/v3/internal/version.version=$2" ;;
    esac
}

says_version() { # says_version FILE VERSION
    local ask=--version
    case $(basename "$1") in kubectl) ask="version --client" ;; helm) ask="version --short" ;; coredns) ask=-version ;; esac
    # shellcheck disable=SC2086 # two words for kubectl
    timeout 5 "$1" $ask 2>/dev/null </dev/null | grep -qE "(^|[^0-9.])${2//./\\.}([^0-9.+-]|\$)"
}

installed() { # installed PROGRAM VERSION: the file, if there is one in this version
    local folders folder
    [ -n "$2" ] || return 1 # a program of this repository has no version
    IFS=: read -ra folders <<<"${KUBEBUILDER_ASSETS:-}:$PATH"
    for folder in "${folders[@]}"; do
        [ -x "$folder/$1" ] && says_version "$folder/$1" "${2#v}" && echo "$folder/$1" && return
    done
    return 1
}

compile() { # compile MODULE PACKAGE VERSION TARGET
    local started=$SECONDS log=$4.log
    command -v go >/dev/null || { say "go is missing. It builds Kubernetes for the tests: install Go 1.26 or later from go.dev"; exit 1; }
    if ! (cd "$here/$1" && CGO_ENABLED=0 go build -v -trimpath -ldflags "-s -w $(stamp "$1" "$3")" -o "$4" "$2") 2>&1 |
        tee "$log" | awk 'NR % 200 == 0 { printf "    %d packages\n", NR; fflush() }' >&2; then
        tail -n 20 "$log" >&2
        say "$2 $3 could not be built: see above"
        exit 1
    fi
    rm "$log"
    say "    in $((SECONDS - started)) s"
}

# Copies kwok's stages, which say how fake nodes and pods change state, from its module.
stages() {
    local module folder
    module=$(cd "$here/kwok" && go mod download -json sigs.k8s.io/kwok | awk -F'"' '$2 == "Dir" { print $4 }')
    mkdir -p "$out/stages.partial"
    for folder in node/fast/node-initialize node/heartbeat/node-heartbeat pod/fast/pod-{ready,complete,delete}; do
        install -m 644 "$module/kustomize/stage/$folder.yaml" "$out/stages.partial/"
    done
    mv "$out/stages.partial" "$out/stages"
}

provide() { # provide MODULE[/PROGRAM]
    local module=${1%%/*} wanted=${1#*/} package name version found
    for package in $(packages "$module"); do
        name=$(program "$module" "$package")
        [ "$wanted" = "$module" ] || [ "$wanted" = "$name" ] || continue
        [ -x "$out/bin/$name" ] && continue
        version=$(version "$module" "$package")
        # The file moves to bin/ only when it is complete.
        if found=$(installed "$name" "$version"); then
            say "$name $version is at $found"
            cp -L "$found" "$out/partial/$name"
        else
            say "building $name${version:+ $version}"
            compile "$module" "$package" "$version" "$out/partial/$name"
        fi
        mv "$out/partial/$name" "$out/bin/$name"
    done
}

mkdir -p "$out/bin" "$out/partial"
modules=("$@")
[ $# -gt 0 ] || modules=(etcd kubernetes kwok containerd cni coredns helm pause)
for module in "${modules[@]}"; do
    provide "$module"
    [ "$module" != kwok ] || [ -d "$out/stages" ] || stages
done
echo "$out"
