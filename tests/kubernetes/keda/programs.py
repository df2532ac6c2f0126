"""Weir's three programs and KEDA's two beside the control plane of tests, each under its own log."""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from weir import ROOT, kubectl  # noqa: E402 - found by the line above

WEIR = os.environ.get("WEIR", str(ROOT / "target/debug/weir"))
ACCOUNT = "keda-operator"
# The kernel ends them with this process where it can.
LAUNCH = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
# By this name the API server calls KEDA's metrics server.
METRICS_SERVER = "keda-metrics-apiserver"
# The gateway's pod, as it were.
GATEWAY = "gateway-0"


def apply(*objects):
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def flags(**values):
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


def own_address():
    """This machine's address in its network: endpoints may not be at 127.0.0.1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


class Programs:
    """All that were started; they end with the `with` block."""

    def __init__(self, folder, keda):
        self.folder, self.keda = Path(folder), keda
        # By name: the command and its variables, and the process.
        self.commands, self.running = {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.running.values():
            program.terminate()
        for program in self.running.values():
            program.wait(30)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def start(self, name, *command, **variables):
        self.commands[name] = command, variables
        self.start_again(name)

    def start_again(self, name):
        command, variables = self.commands[name]
        with open(self.folder / f"{name}.log", "a") as log:
            self.running[name] = subprocess.Popen([*LAUNCH, *command], stdout=log, stderr=log, env=os.environ | variables)

    def end(self, name):
        self.running[name].terminate()
        self.running[name].wait(30)

    def start_weir(self):
        """Starts all three; returns the port for requests and the autoscaler's admin port, which is KEDA's external scaler."""
        kubectl("create", "namespace", "weir-system")
        serving, admin, scaler = free_port(), free_port(), free_port()
        # The gateway is called at this machine's address, as a pod is at its.
        self.start("gateway", WEIR, "gateway", "-v", "--port", str(serving), "--admin-port", str(admin), "--name", GATEWAY)
        publish(serving, admin)
        for name, port in (("controller", 0), ("autoscaler", scaler)):
            self.start(name, WEIR, name, "-v", "--address", "127.0.0.1", "--admin-port", str(port), "--name", f"{name}-0")
        return serving, scaler

    def start_keda(self):
        """Starts KEDA with the rights that it is installed with, and waits until the API server knows its metrics."""
        self.install_keda()
        certificates, port, secure = self.certificates(), free_port(), free_port()
        config = self.account()
        own = {"KUBECONFIG": config, "POD_NAMESPACE": "keda", "KEDA_CLUSTER_OBJECT_NAMESPACE": "keda", "WATCH_NAMESPACE": ""}
        self.start("keda", f"{self.keda}/bin/keda", *flags(
            enable_prometheus_metrics="false", health_probe_bind_address=0, metrics_service_bind_address=f"127.0.0.1:{port}",
            cert_dir=certificates), **own)
        self.start("keda-adapter", f"{self.keda}/bin/keda-adapter", *flags(
            secure_port=secure, bind_address="127.0.0.1", port=0, metrics_service_address=f"127.0.0.1:{port}",
            metrics_service_grpc_authority="localhost", cert_dir=certificates, client_ca_file=certificates / "ca.crt",
            tls_cert_file=certificates / "tls.crt", tls_private_key_file=certificates / "tls.key",
            authentication_kubeconfig=config, authorization_kubeconfig=config, lister_kubeconfig=config), **own)
        apply(*aggregated(secure, (certificates / "ca.crt").read_bytes()))
        kubectl("wait", "--for", "condition=Available", "apiservice/v1beta1.external.metrics.k8s.io", "--timeout", "90s")

    def install_keda(self):
        """Applies the definitions and rights of KEDA's module."""
        kubectl("create", "namespace", "keda")
        kubectl("create", "serviceaccount", ACCOUNT, "-n", "keda")
        rights = [f"{folder}/{file}.yaml" for folder in ("rbac", "metrics-server") for file in ("role", "role_binding")]
        for part in ["crd/bases", *rights]:
            kubectl("apply", "--server-side", "-f", f"{self.keda}/objects/{part}")
        kubectl("wait", "--for", "condition=Established", "crd/scaledobjects.keda.sh", "--timeout", "30s")

    def certificates(self):
        """One certificate for all that KEDA's parts say to each other and to the API server."""
        folder = self.folder / "certificates"
        folder.mkdir()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "30",
             "-subj", "/CN=keda", "-addext", f"subjectAltName=DNS:localhost,DNS:{METRICS_SERVER}.keda.svc",
             "-addext", "extendedKeyUsage=serverAuth,clientAuth",
             "-keyout", folder / "tls.key", "-out", folder / "tls.crt"], check=True, stderr=subprocess.DEVNULL)
        (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())
        return folder

    def account(self):
        """A kubeconfig with nothing but the token of KEDA's account."""
        config = json.loads(kubectl("config", "view", "--raw", "-o", "json"))
        token = kubectl("create", "token", ACCOUNT, "-n", "keda")
        config["users"] = [{"name": "account", "user": {"token": token}}]
        config["contexts"][0]["context"]["user"] = "account"
        path = self.folder / "keda.kubeconfig"
        path.write_text(json.dumps(config))
        return str(path)


def publish(serving, admin):
    """Tells where the gateway is, as the Service of its pods would."""
    apply({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "weir-gateway-0", "namespace": "weir-system", "labels": {"kubernetes.io/service-name": "weir-gateway"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True},
                       "targetRef": {"kind": "Pod", "name": GATEWAY, "namespace": "weir-system"}}],
        "ports": [{"name": "http", "port": serving}, {"name": "admin", "port": admin}],
    })


def aggregated(port, authority):
    """The way of the API server to KEDA's metrics server: a Service that leads to this machine."""
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": METRICS_SERVER, "namespace": "keda"},
         "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
         "spec": {"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                  "caBundle": base64.b64encode(authority).decode(),
                  "service": {"namespace": "keda", "name": METRICS_SERVER, "port": port}}},
    ]
