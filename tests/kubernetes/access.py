"""Access control on the one-node cluster, with three gateways: tokens of pods, keys that `weir key` writes into the Secret,
rules of services, and every case of the matrix of gateway/tests/platform/access/matrix.rs. To be run in the cluster's
network, after weir-up.sh; WEIR is the program `weir`:

    target/cluster/exec .venv/bin/python tests/kubernetes/access.py
"""

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import grpc
import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from walk import KIND
from weir import (
    ROOT, ROW, Failure, Traffic, expect, helm, kill, kubectl, post, run, step, wait_until, write_slow_model,
)

SECRET = "weir-system/weir-access"
WEIR = os.environ.get("WEIR", str(ROOT / "target/debug/weir"))
# Signs the tokens of ServiceAccounts.
SIGNING_KEY = ROOT / "target/cluster/state/pki/tokens.key"
MATRIX = ROOT / "tests/scenarios/access_matrix.json"
INFER = "http://{}.default/v2/models/{}/infer"
# Seconds within which every gateway refuses a revoked key.
PROMPT = 1
# Seconds until a key expires, which `weir key create` refuses if they are over.
SHORT = 5
# Seconds without the API server.
AWAY = 8
ALL = ["infer", "metadata", "control", "pin"]
GRPC_STATUS = {grpc.StatusCode.OK: 200, grpc.StatusCode.UNAUTHENTICATED: 401, grpc.StatusCode.PERMISSION_DENIED: 403}
# Ways to address a service that a cluster does not have, because several namespaces may have a model of one name.
BY_MODEL = ("ModelName", "OpenAiModel")


def account(name):
    return f"system:serviceaccount:default:{name}"


RULES = [
    {"clients": ["right", account("right")], "services": ["default/digits"], "operations": ALL},
    {"clients": ["other", account("other")], "services": ["default/other"], "operations": ALL},
    {"clients": ["loader"], "services": ["default/second"]},
]


def key(command, *words):
    """Runs `weir key` for the Secret of the gateways, and returns what it prints."""
    done = subprocess.run([WEIR, "key", command, "--secret", SECRET, *words], capture_output=True, text=True)
    expect(f"weir key {command}", 0, done.returncode and done.stderr)
    return done.stdout.strip()


def created(client, *words):
    return key("create", "--client", client, *words)


def token(name, audience="weir"):
    return kubectl("create", "token", name, "--audience", audience)


def signed(original, signing_key, **claims):
    """Returns a token with other claims, signed by this key under the name of the API server's."""
    content = jwt.decode(original, options={"verify_signature": False})
    header = jwt.get_unverified_header(original)
    return jwt.encode({**content, **claims}, signing_key, algorithm=header["alg"], headers={"kid": header["kid"]})


def expired(original):
    now = int(time.time())
    return signed(original, SIGNING_KEY.read_text(), iat=now - 7200, nbf=now - 7200, exp=now - 3600)


def forged(original):
    return signed(original, ec.generate_private_key(ec.SECP256R1()))


def gateways():
    """Returns the addresses of the gateways that are ready."""
    ready = '{range .items[?(@.status.containerStatuses[0].ready==true)]}{.status.podIP} {end}'
    return kubectl("get", "pods", "-n", "weir-system", "-l", "app.kubernetes.io/name=weir-gateway", "-o", f"jsonpath={ready}").split()


def status(gateway, text=None, service="digits"):
    """Returns the status of an inference that one gateway answers."""
    connection = http.client.HTTPConnection(gateway, 8080, timeout=20)
    headers = {"host": f"{service}.default", "content-type": "application/json"}
    if text:
        headers["authorization"] = f"Bearer {text}"
    with contextlib.closing(connection):
        connection.request("POST", f"/v2/models/{service}/infer", ROW, headers)
        response = connection.getresponse()
        response.read()
        return response.status


def statuses(text=None, service="digits"):
    return [status(gateway, text, service) for gateway in gateways()]


def declared(name, annotations={}, namespace="default"):
    resources = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}
    model = {"modelFormat": {"name": "echo"}, "protocolVersion": "v2", "storageUri": "pvc://weir-examples/fast", "resources": resources}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    return json.dumps({**KIND, "metadata": metadata, "spec": {"predictor": {"minReplicas": 1, "maxReplicas": 1, "model": model}}})


