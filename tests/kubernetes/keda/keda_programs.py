"""KEDA's two programs, in addition to Weir's three."""

import base64
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from programs import Programs, apply, free_port  # noqa: E402 - found by the line above
from weir import kubectl  # noqa: E402

ACCOUNT = "keda-operator"
# Name by which the API server calls KEDA's metrics server.
METRICS_SERVER = "keda-metrics-apiserver"


def flags(**values):
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]


class KedaPrograms(Programs):
    """Weir's programs and KEDA's."""

    def __init__(self, folder, keda):
        super().__init__(folder)
        self.keda = keda

    def start_keda(self):
        """Starts KEDA with the rights that its installation grants, and waits until the API server serves its metrics
        API."""
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
        """Creates one certificate for all connections between KEDA's parts and the API server."""
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
        """Returns a kubeconfig that contains only the token of KEDA's service account."""
        config = json.loads(kubectl("config", "view", "--raw", "-o", "json"))
        token = kubectl("create", "token", ACCOUNT, "-n", "keda")
        config["users"] = [{"name": "account", "user": {"token": token}}]
        config["contexts"][0]["context"]["user"] = "account"
        path = self.folder / "keda.kubeconfig"
        path.write_text(json.dumps(config))
        return str(path)


def aggregated(port, authority):
    """Returns the objects that lead the API server to KEDA's metrics server: among them a Service with this machine's
    address."""
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": METRICS_SERVER, "namespace": "keda"},
         "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
         "spec": {"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                  "caBundle": base64.b64encode(authority).decode(),
                  "service": {"namespace": "keda", "name": METRICS_SERVER, "port": port}}},
    ]
