"""A gateway that asks for keys, with the clients and headers that people use."""

import json
import subprocess

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

import gateway
import wire
from server import GOOD, Server

RULES = {
    "rules": [
        {"clients": ["user"], "services": [f"{gateway.NAMESPACE}/{gateway.NAME}"]},
        {"clients": ["operator"], "services": ["*"], "operations": ["infer", "metadata", "control"]},
        {"clients": ["other"], "services": [f"{gateway.NAMESPACE}/other"]},
    ]
}


class Guarded:
    """A server behind a gateway with access control, and a key of each client."""

    def __init__(self, folder):
        keys, rules = folder / "keys.yaml", folder / "rules.yaml"
        rules.write_text(json.dumps(RULES))
        command = [str(gateway.BINARY), "key", "create", "--file", str(keys), "--client"]
        clients = ("user", "operator", "other")
        self.keys = {client: subprocess.check_output([*command, client], text=True).strip() for client in clients}
        self.server = Server(folder / "log", [GOOD], ["--control-routes=open"])
        gateway.use_gateway(self.server)
        # Control calls are logged with -v.
        self.server.command += ["-v", "--access-file", str(keys), "--access-file", str(rules)]
        self.server.start()

    def bearer(self, client):
        return {"authorization": f"Bearer {self.keys[client]}"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("guarded"))
    yield running
    running.server.stop()


def inputs(module):
    arrays = {name: np.ones((1, 16), np.float32) for name in ("INPUT0", "INPUT1")}
    tensors = [module.InferInput(name, [1, 16], "FP32") for name in arrays]
    for tensor in tensors:
        tensor.set_data_from_numpy(arrays[tensor.name()])
    return tensors


def test_tritonclient_over_http(guarded):
    with triton_http.InferenceServerClient(guarded.server.http) as client:
        answer = client.infer("add_sub", inputs(triton_http), headers=guarded.bearer("user"))
        assert answer.as_numpy("OUTPUT0").tolist() == [[2.0] * 16]
        assert client.is_model_ready("add_sub", headers={"x-api-key": guarded.keys["user"]})
        for headers, status in ((None, "401"), (guarded.bearer("other"), "403"), ({"x-api-key": "weir_x"}, "401")):
            with pytest.raises(InferenceServerException) as error:
                client.infer("add_sub", inputs(triton_http), headers=headers)
            assert error.value.status() == status
        with pytest.raises(InferenceServerException) as error:
            client.get_log_settings(headers=guarded.bearer("user"))
        assert error.value.status() == "403"
        assert client.get_log_settings(headers=guarded.bearer("operator"))


def test_tritonclient_over_grpc(guarded):
    options = [("grpc.default_authority", wire.HOST)]
    with triton_grpc.InferenceServerClient(guarded.server.grpc, channel_args=options) as client:
        answer = client.infer("add_sub", inputs(triton_grpc), headers=guarded.bearer("user"))
        assert answer.as_numpy("OUTPUT0").tolist() == [[2.0] * 16]
        for headers, status in ((None, "UNAUTHENTICATED"), (guarded.bearer("other"), "PERMISSION_DENIED")):
            with pytest.raises(InferenceServerException) as error:
                client.infer("add_sub", inputs(triton_grpc), headers=headers)
            assert error.value.status() == f"StatusCode.{status}"


def test_tritonclient_over_a_stream(guarded):
    options = [("grpc.default_authority", wire.HOST)]
    answers = []
    with triton_grpc.InferenceServerClient(guarded.server.grpc, channel_args=options) as client:
        client.start_stream(lambda result, error: answers.append((result, error)), headers=guarded.bearer("user"))
        client.async_stream_infer("add_sub", inputs(triton_grpc))
        client.stop_stream()
        client.start_stream(lambda result, error: answers.append((result, error)))
        client.async_stream_infer("add_sub", inputs(triton_grpc))
        client.stop_stream()
    (result, error), (_, refused) = answers
    assert error is None and result.as_numpy("OUTPUT0").tolist() == [[2.0] * 16]
    assert "UNAUTHENTICATED" in str(refused.status())


def test_health_of_grpc(guarded):
    """The gateway's own health needs no key; a service's does."""
    check = "/grpc.health.v1.Health/Check"
    with grpc.insecure_channel(guarded.server.grpc) as channel:
        assert channel.unary_unary(check)(b"", timeout=20) == b"\x08\x01"
        ready = "/inference.GRPCInferenceService/ServerReady"
        assert channel.unary_unary(ready)(b"", timeout=20) == b"\x08\x01"


def test_curl(guarded):
    url = f"http://{guarded.server.http}/v2/models/add_sub"

    def curl(*words):
        command = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", *words, url]
        return subprocess.check_output(command, text=True)

    assert curl() == "401"
    assert curl("--oauth2-bearer", guarded.keys["user"]) == "200"
    assert curl("--header", f"X-API-Key: {guarded.keys['user']}") == "200"
    # A password is no key.
    assert curl("--user", f"user:{guarded.keys['user']}") == "401"


def test_no_key_is_in_the_log(guarded):
    log = guarded.server.log.read_text()
    assert "a request was refused" in log and "a control call was allowed" in log
    assert not any(key in log for key in guarded.keys.values())
