"""The KServe SDK against Weir on the one-node cluster: create, wait, patch, canary, get with watch, replace and delete,
as a notebook uses it. To be run in the cluster's network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/sdk.py
"""

import os

from kserve import (
    KServeClient, V1beta1InferenceService, V1beta1InferenceServiceSpec, V1beta1ModelFormat, V1beta1ModelSpec, V1beta1PredictorSpec,
)
from kubernetes import client

from weir import ROOT, expect, left, step, wait_until

NAME, NAMESPACE = "sdk-digits", "default"


def declared(threads, percent=None, version=None):
    """Returns a service of the digits model, whose pods differ by a variable; `version` is the resource version of the
    object to replace."""
    model = V1beta1ModelSpec(
        model_format=V1beta1ModelFormat(name="pytorch"),
        protocol_version="v2",
        storage_uri="pvc://weir-examples/digits",
        env=[client.V1EnvVar(name="OMP_NUM_THREADS", value=str(threads))],
        resources=client.V1ResourceRequirements(requests={"cpu": "100m", "memory": "256Mi"}),
    )
    return V1beta1InferenceService(
        api_version="serving.kserve.io/v1beta1",
        kind="InferenceService",
        metadata=client.V1ObjectMeta(name=NAME, namespace=NAMESPACE, resource_version=version),
        spec=V1beta1InferenceServiceSpec(
            predictor=V1beta1PredictorSpec(min_replicas=1, canary_traffic_percent=percent, model=model)
        ),
    )


def traffic(kserve):
    parts = kserve.get(NAME, namespace=NAMESPACE)["status"]["components"]["predictor"]["traffic"]
    return {part["revisionName"][-1]: part["percent"] for part in parts if part.get("percent")}


def main():
    os.environ.setdefault("KUBECONFIG", str(ROOT / "target/cluster/kubeconfig"))
    kserve = KServeClient(config_file=os.environ["KUBECONFIG"])
    with step("create, until wait_isvc_ready returns"):
        kserve.create(declared(1), namespace=NAMESPACE)
        kserve.wait_isvc_ready(NAME, namespace=NAMESPACE, timeout_seconds=90, polling_interval=1)
    expect("is_isvc_ready", True, kserve.is_isvc_ready(NAME, namespace=NAMESPACE))
    with step("get with watch"):
        kserve.get(NAME, namespace=NAMESPACE, watch=True, timeout_seconds=30)
    with step("patch to a canary of 25 %"):
        kserve.patch(NAME, declared(2, percent=25), namespace=NAMESPACE)
        wait_until("the traffic split", 90, lambda: traffic(kserve) == {"1": 75, "2": 25})
    with step("replace without the canary's percentage"):
        version = kserve.get(NAME, namespace=NAMESPACE)["metadata"]["resourceVersion"]
        kserve.replace(NAME, declared(2, version=version), namespace=NAMESPACE)
        wait_until("all traffic for the second revision", 90, lambda: traffic(kserve) == {"2": 100})
        kserve.wait_isvc_ready(NAME, namespace=NAMESPACE, timeout_seconds=90, polling_interval=1)
    with step("delete, until nothing is left"):
        kserve.delete(NAME, namespace=NAMESPACE)
        wait_until("everything is deleted", 60, lambda: not left())


if __name__ == "__main__":
    main()