def access_is_switched_on():
    """Starts two services, and three gateways that ask for keys and tokens by the chart's defaults."""
    write_slow_model("fast", 1)
    kubectl("delete", "secret", "weir-access", "-n", "weir-system", "--ignore-not-found")
    kubectl("apply", "-f", "-", stdin=declared("digits", {"weir.dev/control-routes": "true"}))
    kubectl("apply", "-f", "-", stdin=declared("second"))
    for name in ("right", "other"):
        kubectl("delete", "serviceaccount", name, "--ignore-not-found")
        kubectl("create", "serviceaccount", name)
    with step("helm upgrade with access control and three gateways"):
        values = ["--set", "access.enabled=true,gateway.replicas=3", "--set-json", f"access.rules={json.dumps(RULES)}"]
        helm("upgrade", "weir", str(ROOT / "charts/weir"), "-n", "weir-system", "--reuse-values", *values, "--wait")
    for name in ("digits", "second"):
        kubectl("wait", "--for", "condition=Ready", f"inferenceservice/{name}", "--timeout", "90s")
    wait_until("three gateways", 120, lambda: len(gateways()) == 3)
    wait_until("no former gateway", 120, lambda: len(kubectl(
        "get", "pods", "-n", "weir-system", "-l", "app.kubernetes.io/name=weir-gateway", "-o", "name").split()) == 3)
    expect("requests without a key", [401, 401, 401], statuses())


