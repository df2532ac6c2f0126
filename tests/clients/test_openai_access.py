"""OpenAI's own client with a key of Weir's: refusals are the exceptions for which its users have handlers."""

import json
import subprocess
import sys

import openai
import pytest

import gateway
from server import HERE, Server, wait_until

DEADLINE = 60.0
MODEL = gateway.NAME
RULES = {
    "rules": [{"clients": ["user", "limited"], "services": [f"{gateway.NAMESPACE}/{MODEL}"]}],
    "limits": [{"clients": ["limited"], "requestsPerMinute": 1, "burst": 2}],
}
ASKED = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Starts `weir up` with access control, and returns a function from a client's name to OpenAI's client with its key."""
    folder = tmp_path_factory.mktemp("openai")
    file, written, rules = folder / "service.yaml", folder / "keys.yaml", folder / "rules.yaml"
    file.write_text(gateway.manifest([sys.executable, "-W", "ignore", str(HERE / "openai_server.py"), "$(PORT)"]))
    rules.write_text(json.dumps(RULES))
    command = [str(gateway.BINARY), "key", "create", "--file", str(written), "--client"]
    made = {name: subprocess.check_output([*command, name], text=True).strip() for name in ("user", "other", "limited")}
    running = Server(folder / "log", [])
    running.command = gateway.up(file, port=running.http_port, admin_port=running.metrics_port, state=folder / "state")
    running.command += ["--access-file", str(written), "--access-file", str(rules)]
    running.spawn()

    def client(name):
        base = f"http://127.0.0.1:{running.http_port}/v1"
        return openai.OpenAI(base_url=base, api_key=made.get(name, "sk-unknown"), max_retries=0, timeout=DEADLINE)

    def is_ready():
        try:
            return bool(client("user").chat.completions.create(**ASKED))
        except openai.OpenAIError:
            return False

    wait_until(is_ready, DEADLINE, "the model answers")
    yield client
    running.stop()


def test_a_key_of_weirs_is_an_api_key(keys) -> None:
    answer = keys("user").chat.completions.create(**ASKED)
    assert (answer.choices[0].message.content, answer.usage.total_tokens) == ("a b c", 500)
    assert [model.id for model in keys("user").models.list()] in ([], [MODEL])


def test_an_unknown_key_is_an_authentication_error(keys) -> None:
    with pytest.raises(openai.AuthenticationError) as refused:
        keys("nobody").chat.completions.create(**ASKED)
    assert refused.value.code == "invalid_api_key"


def test_a_service_of_others_is_a_permission_denied_error(keys) -> None:
    with pytest.raises(openai.PermissionDeniedError):
        keys("other").chat.completions.create(**ASKED)


def test_a_client_above_its_limit_gets_a_rate_limit_error_and_a_stream_until_then(keys) -> None:
    client = keys("limited")
    client.chat.completions.create(**ASKED)
    events = list(client.chat.completions.create(**ASKED, stream=True, stream_options={"include_usage": True}))
    assert ("".join(event.choices[0].delta.content for event in events[:-1]), events[-1].usage.total_tokens) == ("a b c", 500)
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(**ASKED)
    assert (refused.value.code, refused.value.type) == ("rate_limit_exceeded", "requests")
    assert "requestsPerMinute" in refused.value.message
    assert 1 <= int(refused.value.response.headers["retry-after"]) <= 60
