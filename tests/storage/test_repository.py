"""`weir-runtime --model-repository=s3://…`, the real program, against a server of buckets."""

import contextlib
import json
import os
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

from conftest import ROOT, free_port

RUNTIME = os.environ.get("WEIR_RUNTIME", str(ROOT / "target/debug/weir-runtime"))

CONFIG = """
backend: "echo"
max_batch_size: 8
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""


def put_model(s3, key, version=1):
    s3.put_object(Bucket="models", Key=f"{key}/config.pbtxt", Body=CONFIG.encode())
    s3.put_object(Bucket="models", Key=f"{key}/{version}/weights", Body=b"weights")


class Server:
    def __init__(self, port, log):
        self.url, self.log = f"http://127.0.0.1:{port}", log

    def post(self, path):
        request = urllib.request.Request(f"{self.url}{path}", data=b"{}", method="POST")
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()

    def ready(self):
        """Returns the models and versions that serve."""
        index = json.loads(self.post("/v2/repository/index"))
        return {(one["name"], one.get("version", "")) for one in index if one.get("state") == "READY"}

    def wait_for(self, expected):
        deadline, found = time.monotonic() + 60, None
        while found != expected:
            assert time.monotonic() < deadline, (found, pathlib.Path(self.log).read_text())
            time.sleep(0.1)
            with contextlib.suppress(OSError):
                found = self.ready()


@contextlib.contextmanager
def runtime(tmp_path, variables, *flags):
    port, log = free_port(), tmp_path / "log"
    ports = [f"--http-port={port}", "--allow-grpc=false", "--allow-metrics=false", "--http-address=127.0.0.1"]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), **variables}
    if "LD_LIBRARY_PATH" in os.environ:
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    with open(log, "wb") as output:
        process = subprocess.Popen([RUNTIME, *ports, *flags], env=env, stdout=output, stderr=output)
    try:
        yield Server(port, log), process
    finally:
        process.terminate()
        process.wait(timeout=30)


def credentials(aws):
    """Returns the variables without the endpoint, which is in Triton's form of the URI."""
    return {name: value for name, value in aws.items() if name != "AWS_ENDPOINT_URL"}


def test_a_repository_with_an_endpoint_in_the_uri_is_polled(s3, moto, aws, tmp_path):
    put_model(s3, "polled/one")
    flags = [f"--model-repository=s3://{moto}/models/polled", "--model-control-mode=poll", "--repository-poll-secs=1"]
    with runtime(tmp_path, credentials(aws), *flags) as (server, process):
        server.wait_for({("one", "1")})
        put_model(s3, "polled/two")
        server.wait_for({("one", "1"), ("two", "1")})
        put_model(s3, "polled/one", version=2)
        server.wait_for({("one", "2"), ("two", "1")})
        for key in ["polled/two/config.pbtxt", "polled/two/1/weights"]:
            s3.delete_object(Bucket="models", Key=key)
        server.wait_for({("one", "2")})
        process.terminate()
        process.wait(timeout=30)
    assert not list(tmp_path.glob("weir-models-*")), "the temporary copy is removed"


def test_a_load_call_fetches_its_model_anew(s3, aws, tmp_path):
    put_model(s3, "explicit/one")
    put_model(s3, "explicit/two")
    cache = tmp_path / "cache"
    flags = ["--model-repository=s3://models/explicit", "--model-control-mode=explicit", "--load-model=one"]
    with runtime(tmp_path, aws, *flags, f"--model-repository-cache={cache}") as (server, _):
        server.wait_for({("one", "1")})
        assert [path.name for path in cache.glob("*/models/*")] == ["one"]
        server.post("/v2/repository/models/two/load")
        assert server.ready() == {("one", "1"), ("two", "1")}
        put_model(s3, "explicit/one", version=2)
        server.post("/v2/repository/models/one/load")
        assert server.ready() == {("one", "2"), ("two", "1")}


def test_missing_sources_are_named(s3, aws, tmp_path):
    put_model(s3, "alone")
    for uri, reason in [
        ("s3://no-such-bucket/models", "the bucket no-such-bucket does not exist"),
        ("s3://models/no-such-prefix", "no object has this key or is below it"),
        ("s3://models/alone", "name the directory above it"),
        ("oci://registry/models:1", "must be a bucket or a hub"),
    ]:
        with runtime(tmp_path, aws, f"--model-repository={uri}") as (server, process):
            assert process.wait(timeout=60) == 1
            log = server.log.read_text()
            assert reason in log and uri in log and "hidden-key" not in log, log
