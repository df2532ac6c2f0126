"""TLS between all parts on the one-node cluster: clients, gateways, controllers and replicas of Weir's runtime. A service goes
from plain replicas to ones with certificates and back, while requests over HTTP and gRPC go on, none of which may fail. To be
run in the cluster's network, after weir-up.sh:

    target/cluster/exec .venv/bin/python tests/kubernetes/tls.py
"""

import base64
import contextlib
import http.client
import json
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from walk import KIND
from weir import (
    GATEWAY, ROOT, ROW, Failure, Traffic, expect, helm, kubectl, pods, post, run, step, wait_until, write_slow_model,
)

SERVICE = "encrypted"
PLAIN = f"http://{SERVICE}.default/v2/models/{SERVICE}/infer"
ENCRYPTED = f"https://{GATEWAY}/serving/default/{SERVICE}/v2/models/{SERVICE}/infer"
# Ports of a replica for requests.
HTTP, GRPC = 8080, 9000
# Files of the certificate of the gateways' port, on this machine.
FOLDER = Path(tempfile.mkdtemp())
KEY, CERTIFICATE = FOLDER / "tls.key", FOLDER / "tls.crt"


def is_row(answer):
    expect("the row", [1], answer["outputs"][0]["data"])


class Calls:
    """Calls over gRPC in the background, over one connection, as `Traffic` does over HTTP."""

    def __init__(self, address, **options):
        self.revisions, self.failures, self.ended = Counter(), [], threading.Event()
        self.client = triton.InferenceServerClient(address, **options)
        self.row = triton.InferInput("INPUT0", [1, 1], "INT32")
        self.row.set_data_from_numpy(np.ones((1, 1), np.int32))
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.ended.is_set():
            try:
                answer = self.client.infer(SERVICE, [self.row], client_timeout=60)
                expect("the row", 1, int(answer.as_numpy("OUTPUT0")[0, 0]))
                self.revisions["answered"] += 1
            except (Failure, InferenceServerException) as error:
                self.failures.append(str(error))
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.client.close()


@contextlib.contextmanager
def answered():
    """Sends requests all the time by each protocol, with TLS and without, none of which may fail."""
    encrypted = {"ssl": True, "root_certificates": str(CERTIFICATE), "channel_args": [
        ("grpc.default_authority", f"{SERVICE}.default"), ("grpc.ssl_target_name_override", GATEWAY),
    ]}
    senders = {
        "HTTP": Traffic(PLAIN, ROW, is_row, clients=2), "HTTP with TLS": Traffic(ENCRYPTED, ROW, is_row, clients=2),
        "gRPC": Calls(f"{SERVICE}.default:8081"), "gRPC with TLS": Calls(f"{GATEWAY}:443", **encrypted),
    }
    with contextlib.ExitStack() as running:
        for sender in senders.values():
            running.enter_context(sender)
        yield
    for name, sender in senders.items():
        expect(f"failed requests over {name}", [], sender.failures[:5])
        if not sum(sender.revisions.values()):
            raise Failure(f"no request over {name}")
    counts = ", ".join(f"{sum(sender.revisions.values())} over {name}" for name, sender in senders.items())
    print(f"           {counts}, none failed", flush=True)


def upgrade(*settings):
    no_right_is_missing()
    values = [word for setting in settings for word in ("--set", setting)]
    helm("upgrade", "weir", str(ROOT / "charts/weir"), "-n", "weir-system", "--reuse-values", *values, "--wait", "--timeout", "3m")
    for name in ("gateway", "controller", "autoscaler"):
        rolled_out(name)


def restart(name):
    no_right_is_missing()
    kubectl("rollout", "restart", f"deployment/weir-{name}", "-n", "weir-system")
    rolled_out(name)


def rolled_out(name):
    kubectl("rollout", "status", f"deployment/weir-{name}", "-n", "weir-system", "--timeout", "120s")


