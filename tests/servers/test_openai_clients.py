"""Clients of OpenAI's API, unchanged, at one address over three services of a server with that API."""

import os
import subprocess
from pathlib import Path

import pytest

import cases
import gateway
import wire
from server import Server, wait_until

CHATS = ["chat-one", "chat-two"]
THIRD = "third"


class Services:
    """A `weir up` with two services for chats and a third, which is for embeddings if the server has them."""

    def __init__(self, case: cases.Case, folder: Path):
        self.case, self.folder, self.file = case, folder, folder / "services.yaml"
        (folder / "model").mkdir()
        case.prepare(folder / "model")
        for name in [*CHATS, THIRD]:
            (folder / name).symlink_to("model")
        self.apply()
        self.server = Server(folder / "log", [])
        ports = {"port": self.server.http_port, "admin_port": self.server.metrics_port}
        self.server.command = gateway.up(self.file, **ports, state=folder / "state")
        self.server.spawn()

    def apply(self, **first) -> None:
        """Changes the manifests, with further fields of the first service."""
        one, two, third = (self.manifest(name, **(first if name == CHATS[0] else {})) for name in [*CHATS, THIRD])
        third["spec"]["predictor"]["containers"][0]["command"] += self.case.embeds
        cases.write(self.file, one, two, third)

    def manifest(self, name: str, **fields) -> dict:
        return cases.manifest(self.case, self.folder / name, name=name, **fields)

    def names(self) -> list[str]:
        """Returns the names of the services as arguments of `openai_clients.py`."""
        return [",".join(CHATS), THIRD] if self.case.embeds else [",".join([*CHATS, THIRD])]

    def revision(self, name: str) -> str:
        """Returns the revision that answers a chat."""
        call = cases.chat(4)
        body, headers = {**call.body, "model": name}, {"content-type": "application/json", "host": "127.0.0.1"}
        reply = wire.call(self.server.http_port, "POST", call.path, body, headers, timeout=240)
        assert reply.status == 200, reply
        call.check(reply.json())
        return reply.headers["weir-revision"]


@pytest.fixture(scope="module")
def services(request, tmp_path_factory) -> Services:
    missing = request.param.missing() or cases.environment_missing("clients")
    if missing:
        pytest.skip(missing)
    running = Services(request.param, tmp_path_factory.mktemp("openai"))
    wait_until(lambda: running.server.responds("/v2/health/ready"), 3 * request.param.start, "the services are ready")
    yield running
    running.server.stop()


def test_clients_need_nothing_but_the_base_url(services: Services) -> None:
    url = f"http://127.0.0.1:{services.server.http_port}/v1"
    script = [cases.program("clients", "python"), "-W", "ignore", str(cases.HERE / "openai_clients.py")]
    # LiteLLM asks the internet for prices unless this is set.
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [*script, url, *services.names()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.endswith("all\n")


def test_a_canary_behind_the_shared_address_gets_its_share(services: Services) -> None:
    services.apply(canaryTrafficPercent=50, env={"REVISION": "2"})
    seen = set()

    def both() -> bool:
        seen.add(services.revision(CHATS[0]))
        return len(seen) == 2

    wait_until(both, services.case.start, "both revisions answer")
    assert seen == {f"{CHATS[0]}-predictor-0000{number}" for number in (1, 2)}
    assert services.revision(CHATS[1]) == f"{CHATS[1]}-predictor-00001"
