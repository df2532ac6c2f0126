"""Each server of `cases` in turn, behind a `weir up`."""

import pytest

import cases
import gateway
import server as servers
from served import Served


def pytest_addoption(parser) -> None:
    parser.addoption("--servers", default="", help="names of the servers to test, with commas; the default is all")


def pytest_sessionstart(session) -> None:
    if not gateway.BINARY.exists():
        pytest.exit(f"{gateway.BINARY} is missing: run `make build`", returncode=2)


def pytest_generate_tests(metafunc) -> None:
    wanted = metafunc.config.getoption("--servers")
    chosen = [case for case in cases.CASES if not wanted or case.name in wanted.split(",")]
    openai = [case for case in chosen if case.infer.path.startswith("/v1/")]
    for fixture, those in (("served", chosen), ("services", openai)):
        if fixture in metafunc.fixturenames:
            names = [case.name for case in those]
            metafunc.parametrize(fixture, those, ids=names, indirect=True, scope="module")


def pytest_sessionfinish(session) -> None:
    for running in servers.spawned:
        running.kill()


@pytest.fixture(scope="module")
def served(request, tmp_path_factory) -> Served:
    case = request.param
    if case.missing():
        pytest.skip(case.missing())
    running = Served(case, tmp_path_factory.mktemp(case.name))
    yield running
    running.stop()
