"""A polled repository whose files change at random under load; no request fails because of it.

`WEIR_CHANGES` is the number of changes (500 for the whole day), `WEIR_SEED` selects them.
"""

import io
import os
import random
import shutil
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, Optional

import numpy as np
import pytest

from server import CHANGING, GOOD, stays, wait_until
from wire import request, tensor

CHANGES = int(os.environ.get("WEIR_CHANGES", "100"))
SEED = int(os.environ.get("WEIR_SEED", "14"))
POLL_S = 1
# Time for a change to be polled and loaded, on a busy machine.
LOAD_TIMEOUT_S = 60.0
DAY_S = 86_400
CLIENTS = 4

TEMPLATE = (CHANGING / "scale" / "1" / "model.pt").read_bytes()
CONFIG = (CHANGING / "scale" / "config.pbtxt").read_text()


def weights(factor: int) -> bytes:
    """Returns a model that multiplies by this factor. The files of all factors have the same size."""
    whole = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(TEMPLATE)) as template, zipfile.ZipFile(whole, "w") as changed:
        for entry in template.infolist():
            is_factor = entry.filename.endswith("/data/0")
            content = np.float32(factor).tobytes() if is_factor else template.read(entry)
            changed.writestr(zipfile.ZipInfo(entry.filename), content)
    return whole.getvalue()


class Repository:
    """The repository on disk, and the expected state of the server. Each change is a function below."""

    def __init__(self, root: Path, chance: random.Random):
        self.root, self.chance = root, chance
        self.model, self.steady = root / "scale", root / "echo_now"
        shutil.copytree(CHANGING / "scale", self.model)
        shutil.copytree(GOOD / "echo_now", self.steady)
        # Factor in each version's file; None for a version that is broken.
        self.versions: dict[int, Optional[int]] = {1: 1}
        self.factors = {1}
        self.is_configured = True
        self.volumes = 0

    @property
    def top(self) -> int:
        return max(self.versions)

    def file(self, version: int) -> Path:
        return self.model / str(version) / "model.pt"

    def expected(self) -> Optional[int]:
        """Returns the factor of the responses once all changes are loaded; None if an earlier version is still served.
        """
        return self.versions[self.top] if self.is_configured else None

    def new_factor(self) -> int:
        factor = max(self.factors) + 1
        self.factors.add(factor)
        return factor

    def new_version(self) -> Path:
        """Returns the directory of the next version, which does not exist yet."""
        self.versions[self.top + 1] = None
        return self.file(self.top).parent


def good_version(repository: Repository) -> None:
    factor = repository.new_factor()
    repository.new_version().mkdir()
    repository.file(repository.top).write_bytes(weights(factor))
    repository.versions[repository.top] = factor


def slow_version(repository: Repository) -> None:
    """Adds a version that is copied in small parts."""
    factor = repository.new_factor()
    content = weights(factor)
    repository.new_version().mkdir()
    with repository.file(repository.top).open("wb") as file:
        for start in range(0, len(content), 400):
            time.sleep(repository.chance.uniform(0, 0.6))
            file.write(content[start : start + 400])
            file.flush()
    repository.versions[repository.top] = factor


def synchronised_version(repository: Repository) -> None:
    """Adds a version that is first copied under a hidden name, as rsync does."""
    factor = repository.new_factor()
    repository.new_version().mkdir()
    path = repository.file(repository.top)
    hidden = path.with_name(".model.pt.aX31bQ")
    hidden.write_bytes(weights(factor)[:500])
    time.sleep(repository.chance.uniform(0, 1.5))
    hidden.write_bytes(weights(factor))
    hidden.rename(path)
    repository.versions[repository.top] = factor


def empty_version(repository: Repository) -> None:
    repository.new_version().mkdir()


def garbage_version(repository: Repository) -> None:
    repository.new_version().mkdir()
    repository.file(repository.top).write_bytes(bytes(range(256)) * 4)


def truncated_version(repository: Repository) -> None:
    repository.new_version().mkdir()
    content = weights(max(repository.factors))
    repository.file(repository.top).write_bytes(content[: repository.chance.randrange(len(content))])


def linked_version(repository: Repository) -> None:
    """Adds a version that is a symbolic link, as in a Kubernetes volume; if there already is one, the link is switched.
    """
    factor = repository.new_factor()
    repository.volumes += 1
    volume = repository.root / f"..{repository.volumes}"
    volume.mkdir()
    (volume / "model.pt").write_bytes(weights(factor))
    os.utime(volume / "model.pt", (DAY_S, DAY_S))
    link = repository.file(repository.top).parent
    if not link.is_symlink():
        link = repository.new_version()
    hidden = repository.model / "..link"
    hidden.symlink_to(volume)
    hidden.replace(link)
    repository.versions[repository.top] = factor


