"""A service that requests a GPU, on a node that reports one but has none: the pod is not ready, and the service's
condition says what its container lacks. To be run in the cluster's network, after weir-up.sh and `gpu/load.sh`:

    target/cluster/exec .venv/bin/python tests/kubernetes/gpu.py
"""

import json

from walk import KIND
from weir import expect, kubectl, pods, ready_pods, run, step, wait_until, write_slow_model

GPU = "nvidia.com/gpu"
SENTENCE = (
    "--device asks for CUDA, but there is no driver: libcuda.so.1: cannot open shared object file: No such file or directory; "
    "a pod needs `runtimeClassName: nvidia`, or a node where the GPU Operator's toolkit is the default runtime; "
    "a machine needs NVIDIA's driver; or choose --device cpu"
)


def node_has(count):
    """Lets the node offer this number of GPUs, as a device plugin would; None removes them."""
    status = {"status": {"capacity": {GPU: count}, "allocatable": {GPU: count}}}
    kubectl("patch", "node", "node0", "--subresource", "status", "--type", "merge", "-p", json.dumps(status))


def condition_of(name, kind):
    path = f'{{.status.conditions[?(@.type=="{kind}")].message}}'
    return kubectl("get", "inferenceservice", name, "-o", f"jsonpath={path}")


def a_pod_without_a_driver_is_not_ready():
    write_slow_model("fast", 1)
    node_has("1")
    try:
        it_says_what_is_missing()
    finally:
        node_has(None)


def it_says_what_is_missing():
    resources = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi", GPU: "1"}}
    model = {"modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": "pvc://weir-examples/fast", "resources": resources}
    spec = {"predictor": {"minReplicas": 1, "maxReplicas": 1, "model": model}}
    kubectl("apply", "-f", "-", stdin=json.dumps({**KIND, "metadata": {"name": "gpu"}, "spec": spec}))
    with step("a service that asks for a GPU, until it says what is missing"):
        wait_until("the reason", 90, lambda: SENTENCE in condition_of("gpu", "PredictorReady"))
    container = json.loads(kubectl("get", "pod", pods("gpu")[0], "-o", "json"))["spec"]["containers"][0]
    expect("the image for GPUs", True, container["image"].endswith("-cuda"))
    expect("the device", ["--device=cuda"], [word for word in container["args"] if "device" in word])
    expect("ready pods", 0, ready_pods("gpu"))
    for kind in ("Ready", "PredictorReady"):
        print(f"           {kind}: {condition_of('gpu', kind)}", flush=True)
    kubectl("delete", "inferenceservice", "gpu", "--timeout", "60s")


if __name__ == "__main__":
    run("gpu", [a_pod_without_a_driver_is_not_ready])
