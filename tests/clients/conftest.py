"""Servers and clients that the tests share."""

import os
from pathlib import Path
from typing import Callable, Sequence

import pytest

import adapters
import authority
import gateway
import server as servers
import wire
from server import BINARY, DIGITS, GOOD, RAGGED, Server


def pytest_addoption(parser) -> None:
    parser.addoption("--through", choices=["gateway"], help="start every server behind this")
    parser.addoption("--faults", type=int, default=1000, help="attacks of each test in test_abuse_access.py and test_abuse_tokens.py")


def pytest_configure(config) -> None:
    if config.getoption("--through"):
        servers.use_gateway = gateway.use_gateway
        os.environ[authority.VARIABLE] = wire.HOST
        authority.apply()


def pytest_collection_modifyitems(config, items) -> None:
    if not config.getoption("--through"):
        return
    unused = gateway.skip_direct_only(items)
    is_whole = not config.option.keyword and not any("::" in argument for argument in config.args)
    if unused and is_whole:
        raise pytest.UsageError(f"DIRECT_ONLY has patterns that match no test: {sorted(unused)}")


def pytest_sessionstart(session) -> None:
    for binary in (BINARY, gateway.BINARY):
        if not binary.exists():
            pytest.exit(f"{binary} is missing: run `make build`", returncode=2)


def pytest_sessionfinish(session) -> None:
    for running in servers.spawned:
        running.kill()


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Server:
    """The server of most tests, with all valid models and only the port options."""
    log = tmp_path_factory.mktemp("server") / "log"
    running = Server(log, [GOOD, DIGITS, RAGGED]).start()
    yield running
    running.stop()


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Server]:
    """Starts servers for one test, and stops those that still run at the test's end."""
    started: list[Server] = []

    def start_one(repositories: Sequence[Path], *options: str, path="/v2/health/ready") -> Server:
        started.append(Server(tmp_path / f"log-{len(started)}", repositories, options))
        return started[-1].start(path)

    yield start_one
    for running in started:
        if running.process.poll() is None:
            running.stop()


@pytest.fixture(scope="session", params=adapters.NAMES)
def client(request, server):
    """Each of tritonclient's clients in turn."""
    connected = adapters.connect(request.param, server)
    yield connected
    connected.close()


@pytest.fixture(scope="session", params=["http", "grpc"])
def blocking(request, server):
    """The two synchronous clients, for tests in which only the protocol matters."""
    connected = adapters.connect(request.param, server)
    yield connected
    connected.close()