def replaced_in_place(repository: Repository) -> None:
    """Replaces the file and keeps its size and time, as `cp -p` does."""
    path = repository.file(repository.top)
    before = path.stat() if path.exists() else None
    factor = repository.new_factor()
    path.write_bytes(weights(factor))
    if before:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    repository.versions[repository.top] = factor


def replaced_by_rename(repository: Repository) -> None:
    path = repository.file(repository.top)
    before = path.stat() if path.exists() else None
    factor = repository.new_factor()
    other = repository.root / "..other"
    other.write_bytes(weights(factor))
    if before:
        os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)
    repository.versions[repository.top] = factor


def older_file(repository: Repository) -> None:
    replaced_in_place(repository)
    os.utime(repository.file(repository.top), (DAY_S, DAY_S))


def truncated_in_place(repository: Repository) -> None:
    path = repository.file(repository.top)
    if path.exists():
        os.truncate(path, path.stat().st_size // 2)
    repository.versions[repository.top] = None


def removed_file(repository: Repository) -> None:
    repository.file(repository.top).unlink(missing_ok=True)
    repository.versions[repository.top] = None


def broken_configuration(repository: Repository) -> None:
    text = repository.chance.choice(["nonsense", CONFIG[: len(CONFIG) // 2], 'name: "other"\n' + CONFIG[14:]])
    (repository.model / "config.pbtxt").write_text(text)
    repository.is_configured = False


def good_configuration(repository: Repository) -> None:
    (repository.model / "config.pbtxt").write_text(CONFIG)
    repository.is_configured = True


def away(repository: Repository, path: Path, seconds: float) -> None:
    hidden = repository.root / "..away"
    path.rename(hidden)
    time.sleep(seconds)
    hidden.rename(path)


def model_away(repository: Repository) -> None:
    # A model counts as removed if two consecutive polls do not find it.
    away(repository, repository.model, repository.chance.uniform(0, 0.5) * POLL_S)


def version_away(repository: Repository) -> None:
    away(repository, repository.file(repository.top).parent, repository.chance.uniform(0, 2) * POLL_S)


def removed_versions(repository: Repository) -> None:
    """Removes all versions except the newest."""
    for version in [version for version in repository.versions if version != repository.top]:
        remove(repository, version)


def removed_newest(repository: Repository) -> None:
    """Removes the newest version, which is a roll-back if a valid version remains."""
    before = [factor for version, factor in repository.versions.items() if version != repository.top]
    if before and before[-1] is not None:
        remove(repository, repository.top)


def remove(repository: Repository, version: int) -> None:
    path = repository.file(version).parent
    path.unlink() if path.is_symlink() else shutil.rmtree(path)
    del repository.versions[version]


def steady_model(repository: Repository) -> None:
    """Changes the echo model, while the other model is unchanged."""
    config = repository.steady / "config.pbtxt"
    good = (GOOD / "echo_now" / "config.pbtxt").read_text()
    next_version = repository.steady / str(2 + repository.chance.randrange(3))
    repository.chance.choice(
        [
            lambda: config.write_text("nonsense"),
            lambda: config.write_text(good),
            lambda: config.write_text(good.replace("max_batch_size: 8", "max_batch_size: 4")),
            lambda: next_version.mkdir(exist_ok=True),
            lambda: next_version.exists() and next_version.rmdir(),
            lambda: away(repository, repository.steady, repository.chance.uniform(0, 0.6) * POLL_S),
        ]
    )()


TROUBLE: list[Callable[[Repository], None]] = [
    good_version,
    slow_version,
    synchronised_version,
    empty_version,
    garbage_version,
    truncated_version,
    linked_version,
    replaced_in_place,
    replaced_by_rename,
    older_file,
    truncated_in_place,
    removed_file,
    broken_configuration,
    good_configuration,
    good_configuration,
    model_away,
    version_away,
    removed_versions,
    removed_newest,
    steady_model,
]


class Load:
    """Clients that send requests until the end, and collect wrong responses."""

    def __init__(self, server, repository: Repository):
        self.server, self.repository = server, repository
        self.ended = threading.Event()
        self.pool = ThreadPoolExecutor(2 * CLIENTS)
        self.running = [self.pool.submit(self.ask, self.scale) for _ in range(CLIENTS)]
        self.running.append(self.pool.submit(self.ask, self.steady))

    def ask(self, once: Callable[[], Optional[str]]) -> tuple[int, list[str]]:
        count, failed = 0, []
        while not self.ended.is_set():
            failed += [failure for failure in [once()] if failure]
            count += 1
            time.sleep(0.005)
        return count, failed

    def scale(self) -> Optional[str]:
        reply = self.server.infer("scale", request(tensor("INPUT0", "FP32", [1, 1], [1])))
        if reply.status != 200:
            return f"{reply.status} {reply.body!r}"
        factor = reply.outputs()["OUTPUT0"]["data"][0]
        return None if factor in self.repository.factors else f"answered {factor}"

    def steady(self) -> Optional[str]:
        reply = self.server.infer("echo_now", request(tensor("INPUT0", "INT32", [1, 1], [7])))
        is_right = reply.status == 200 and reply.outputs()["OUTPUT0"]["data"] == [7]
        return None if is_right else f"{reply.status} {reply.body!r}"

    def end(self) -> tuple[int, list[str]]:
        self.ended.set()
        results = [future.result() for future in self.running]
        return sum(count for count, _ in results), [failure for _, failed in results for failure in failed]


def answer(server) -> float:
    reply = server.infer("scale", request(tensor("INPUT0", "FP32", [1, 1], [1])))
    return reply.outputs()["OUTPUT0"]["data"][0]


def check_broken(server, repository: Repository) -> None:
    """Checks that a version that was never valid serves no request."""
    version = str(repository.top)
    reply = server.infer("scale", request(tensor("INPUT0", "FP32", [1, 1], [1])), version=version)
    assert reply.status in (404, 503), reply


def loads(server) -> int:
    return server.log.read_text().count(" loading model=")


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    root.mkdir()
    return Repository(root, random.Random(SEED))


def test_random_changes_to_the_repository(start, repository):
    server = start([repository.root], "--model-control-mode=poll", f"--repository-poll-secs={POLL_S}")
    load, chance, history = Load(server, repository), repository.chance, []
    for _ in range(CHANGES):
        change = chance.choice(TROUBLE)
        history.append(change.__name__)
        change(repository)
        if change in (empty_version, garbage_version, truncated_version):
            check_broken(server, repository)
        if repository.expected() is not None and chance.random() < 0.2:
            seen = lambda: answer(server) == repository.expected()  # noqa: E731
            wait_until(seen, LOAD_TIMEOUT_S, f"{repository.expected()} after {history[-8:]}")
        time.sleep(chance.uniform(0, 0.6) * POLL_S)
    if repository.expected() is None:
        good_configuration(repository)
        replaced_by_rename(repository)
    seen = lambda: answer(server) == repository.expected()  # noqa: E731
    wait_until(seen, LOAD_TIMEOUT_S, f"{repository.expected()} after {history[-8:]}")
    count, failed = load.end()
    print(f"{CHANGES} changes, {count} requests, {len(failed)} failed, {loads(server)} loads")
    assert failed == []
    assert count > CHANGES
    is_ready = server.call("GET", "/v2/health/ready").status == 200
    assert is_ready


@pytest.mark.parametrize("change", [replaced_in_place, replaced_by_rename], ids=lambda change: change.__name__)
def test_an_explicit_load_reads_a_file_of_equal_size_and_time(start, repository, change):
    # The file is as long as every other file of this test.
    repository.file(1).write_bytes(weights(1))
    server = start([repository.root], "--model-control-mode=explicit", "--load-model=scale")
    assert answer(server) == 1
    before = repository.file(1).stat()
    change(repository)
    after = repository.file(1).stat()
    assert (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    assert server.call("POST", "/v2/repository/models/scale/load").status == 200
    assert answer(server) == repository.expected() == 2


def test_unchanged_models_are_not_reloaded(start, repository):
    server = start([repository.root], "--model-control-mode=poll", f"--repository-poll-secs={POLL_S}")
    empty_version(repository)
    garbage_version(repository)
    reasons = lambda: server.call("POST", "/v2/repository/index", b"").body.count(b"UNAVAILABLE")  # noqa: E731
    wait_until(lambda: reasons() >= 1, LOAD_TIMEOUT_S, "the broken version was tried")
    before = loads(server)
    stays(lambda: loads(server) == before, 4 * POLL_S, "no model is loaded again")
    assert server.call("GET", "/v2/health/ready").status == 200
    assert answer(server) == 1
