"""NetworkPolicies of the chart on the one-node cluster, enforced by kube-router: what a pod reaches with them, and without
them, so that each refusal is the policy's. To be run in the cluster's network, after weir-up.sh and network/up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/network_policy.py
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

from walk import KIND
from weir import (
    ROOT, ROW, Failure, condition, expect, helm, kubectl, patch, pods, ready_pods, run, step, wait_until, write_slow_model,
)

# Seconds after which a connection that nobody answers is given up. A policy drops or refuses its first packet.
PATIENCE = 2
SERVING, ADMIN = 8080, 9090
# Client pods by namespace, name and label.
STRANGER, PROMETHEUS, NEIGHBOUR, RESIDENT = ("elsewhere", "stranger"), ("monitoring", "prometheus"), ("monitoring", "other"), ("default", "resident")
PEER = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}, "podSelector": {"matchLabels": {"app": "prometheus"}}}]
POLICIES = {"admin": {"enabled": True, "from": PEER}, "services": {"namespaces": ["default"], "from": PEER}}
NONE = {"admin": {"enabled": False, "from": []}, "services": {"namespaces": [], "from": []}}
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))"
INFER = """
import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=60)
connection.request("POST", "/v2/models/digits/infer", sys.stdin.read(), {"host": "digits.default", "content-type": "application/json"})
print(connection.getresponse().status)
"""


def process_of(pod):
    """Returns a process in the network namespace of a pod."""
    namespace, name = pod
    uid = kubectl("get", "pod", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and uid in (folder / "cgroup").read_text().replace("_", "-"):
                return folder.name
    raise Failure(f"no process of pod {name}")


def python_in(pod, code, *words, stdin=""):
    command = ["nsenter", f"--net=/proc/{process_of(pod)}/ns/net", "--", sys.executable, "-c", code, *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=90)


def reaches(pod, address, port):
    return python_in(pod, CONNECT, address, port, PATIENCE).returncode == 0


def inferred(pod, address, port=80):
    return python_in(pod, INFER, address, port, stdin=ROW.decode()).stdout.strip()


def addresses(component):
    """Returns the addresses of the pods of one of Weir's components."""
    label = f"app.kubernetes.io/name=weir-{component}"
    return kubectl("get", "pods", "-n", "weir-system", "-l", label, "-o", "jsonpath={.items[*].status.podIP}").split()


def address_of(pod):
    return kubectl("get", "pod", pod, "-n", "default", "-o", "jsonpath={.status.podIP}")


def gateway_service():
    return kubectl("get", "service", "weir-gateway", "-n", "weir-system", "-o", "jsonpath={.spec.clusterIP}")


def client(pod):
    """Returns a pod that does nothing."""
    namespace, name = pod
    container = {"name": "client", "image": "weir.dev/pause:test", "imagePullPolicy": "Never"}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": name}}, "spec": spec}