def declare(generation):
    """Declares the service with two replicas. Another `generation` makes another revision."""
    resources = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    model = {
        "modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": "pvc://weir-examples/fast", "resources": resources,
        "env": [{"name": "GENERATION", "value": str(generation)}],
    }
    predictor = {"minReplicas": 2, "maxReplicas": 2, "model": model}
    kubectl("apply", "-f", "-", stdin=json.dumps({**KIND, "metadata": {"name": SERVICE}, "spec": {"predictor": predictor}}))


def revision(number):
    return f"{SERVICE}-predictor-{number:05}"


def replicas(number):
    """Returns the addresses of a revision's pods."""
    names = [name for name in pods(SERVICE) if name.startswith(revision(number))]
    return [kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}") for name in names]


def roll_out(number):
    """Makes the revision with this number, until it answers every request."""
    with step(f"revision {number}, until it answers every request"):
        declare(number)
        wait_until("the revision", 180, lambda: {post(PLAIN, ROW)[0] for _ in range(20)} == {revision(number)})
    expect("replicas", 2, len(replicas(number)))


def speaks_plainly(address):
    """Returns true if a replica answers a client that has no certificate, and no TLS either."""
    connection = http.client.HTTPConnection(address, HTTP, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/v2/health/ready")
        return connection.getresponse().status == 200
    return False


def answers_a_stranger(address, port):
    """Returns true if a replica answers a client with TLS that has no certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=5) as plain:
        with context.wrap_socket(plain) as stream:
            stream.sendall(b"GET /v2/health/ready HTTP/1.1\r\nhost: a\r\n\r\n")
            return bool(stream.recv(1))
    return False


def names_of(address):
    """Returns the alternative names in the certificate that a replica presents."""
    shown = subprocess.run(["openssl", "s_client", "-connect", f"{address}:{HTTP}"], stdin=subprocess.DEVNULL, capture_output=True)
    read = ["openssl", "x509", "-noout", "-ext", "subjectAltName"]
    return subprocess.run(read, input=shown.stdout, capture_output=True).stdout.decode().split("\n")[1].strip()


def clients_and_gateways_have_tls():
    """From here on, only certificates count between gateways, and clients may use TLS. Replicas are still plain."""
    write_slow_model("fast", 1)
    made = "openssl req -x509 -nodes -newkey rsa:2048 -subj /CN=weir".split()
    names = ["-addext", f"subjectAltName=DNS:{GATEWAY}", "-keyout", str(KEY), "-out", str(CERTIFICATE)]
    subprocess.run([*made, *names], check=True, capture_output=True)
    kubectl("delete", "secret", "tls", "-n", "weir-system", "--ignore-not-found")
    kubectl("create", "secret", "tls", "tls", "-n", "weir-system", "--key", str(KEY), "--cert", str(CERTIFICATE))
    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
    urllib.request.install_opener(urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusted)))
    with step("helm upgrade with TLS for clients and between gateways"):
        upgrade("gateway.tls.secretName=tls", "gateway.peerTls.trust=certificate", "gateway.replicas=2")
    declare(1)
    kubectl("wait", "--for", "condition=Ready", f"inferenceservice/{SERVICE}", "--timeout", "120s")
    wait_until("two replicas", 60, lambda: len(replicas(1)) == 2)
    expect("plain replicas", [True, True], [speaks_plainly(address) for address in replicas(1)])


def replicas_get_certificates():
    """The upgrade in two steps, as in docs/kubernetes.md."""
    with answered():
        with step("helm upgrade to prepared"):
            upgrade("runtime.tls.mode=prepared", "controller.replicas=2")
            wait_until("the certificate of gateways", 60, lambda: secret("weir-gateway-replicas").get("tls.crt"))
        with step("helm upgrade to enabled"):
            upgrade("runtime.tls.mode=enabled")
        expect("the revision that was there", {revision(1)}, {post(PLAIN, ROW)[0] for _ in range(20)})
        roll_out(2)
    only_gateways_reach(2)


def only_gateways_reach(number):
    for address in replicas(number):
        expect("its name", f"URI:weir://default/{revision(number)}", names_of(address))
        expect("a plain client", False, speaks_plainly(address))
        expect("clients without a certificate", [False, False], [answers_a_stranger(address, port) for port in (HTTP, GRPC)])


def secret(name):
    return json.loads(kubectl("get", "secret", name, "-n", "weir-system", "-o", "json")).get("data") or {}


def pods_and_gateways_come_and_go():
    """With TLS on, the ends of pods, gateways and controllers are no more noticed than without."""
    with answered():
        for name in ("gateway", "controller"):
            with step(f"a rolling restart of each {name}"):
                restart(name)
        replace_pods(2)


def replace_pods(number):
    with step("pods that are deleted one after the other"):
        for pod in [name for name in pods(SERVICE) if name.startswith(revision(number))]:
            kubectl("delete", "pod", pod, "--timeout", "60s")
            wait_until("two pods", 90, lambda: ready(number) == 2)


def ready(number):
    listed = kubectl("get", "deployment", revision(number), "-o", "jsonpath={.status.readyReplicas}")
    return int(listed or 0)


def the_authority_of_replicas_is_replaced():
    """The steps of docs/kubernetes.md. New pods stand for the days in which replicas renew their certificates."""
    [first] = trusted()
    with answered():
        with step("the next authority is made, until gateways trust both"):
            change_authorities({"op": "add", "path": "/data/next-authority.json", "value": ""})
            wait_until("both authorities", 120, lambda: len(trusted()) == 2)
        roll_out(3)
        with step("the next authority signs, and the former one is still trusted"):
            moves = (("authority.json", "former-authority.json"), ("next-authority.json", "authority.json"))
            change_authorities(*({"op": "move", "from": f"/data/{one}", "path": f"/data/{other}"} for one, other in moves))
            wait_until("a certificate of the next authority", 120, lambda: trusted()[1] == first)
        replace_pods(3)
        with step("the former authority is removed, until no gateway trusts it"):
            change_authorities({"op": "remove", "path": "/data/former-authority.json"})
            wait_until("one authority", 120, lambda: len(trusted()) == 1)
        expect("the former authority", False, first in trusted())
        replace_pods(3)
    only_gateways_reach(3)


def change_authorities(*operations):
    kubectl("patch", "secret", "weir-replica-authority", "-n", "weir-system", "--type", "json", "-p", json.dumps(operations))
    restart("controller")


def trusted():
    """Returns the authorities of replicas that gateways trust."""
    end = "-----END CERTIFICATE-----"
    bundle = base64.b64decode(secret("weir-gateway-replicas")["ca.crt"]).decode()
    return [part.strip() for part in bundle.split(end) if part.strip()]


def replicas_are_plain_again():
    with answered():
        with step("helm upgrade back to prepared"):
            upgrade("runtime.tls.mode=prepared")
        roll_out(4)
    expect("plain replicas", [True, True], [speaks_plainly(address) for address in replicas(4)])


def no_right_is_missing():
    """Weir's processes, since they were started, asked for nothing that the chart's roles do not allow."""
    label = ("-n", "weir-system", "-l", "app.kubernetes.io/part-of=weir", "--tail=-1")
    lines = kubectl("logs", *label, "--prefix").splitlines()
    expect("refused calls", [], [line for line in lines if "forbidden" in line.lower()][:5])


def tls_is_switched_off():
    kubectl("delete", "inferenceservice", SERVICE, "--timeout", "60s")
    with step("helm upgrade without TLS"):
        upgrade("runtime.tls.mode=disabled", "gateway.tls.secretName=", "gateway.peerTls.trust=certificate-or-address", "controller.replicas=1")
    for name in ("tls", "weir-replica-authority"):
        kubectl("delete", "secret", name, "-n", "weir-system", "--ignore-not-found")


if __name__ == "__main__":
    run("tls", [
        clients_and_gateways_have_tls,
        replicas_get_certificates,
        pods_and_gateways_come_and_go,
        the_authority_of_replicas_is_replaced,
        replicas_are_plain_again,
        tls_is_switched_off,
    ])
