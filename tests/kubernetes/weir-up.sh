#!/usr/bin/env bash
# Installs Weir on the one-node cluster: images of target/images, the chart, and the claim weir-examples with the models
# of examples/. Starts the cluster if it is not up, and builds missing images with PROFILE (release). Returns when
# everything is available. When it runs again, it installs what has changed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/kubernetes/bed/cluster.sh
. "$here/bed/cluster.sh"
# shellcheck source=tests/kubernetes/images.sh
. "$here/images.sh"
images=$root/target/images
namespace=weir-system

in_cluster() { "$cluster/exec" "$@" </dev/null; }

# The folder is on the node; files that a user puts there later are kept.
claim() {
    local folder=$cluster/state/volumes/weir-examples
    mkdir -p "$folder"
    cp -R "$root"/examples/*/weir-examples/. "$folder/"
    chmod -R a+rX "$cluster/state/volumes"
    in_cluster kubectl apply -f "$here/examples.yaml" >/dev/null
}

# A changed image has the same tag, so an annotation with the digest restarts its pods.
install() {
    local component settings=()
    for component in gateway controller autoscaler; do
        settings+=(--set-string "$component.podAnnotations.weir\\.dev/image=$(digest "$images/weir.tar")")
    done
    in_cluster kubectl apply -f "$here/namespace.yaml" >/dev/null
    in_cluster kubectl apply --server-side -f "$root/charts/weir/crds" >/dev/null
    in_cluster helm upgrade --install weir "$root/charts/weir" --namespace $namespace "${settings[@]}" --wait --timeout 3m >/dev/null || {
        explain
        exit 1
    }
}

explain() { # Prints information for finding the cause of a failure.
    in_cluster kubectl get pods -n $namespace -o wide
    in_cluster kubectl get events -n $namespace --field-selector type=Warning -o custom-columns=OBJECT:.involvedObject.name,MESSAGE:.message
    in_cluster kubectl logs -n $namespace -l app.kubernetes.io/part-of=weir --prefix --tail 5
} >&2

"$here/bed/cluster-up.sh" >/dev/null
tools=$("$here/bed/build.sh" helm)
one_at_a_time
for image in weir weir-runtime; do
    [ -f "$images/$image.tar" ] || make -C "$root" image PROFILE="${PROFILE:-release}"
    import "$images/$image.tar"
done
claim
install
echo "Weir is up. In its network: target/cluster/exec kubectl apply -f examples/digits"