def declared(minimum):
    resources = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    model = {"modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": "pvc://weir-examples/fast", "resources": resources}
    annotations = {"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "3s"}
    metadata = {"name": "digits", "namespace": "default", "annotations": annotations}
    return json.dumps({**KIND, "metadata": metadata, "spec": {"predictor": {"minReplicas": minimum, "maxReplicas": 2, "model": model}}})


def with_policies(values):
    words = ["--set-json", f"networkPolicies={json.dumps(values)}", "--set", "gateway.replicas=2"]
    helm("upgrade", "weir", str(ROOT / "charts/weir"), "-n", "weir-system", "--reuse-values", *words, "--wait")


def ways():
    """Returns each route to pods that a policy closes, with the pods for which it stays open."""
    admin = [(f"{component}'s admin port", address, ADMIN, {PROMETHEUS})
             for component in ("gateway", "controller", "autoscaler") for address in addresses(component)]
    of_service = [(f"pod {pod}", address_of(pod), SERVING, {PROMETHEUS}) for pod in pods("digits")]
    return admin + of_service


def without_policies_every_pod_reaches_every_port():
    write_slow_model("fast", 1)
    for namespace in ("elsewhere", "monitoring"):
        kubectl("delete", "namespace", namespace, "--ignore-not-found", "--timeout", "60s")
        kubectl("create", "namespace", namespace)
    kubectl("delete", "pod", "resident", "-n", "default", "--ignore-not-found")
    for pod in (STRANGER, PROMETHEUS, NEIGHBOUR, RESIDENT):
        kubectl("apply", "-f", "-", stdin=json.dumps(client(pod)))
    with_policies(NONE)
    kubectl("apply", "-f", "-", stdin=declared(1))
    for namespace, name in (STRANGER, PROMETHEUS, NEIGHBOUR, RESIDENT):
        kubectl("wait", "--for", "condition=Ready", f"pod/{name}", "-n", namespace, "--timeout", "60s")
    kubectl("wait", "--for", "condition=Ready", "inferenceservice/digits", "--timeout", "90s")
    for what, address, port, _ in ways():
        expect(f"{what} without policies", True, reaches(STRANGER, address, port))


def only_peers_reach_admin_ports_and_pods_of_services():
    with step("helm upgrade with NetworkPolicies"):
        with_policies(POLICIES)
    pod = address_of(pods("digits")[0])
    wait_until("the policies are enforced", 30, lambda: not reaches(STRANGER, pod, SERVING))
    with step("what each pod reaches"):
        for what, address, port, peers in ways():
            for client in (STRANGER, PROMETHEUS, NEIGHBOUR, RESIDENT):
                expect(f"{what} from {'/'.join(client)}", client in peers, reaches(client, address, port))


def every_pod_reaches_services_through_the_gateways():
    """A gateway forwards requests whose queue another gateway owns, so this also shows that gateways reach each other."""
    for address, port in [(gateway_service(), 80), *((gateway, SERVING) for gateway in addresses("gateway"))]:
        for client in (STRANGER, NEIGHBOUR, RESIDENT):
            expect(f"an inference of {'/'.join(client)} at {address}", "200", inferred(client, address, port))


def weir_works_behind_its_policies():
    """The API server reaches the webhook, probes reach pods, and the autoscaler, the controller and gateways each other."""
    wrong = json.loads(declared(1))
    wrong["metadata"]["annotations"] = {"weir.dev/economy": "none"}
    try:
        kubectl("apply", "-f", "-", stdin=json.dumps(wrong))
    except Failure as failure:
        expect(f"the webhook's words in: {failure}", True, "is not `economy`" in str(failure))
    else:
        raise Failure("the webhook refused nothing")
    patch("digits", {"spec": {"predictor": {"minReplicas": 0}}})
    with step("to zero"):
        wait_until("no pod", 120, lambda: not pods("digits"))
    with step("from zero"):
        expect("an inference at zero", "200", inferred(STRANGER, gateway_service()))
    patch("digits", {"spec": {"predictor": {"minReplicas": 2}}})
    with step("two ready pods"):
        wait_until("two ready pods", 60, lambda: ready_pods() == 2 and condition("digits") == "True")
    for what, address, port, peers in ways():
        expect(f"{what} from {'/'.join(STRANGER)}", False, reaches(STRANGER, address, port))


def the_policies_are_removed():
    with_policies(NONE)
    wait_until("every port is open", 30, lambda: all(reaches(STRANGER, address, port) for _, address, port, _ in ways()))
    kubectl("delete", "inferenceservice", "--all", "--timeout", "60s")
    for namespace in ("elsewhere", "monitoring"):
        kubectl("delete", "namespace", namespace, "--timeout", "60s")
    kubectl("delete", "pod", "resident", "-n", "default")


if __name__ == "__main__":
    run("network policies", [
        without_policies_every_pod_reaches_every_port,
        only_peers_reach_admin_ports_and_pods_of_services,
        every_pod_reaches_services_through_the_gateways,
        weir_works_behind_its_policies,
        the_policies_are_removed,
    ])
