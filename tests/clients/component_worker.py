"""Transformers and explainers for test_components.py, each in a process of its own.

`plain` uses the standard library alone; `kserve` is a model server of the KServe SDK. Both double the tensor INPUT0 and
call the predictor. `explain` answers `:explain` with the predictor's answer to the unchanged request.
"""

import argparse
import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Plain(BaseHTTPRequestHandler):
    """Serves V1 over HTTP/1.1."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(200, b'{"ready": true}')

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith(":predict"):
            for row in body["instances"]:
                row["INPUT0"] = [2 * value for value in row["INPUT0"]]
        url = f"http://{options.predictor_host}/v1/models/{options.model_name}:predict"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.loads(response.read())
        except urllib.error.HTTPError as error:
            return self.answer(error.code, error.read())
        self.answer(200, json.dumps({"by": options.role, **answer}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve_kserve() -> None:
    from kserve import Model, ModelServer
    from kserve.predictor_config import PredictorConfig

    class Doubling(Model):
        def preprocess(self, payload, headers=None):
            if isinstance(payload, dict):
                for row in payload["instances"]:
                    row["INPUT0"] = [2 * value for value in row["INPUT0"]]
                return payload
            for tensor in payload.inputs:
                factor = 2 if tensor.name == "INPUT0" else 1
                # Either all inputs of a gRPC message are raw or none is.
                tensor.set_data_from_numpy(factor * tensor.as_numpy(), binary_data=True)
            return payload

    model = Doubling(options.model_name)
    model.ready = True
    config = PredictorConfig(options.predictor_host, predictor_protocol=options.predictor_protocol)
    ModelServer(
        http_port=options.http_port, grpc_port=options.grpc_port, predictor_config=config, enable_latency_logging=False
    ).start([model])


parser = argparse.ArgumentParser()
parser.add_argument("role", choices=["plain", "kserve", "explain"])
parser.add_argument("--http_port", type=int)
parser.add_argument("--grpc_port", type=int)
parser.add_argument("--model_name")
parser.add_argument("--predictor_host")
parser.add_argument("--predictor_protocol", default="v1")
options = parser.parse_args()
# The SDK parses the arguments of the process, too.
sys.argv = sys.argv[:1]

if options.role == "kserve":
    serve_kserve()
else:
    ThreadingHTTPServer(("127.0.0.1", options.http_port), Plain).serve_forever()