def client_pod():
    """Returns a pod that mounts a token for gateways. Its process, an autoscaler without rights, only waits."""
    image = kubectl("get", "deployment", "weir-gateway", "-n", "weir-system", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
    mounts = [{"name": "token", "mountPath": "/var/run/secrets/weir"}]
    source = {"serviceAccountToken": {"audience": "weir", "expirationSeconds": 600, "path": "token"}}
    spec = {
        "serviceAccountName": "right", "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "client", "image": image, "args": ["autoscaler"], "volumeMounts": mounts}],
        "volumes": [{"name": "token", "projected": {"sources": [source]}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client", "namespace": "default"}, "spec": spec}


def file_of_pod(name, path):
    """Returns the content of a file of a running pod, in whose image no program reads files; None if it does not run yet."""
    uid = kubectl("get", "pod", name, "-o", "jsonpath={.metadata.uid}")
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and uid in (folder / "cgroup").read_text().replace("_", "-"):
                return (folder / "root" / path).read_text()
    return None


def a_pods_token_opens_a_service():
    kubectl("apply", "-f", "-", stdin=json.dumps(client_pod()))
    with step("a pod, until it has its token"):
        mounted = wait_until("the token", 60, lambda: file_of_pod("client", "var/run/secrets/weir/token"))
    kubectl("delete", "pod", "client", "--wait=false")
    expect("the pod's token", [200, 200, 200], statuses(mounted))
    expect("at a service that no rule names", [403, 403, 403], statuses(mounted, "second"))
    others = {"another audience": token("right", "other"), "an expired token": expired(mounted), "a forged token": forged(mounted)}
    for what, text in others.items():
        expect(what, [401, 401, 401], statuses(text))
    expect("a ServiceAccount that no rule names", [403, 403, 403], statuses(token("default")))


class Refusals:
    """Sends requests with one key to each gateway until it is refused, and records when that was."""

    def __init__(self, text):
        self.text, self.refused, self.threads = text, {}, []
        for gateway in gateways():
            self.threads.append(threading.Thread(target=self.run, args=(gateway,), daemon=True))

    def run(self, gateway):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if status(gateway, self.text) == 401:
                self.refused[gateway] = time.monotonic()
                return
            time.sleep(0.005)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            thread.join()


def is_row(answer):
    expect("the row", [1], answer["outputs"][0]["data"])


def a_revoked_key_is_refused_by_each_gateway():
    """Another client's requests go on meanwhile, and none of them fails."""
    load = {"authorization": f"Bearer {created('loader')}"}
    url = INFER.format("second", "second")
    wait_until("the key of the load", 5, lambda: statuses(load["authorization"].split()[1], "second") == [200, 200, 200])
    with Traffic(url, ROW, is_row, clients=4, headers=load) as traffic:
        longest = max(revoked_once() for _ in range(10))
        wait_until("some load", 30, lambda: sum(traffic.revisions.values()) > 200)
    expect("failed requests of the load", [], traffic.failures[:5])
    print(f"           {longest * 1000:.0f} ms at most until each gateway refuses a revoked key; "
          f"{sum(traffic.revisions.values())} requests of another client, none failed", flush=True)


def revoked_once():
    """Makes a key and revokes it, and returns the seconds until the last gateway has refused it."""
    text = created("right")
    wait_until("the new key", 5, lambda: statuses(text) == [200, 200, 200])
    with Refusals(text) as refusals:
        key("revoke", text)
        revoked = time.monotonic()
    expect("gateways that refuse the key", 3, len(refusals.refused))
    late = max(refusals.refused.values()) - revoked
    if late > PROMPT:
        raise Failure(f"the key was accepted for {late:.2f} s after it was revoked")
    return late


def writers_at_one_time_lose_no_key():
    clients = [f"writer-{number}" for number in range(6)]
    running = [subprocess.Popen([WEIR, "key", "create", "--secret", SECRET, "--client", client], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE) for client in clients]
    for process in running:
        _, error = process.communicate()
        expect("weir key create", 0, process.returncode and error.decode())
    listed = key("list")
    expect("clients without a key", [], [client for client in clients if f"  {client}  " not in listed])


def annotate(name, rules):
    kubectl("annotate", "--overwrite", "inferenceservice", name, f"weir.dev/access={rules}")


def a_service_opens_itself_alone():
    """An editor of a service can open only that service, and an editor of a namespace none of another one."""
    partner = created("partner")
    expect("before the annotation", [403, 403, 403], statuses(partner, "second"))
    annotate("second", "- clients: [partner]")
    wait_until("the service is open", 5, lambda: statuses(partner, "second") == [200, 200, 200])
    expect("another service", [403, 403, 403], statuses(partner))
    kubectl("delete", "namespace", "team", "--ignore-not-found", "--timeout", "60s")
    kubectl("create", "namespace", "team")
    kubectl("create", "rolebinding", "anna", "--clusterrole", "edit", "--user", "anna", "-n", "team")
    by_anna = ("--as", "anna")
    refused(lambda: kubectl(*by_anna, "annotate", "inferenceservice", "digits", "weir.dev/access=- clients: [partner]"), "forbidden")
    foreign = {"weir.dev/access": "- clients: [partner]\n  services: [default/digits]"}
    refused(lambda: kubectl(*by_anna, "apply", "-f", "-", stdin=declared("digits", foreign, "team")), "services")
    kubectl(*by_anna, "apply", "-f", "-", stdin=declared("digits", {"weir.dev/access": "- clients: [partner]"}, "team"))
    wait_until("the route", 30, lambda: kubectl("get", "service", "digits", "-n", "team", "--ignore-not-found", "-o", "name"))
    expect("the service of that name in another namespace", [403, 403, 403], statuses(partner))
    kubectl("delete", "namespace", "team", "--timeout", "60s")


def refused(command, word):
    try:
        command()
    except Failure as failure:
        expect(f"{word} in the refusal", True, word in str(failure))
    else:
        raise Failure(f"a command was not refused: {word}")


def credentials():
    """Returns the keys and tokens of the matrix by their names."""
    right, revoked = created("right"), created("right")
    key("revoke", revoked)
    scoped = {f"Scoped:{operation}": created("right", "--scope", operation) for operation in ALL}
    of_pod = token("right")
    identifier = right.split("_")[1]
    return {
        "None": None, "Bad": "weir_0", "WrongSecret": f"weir_{identifier}_{'0' * 64}", "Revoked": revoked, "Right": right,
        "Expired": created("right", "--expires", at(time.time() + SHORT)), "OfOther": created("other"), **scoped,
        "Token:Right": of_pod, "Token:Expired": expired(of_pod), "Token:WrongAudience": token("right", "other"),
        "Token:Forged": forged(of_pod), "Token:OfOther": token("other"),
    }


def at(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def tagged(request):
    """Returns a request of the matrix for a service on the cluster, whose only revision has the tag `latest`."""
    headers = {name: value.replace("blue", "latest") for name, value in request["headers"].items()}
    return {**request, "headers": headers, "host": request["host"].replace("blue-", "latest-"), "body": base64.b64decode(request["body"])}


def over_http(gateway, request, headers):
    connection = http.client.HTTPConnection(gateway, 8080, timeout=20)
    with contextlib.closing(connection):
        connection.request(request["method"], request["path"], request["body"], {"host": request["host"], **headers})
        response = connection.getresponse()
        return response.status, response.read().decode(), response.headers["weir-revision"]


def over_http2(gateway, request, headers):
    fields = [word for name, value in headers.items() for word in ("-H", f"{name}: {value}")]
    command = ["curl", "-sS", "-i", "--http2-prior-knowledge", "--connect-to", f"::{gateway}:8080", "-X", request["method"], *fields]
    data = ["--data-binary", "@-"] if request["body"] else []
    done = subprocess.run([*command, *data, f"http://{request['host']}{request['path']}"], input=request["body"], capture_output=True)
    expect("curl", 0, done.returncode and done.stderr)
    head, _, body = done.stdout.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    found = dict(line.split(": ", 1) for line in lines)
    return int(first.split()[1]), body, found.get("weir-revision")


def over_grpc(gateway, request, headers):
    """Makes a gRPC call with the message in the request's body, which is a gRPC frame."""
    metadata = [(name, value) for name, value in headers.items() if name != "content-type"]
    message = request["body"][5:]
    with grpc.insecure_channel(f"{gateway}:8080", [("grpc.default_authority", request["host"])]) as channel:
        if request["wire"] == "GrpcStream":
            call = channel.stream_stream(request["path"])(iter([message]), timeout=20, metadata=metadata)
        else:
            call = channel.unary_stream(request["path"])(message, timeout=20, metadata=metadata)
        with contextlib.suppress(grpc.RpcError):
            for _ in call:
                pass
        seen = dict([*(call.initial_metadata() or ()), *(call.trailing_metadata() or ())])
        return GRPC_STATUS.get(call.code(), 0), call.details(), seen.get("weir-revision")


SENDERS = {"Http1": over_http, "V1": over_http, "Events": over_http, "Http2": over_http2, "Grpc": over_grpc, "GrpcStream": over_grpc}


def answer(gateway, request, text):
    headers = request["headers"] if text is None else {**request["headers"], "authorization": f"Bearer {text}"}
    return SENDERS[request["wire"]](gateway, request, headers)


def every_case_of_the_matrix_has_its_answer():
    """A request that passes is answered by a replica. Each other one gets the answer of a service that does not exist."""
    texts, rows = credentials(), json.loads(MATRIX.read_text())
    addresses, count = gateways(), 0
    wait_until("the keys", 5, lambda: statuses(texts["OfOther"]) == [403, 403, 403] and statuses(texts["Right"]) == [200, 200, 200])
    wait_until("the expiry of a key", 3 * SHORT, lambda: statuses(texts["Expired"]) == [401, 401, 401])
    with step("every cell of the matrix"):
        for number, (cell, missing) in enumerate(rows):
            gateway = addresses[number % len(addresses)]
            expect("credentials", set(texts), set(cell["expected"]))
            for name, expected in cell["expected"].items():
                check_cell(gateway, tagged(cell), tagged(missing), (name, texts[name]), expected)
                count += 1
    print(f"           {count} cells", flush=True)


def check_cell(gateway, cell, missing, credential, expected):
    name, text = credential
    what = f"{cell['wire']} {cell['address']} {cell['operation']} with {name}"
    code, said, revision = answer(gateway, cell, text)
    if cell["address"] in BY_MODEL and expected == 200:
        expected = 403
    if expected == 200 and (cell["wire"], cell["operation"]) == ("V1", "metadata"):
        # The gateway answers V1's health for the service.
        expect(f"{what}: {code} {said}", True, code not in (401, 403))
        return
    if expected == 200:
        expect(f"{what}: {code} {said}", "digits-predictor-00001", revision)
        return
    expect(what, (expected, None), (code, revision))
    expect(f"{what}, at a service that does not exist", (code, said), answer(gateway, missing, text)[:2])


def the_last_keys_stay_while_the_api_server_is_away():
    right, revoked = created("right"), created("right")
    wait_until("the keys", 5, lambda: statuses(revoked) == [200, 200, 200])
    addresses = gateways()
    with step(f"an API server that does not answer for {AWAY} s"):
        server = kill("kube-apiserver", by=signal.SIGSTOP)
        try:
            until = time.monotonic() + AWAY
            while time.monotonic() < until:
                expect("a key", [200, 200, 200], [status(gateway, right) for gateway in addresses])
                expect("no key", [401, 401, 401], [status(gateway) for gateway in addresses])
                expect("a bad key", [401, 401, 401], [status(gateway, "weir_0") for gateway in addresses])
        finally:
            os.kill(server, signal.SIGCONT)
    wait_until("the API server answers", 30, lambda: kubectl("get", "--raw", "/readyz") == "ok")
    key("revoke", revoked)
    wait_until("a key that is revoked afterwards is refused", 30, lambda: statuses(revoked) == [401, 401, 401])


def access_is_switched_off():
    with step("helm upgrade without access control"):
        values = ["--set", "access.enabled=false,gateway.replicas=2", "--set-json", "access.rules=[]"]
        helm("upgrade", "weir", str(ROOT / "charts/weir"), "-n", "weir-system", "--reuse-values", *values, "--wait")
    post(INFER.format("second", "second"), ROW)
    kubectl("delete", "inferenceservice", "--all", "--timeout", "60s")
    kubectl("delete", "secret", "weir-access", "-n", "weir-system", "--ignore-not-found")
    kubectl("delete", "serviceaccount", "right", "other")


if __name__ == "__main__":
    run("access", [
        access_is_switched_on,
        a_pods_token_opens_a_service,
        a_revoked_key_is_refused_by_each_gateway,
        writers_at_one_time_lose_no_key,
        a_service_opens_itself_alone,
        every_case_of_the_matrix_has_its_answer,
        the_last_keys_stay_while_the_api_server_is_away,
        access_is_switched_off,
    ])
