"""A `weir up` with one server of `cases`, and its clients."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import tritonclient.grpc as triton_grpc

import cases
import gateway
import wire
from server import Server, wait_until

# Longest wait for an answer, which includes a start of the server.
ANSWER = 240.0


class Served:
    def __init__(self, case: cases.Case, folder: Path):
        self.case, self.folder = case, folder
        self.file, self.state = folder / "service.yaml", folder / "state"
        self.models = folder / "models"
        self.models.mkdir()
        case.prepare(self.models)
        self.apply()
        self.server = Server(folder / "log", [])
        self.server.command = gateway.up(
            self.file, port=self.server.http_port, admin_port=self.server.metrics_port, state=self.state
        )
        self.server.spawn()
        wait_until(self.has_route, 60, "the service has a route")

    def has_route(self) -> bool:
        try:
            return "weir_revision_queued{" in self.server.metrics_text()
        except OSError:
            return False

    def apply(self, **fields) -> None:
        """Changes the service's manifest. `env` changes the container, so that it is a new revision."""
        cases.write(self.file, cases.manifest(self.case, self.models, **fields))

    def call(self, call: cases.Call, **headers: str) -> wire.Reply:
        """Sends a request, and checks its answer."""
        headers = {"content-type": "application/json", **headers}
        reply = wire.call(self.server.http_port, "POST", call.path, call.body, headers, timeout=ANSWER)
        assert reply.status == 200, reply
        if not reply.headers.get("content-type", "").startswith("text/event-stream"):
            call.check(reply.json())
        return reply

    def get(self, path: str) -> wire.Reply:
        return wire.call(self.server.http_port, "GET", path, timeout=ANSWER)

    def pieces(self, call: cases.Call) -> list[float]:
        """Returns the times after the first byte at which parts of a streamed answer arrived."""
        connection = wire.Connection(self.server.http_port, ANSWER)
        connection.request("POST", call.path, json.dumps(call.body), {"content-type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        times = []
        while response.read1(65536):
            times.append(time.monotonic())
        connection.close()
        return [at - times[0] for at in times]

    def grpc(self) -> triton_grpc.InferenceServerClient:
        options = [("grpc.default_authority", wire.HOST)]
        return triton_grpc.InferenceServerClient(f"127.0.0.1:{self.server.http_port}", channel_args=options)

    def processes(self) -> list[psutil.Process]:
        """Returns the processes of the replicas: those that `weir up` started itself come first."""
        up = psutil.Process(self.server.process.pid)
        own = up.children()
        return own + [child for process in own for child in process.children(recursive=True)]

    def in_flight(self) -> float:
        return sum_of(self.server.metrics_text(), "weir_revision_in_flight")

    def queued(self) -> float:
        return sum_of(self.server.metrics_text(), "weir_revision_queued")

    def own_metrics(self) -> str:
        """Returns the metrics of the oldest replica, from itself."""
        port = int(self.processes()[0].environ()[self.case.metrics_port])
        return wire.call(port, "GET", "/metrics", timeout=ANSWER).body.decode()

    def waiting_inside(self) -> float:
        """Returns the requests that wait inside the server, as it says itself."""
        return sum_of(self.own_metrics(), self.case.queue)

    def wait_ready(self) -> None:
        wait_until(lambda: self.server.responds(self.ready_path()), self.case.start, f"{self.case.name} is ready")

    def ready_path(self) -> str:
        """Returns the path that says that a replica, not only the service, is ready."""
        return self.case.container.get("readinessProbe", {"httpGet": {"path": "/v2/health/ready"}})["httpGet"]["path"]

    def stop(self) -> None:
        """Ends the platform, unless a test has done so."""
        if self.server.process.poll() is None:
            self.server.stop()


def sum_of(page: str, name: str) -> float:
    """Returns the sum of all series of a gauge, with and without labels."""
    lines = [line for line in page.splitlines() if line.startswith((name + "{", name + " "))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def at_once(count: int, work) -> list:
    """Runs `work` on this many threads, and returns the results."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: work(), range(count)))
