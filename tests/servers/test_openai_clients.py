"""Clients of OpenAI's API, unchanged, at one address over three services of llama.cpp."""

import subprocess
from dataclasses import replace

import pytest

import cases
import gateway
from server import Server, wait_until

CHATS, EMBEDDINGS = ["chat-one", "chat-two"], "embeddings"


def service(folder, name: str, *arguments: str) -> dict:
    command = [name if word == "models" else word for word in cases.LLAMA.command(folder)]
    case = replace(cases.LLAMA, command=lambda _: [*command, *arguments])
    return cases.manifest(case, folder, name=name)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    missing = cases.LLAMA.missing() or cases.environment_missing("clients")
    if missing:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("openai")
    cases.LLAMA.prepare(folder)
    file = folder / "services.yaml"
    chats = [service(folder, name) for name in CHATS]
    cases.write(file, *chats, service(folder, EMBEDDINGS, "--embeddings", "--pooling", "mean"))
    running = Server(folder / "log", [])
    state = folder / "state"
    running.command = gateway.up(file, port=running.http_port, admin_port=running.metrics_port, state=state)
    running.spawn()
    wait_until(lambda: running.responds("/v2/health/ready"), cases.LLAMA.start, "the services are ready")
    yield f"http://127.0.0.1:{running.http_port}/v1"
    running.stop()


def test_clients_need_nothing_but_the_base_url(url: str) -> None:
    script = [cases.program("clients", "python"), "-W", "ignore", str(cases.HERE / "openai_clients.py")]
    done = subprocess.run([*script, url, *CHATS, EMBEDDINGS], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 4
