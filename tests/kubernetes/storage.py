"""Models from a bucket on the one-node cluster, with the node's cache: what each pod fetches, counted at the bucket, and
what a service says meanwhile. To be run in the cluster's network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/storage.py
"""

import json
import os
from datetime import datetime

from bucket import Bucket, many, secret
from walk import KIND, NODE, upgrade
from weir import CLAIM, ROW, expect, is_ready, kubectl, patch, post, ready_pods, run, service, step, wait_until

# Directory of the node's cache, as the node and as this process see it.
NODE_CACHE, CACHE = "/run/weir/volumes/model-cache", CLAIM.parent / "model-cache"
# Bytes of the file beside each model's configuration, which make a download measurable.
SIZE = 64 << 20
CONFIG = b"""
    backend: "echo"
    max_batch_size: 4
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
NAMESPACES = ("default", "other")
bucket = Bucket(NODE)


def model(folder):
    return {f"{folder}/config.pbtxt": CONFIG, f"{folder}/1/weights.bin": os.urandom(SIZE)}


def create(name, uri, namespace="default", key=None, **predictor):
    """Creates a service whose pods have the credentials `key`, by default those of their namespace."""
    resources = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    served = {"modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": uri, "resources": resources}
    metadata = {"name": name, "namespace": namespace}
    spec = {"predictor": {"serviceAccountName": key or namespace, "minReplicas": 1, **predictor, "model": served}}
    kubectl("apply", "-f", "-", stdin=json.dumps({**KIND, "metadata": metadata, "spec": spec}))


def wait_ready(name, namespace="default", seconds=120):
    kubectl("wait", "-n", namespace, "--for", "condition=Ready", f"inferenceservice/{name}", "--timeout", f"{seconds}s")


def ready_message(name, namespace="default"):
    path = '{.status.conditions[?(@.type=="Ready")].message}'
    return kubectl("get", "inferenceservice", name, "-n", namespace, "-o", f"jsonpath={path}")


def infer(name):
    expect("the row", [1], post(f"http://{name}.default/v2/models/{name}/infer", ROW)[1]["outputs"][0]["data"])


def received(what, bytes_by_key):
    expect(f"bytes of objects: {what}", bytes_by_key, bucket.taken())
    print(f"           the bucket sent {sum(bytes_by_key.values())} bytes", flush=True)


def stages(name):
    """Prints the seconds from the newest pod's creation to the stages of its start; Kubernetes records whole seconds. The
    gateway may find a pod ready before the kubelet does."""
    found = json.loads(kubectl("get", "pods", "-l", f"serving.kserve.io/inferenceservice={name}", "-o", "json"))["items"]
    pod = max(found, key=lambda pod: pod["metadata"]["creationTimestamp"])
    wait_until("the kubelet's word that it is ready", 30, lambda: is_ready(pod["metadata"]["name"]))
    pod = json.loads(kubectl("get", "pod", pod["metadata"]["name"], "-o", "json"))
    begun = seconds(pod["metadata"]["creationTimestamp"])
    fetched = pod["status"]["initContainerStatuses"][0]["state"]["terminated"]
    ready = {part["type"]: seconds(part["lastTransitionTime"]) for part in pod["status"]["conditions"]}
    at = {"scheduled": ready["PodScheduled"], "fetch started": seconds(fetched["startedAt"]),
          "fetched": seconds(fetched["finishedAt"]), "ready": ready["Ready"]}
    print("           " + ", ".join(f"{stage} {time - begun:.0f} s" for stage, time in at.items()), flush=True)


def seconds(stamp):
    return datetime.fromisoformat(stamp).timestamp()


def pod_security(profile):
    kubectl("label", "namespace", "weir-system", "--overwrite", f"pod-security.kubernetes.io/enforce={profile}")


def the_cache_is_installed():
    """Enables the cache, and gives each namespace its credentials."""
    pod_security("privileged")  # the cache has a directory of the node
    with step("helm upgrade with a cache on each node"):
        cache = f"modelCache.enabled=true,modelCache.hostPath={NODE_CACHE},modelCache.maxBytes=2Gi"
        # The node has two cores, and twenty pods start on it at once.
        upgrade(f"{cache},storageInitializer.resources.requests.cpu=10m")
        kubectl("rollout", "status", "daemonset/weir-model-cache", "-n", "weir-system", "--timeout", "60s")
    kubectl("delete", "namespace", "other", "--ignore-not-found", "--timeout", "120s")
    kubectl("create", "namespace", "other")
    for namespace in NAMESPACES:
        kubectl("apply", "-f", "-", stdin=many(secret(namespace, namespace, namespace, bucket.url)))


def a_model_is_fetched_once():
    """One download serves the first pod, a second pod, and a wake-up from zero."""
    size = bucket.put("models", {"default"}, model("echo"))
    with step("a service from a bucket, until it is ready"):
        create("first", "s3://models/echo", maxReplicas=2)
        wait_ready("first")
    infer("first")
    stages("first")
    received("the first pod", {"default": size})
    with step("a second pod"):
        patch("first", {"spec": {"predictor": {"minReplicas": 2}}})
        wait_until("two pods", 120, lambda: ready_pods("first") == 2)
    received("the second pod", {})
    with step("to zero"):
        patch("first", {"metadata": {"annotations": {"weir.dev/economy": "economy"}}, "spec": {"predictor": {"minReplicas": 0}}})
        wait_until("no pod", 120, lambda: ready_pods("first") == 0)
    with step("a request that wakes it"):
        infer("first")
    stages("first")
    received("the wake-up", {})


def pods_that_start_together_fetch_once():
    size = bucket.put("many", {"default"}, model("echo"))
    with step("20 pods of one model"):
        create("twenty", "s3://many/echo", minReplicas=20, maxReplicas=20)
        wait_until("20 pods", 300, lambda: ready_pods("twenty") == 20)
    received("20 pods", {"default": size})
    kubectl("delete", "inferenceservice", "twenty", "--timeout", "120s")


def a_namespace_reads_only_what_it_may():
    """A namespace that only knows the URI gets nothing. One whose own key may read the bucket fetches for itself."""
    size = bucket.put("private", {"default"}, model("echo"))
    create("mine", "s3://private/echo")
    wait_ready("mine")
    received("the owner", {"default": size})
    with step("a service of another namespace, until it says what it may not read"):
        create("mine", "s3://private/echo", namespace="other")
        wait_until("the refusal", 120, lambda: "no right to read" in ready_message("mine", "other"))
    print(f"           {ready_message('mine', 'other')}")
    received("who may not read it", {})
    bucket.readers["private"].add("other")
    with step("the same service, once its key may read the bucket"):
        wait_ready("mine", "other", 420)
    received("the other namespace", {"other": size})


def a_damaged_entry_is_fetched_again():
    size = bucket.put("damaged", {"default"}, model("echo"))
    create("damaged", "s3://damaged/echo", maxReplicas=2)
    wait_ready("damaged")
    received("the first pod", {"default": size})
    newest = max((path for path in CACHE.rglob("*") if path.is_file() and path.stat().st_size >= SIZE), key=lambda path: path.stat().st_mtime)
    with open(newest, "r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"damaged")
    with step("a second pod, after the cache's file was damaged"):
        patch("damaged", {"spec": {"predictor": {"minReplicas": 2}}})
        wait_until("two pods", 120, lambda: ready_pods("damaged") == 2)
    received("the damaged entry", {"default": size})


def a_download_shows_its_progress():
    bucket.put("slow", {"default"}, model("echo"))
    bucket.rate = 128 << 10  # for each connection
    with step("a slow download, until the service says how far it is"):
        create("slow", "s3://slow/echo")
        message = wait_until("the progress", 60, lambda: " left" in (text := ready_message("slow")) and text)
    print(f"           {message}")
    bucket.rate = None
    wait_ready("slow")
    bucket.taken()


def everything_is_removed():
    for namespace in NAMESPACES:
        kubectl("delete", "inferenceservice", "--all", "-n", namespace, "--timeout", "120s")
    kubectl("delete", "namespace", "other", "--timeout", "60s")
    upgrade("modelCache.enabled=false")
    pod_security("restricted")
    expect("DaemonSets of Weir", "", kubectl("get", "daemonsets", "-n", "weir-system", "-o", "name"))


if __name__ == "__main__":
    with bucket:
        run("storage", [
            the_cache_is_installed,
            a_model_is_fetched_once,
            pods_that_start_together_fetch_once,
            a_namespace_reads_only_what_it_may,
            a_damaged_entry_is_fetched_again,
            a_download_shows_its_progress,
            everything_is_removed,
        ])
