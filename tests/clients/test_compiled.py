"""AOTInductor packages for the CPU: served with a configuration, and wrong ones refused without harm to the server.

The packages are made here from `compiled_model.c`, so that running the tests needs a C compiler and no PyTorch.
"""

import shutil
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import wire
from server import Server

SOURCE = Path(__file__).resolve().parent / "compiled_model.c"
COMPILER = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler to make packages with")

CPU = '{"AOTI_DEVICE_KEY": "cpu", "AOTI_CPU_ISA": "INVALID_VEC_ISA"}'
CONFIG = """
backend: "pytorch"
max_batch_size: %d
input { name: "x" data_type: %s dims: [ %s ] }
output { name: "doubled" data_type: TYPE_FP32 dims: [ 4 ] }
instance_group { count: 2 kind: KIND_CPU }
"""
GOOD = CONFIG % (16, "TYPE_FP32", "4")

# Faults of `compiled_model.c`, and what the reason says.
FAULTS = {
    "dies_in_run": (1, "is an AOTInductor package whose trial ended its process by signal 11"),
    "dies_at_load": (2, "cannot be loaded: the trial of it ended its process by signal 4"),
    "ends_at_load": (3, "cannot be loaded: the trial of it"),
    "is_no_model": (4, "whose trial ended its process by signal 11"),
    "cannot_start": (5, "create_func_("),
    "needs_more": (6, "a_function_of_a_later_libtorch"),
    "has_no_tree": (7, "its structure"),
}


def package(path: Path, fault: int, metadata: str = CPU, extra: dict | None = None) -> None:
    """Writes a package of the model with a fault, as torch lays packages out."""
    library = path.with_suffix(".so")
    shared = [COMPILER, "-shared", "-fPIC", "-w", f"-DWRONG={fault}", "-o", str(library), str(SOURCE)]
    subprocess.run(shared, check=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.write(library, "m/data/aotinductor/model/c.so")
        archive.writestr("m/data/aotinductor/model/c.cpp", "int source;")
        archive.writestr("m/data/aotinductor/model/c_metadata.json", metadata)
        for name, text in (extra or {}).items():
            archive.writestr(name, text)
    library.unlink()


def add(repository: Path, name: str, config: str, fault: int = 0, **options) -> None:
    (repository / name / "1").mkdir(parents=True)
    package(repository / name / "1" / "model.pt2", fault, **options)
    if config:
        (repository / name / "config.pbtxt").write_text(config)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Server:
    repository, temporary = tmp_path_factory.mktemp("compiled"), tmp_path_factory.mktemp("temporary")
    add(repository, "good", GOOD)
    add(repository, "whole", GOOD.replace("16", "0").replace("[ 4 ]", "[ -1, 4 ]"))
    add(repository, "larger", GOOD.replace("16", "20"))
    add(repository, "undescribed", "")
    add(repository, "two_inputs", GOOD + 'input { name: "z" data_type: TYPE_FP32 dims: [ 4 ] }')
    add(repository, "gpu", GOOD, metadata='{"AOTI_DEVICE_KEY": "cuda", "AOTI_COMPUTE_CAPABILITY": "90"}')
    add(repository, "isa", GOOD, metadata=CPU.replace("INVALID_VEC_ISA", "AVX1024"))
    add(repository, "weights", GOOD, extra={"m/data/weights/w0": "x"})
    add(repository, "fails", GOOD, 8)
    for name, (fault, _) in FAULTS.items():
        add(repository, name, GOOD, fault)
    options = ["--exit-on-error=false", "--strict-readiness=false"]
    server = Server(repository.with_name("compiled-log"), [repository], options)
    server.temporary = temporary
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TMPDIR", str(temporary))
        server.start()
    yield server
    server.stop()


def ask(server: Server, model: str, rows: np.ndarray) -> wire.Reply:
    data = rows.flatten().tolist()
    return server.infer(model, {"inputs": [wire.tensor("x", "FP32", list(rows.shape), data=data)]})


def answer(server: Server, model: str, rows: np.ndarray) -> np.ndarray:
    output = ask(server, model, rows).outputs()["doubled"]
    return np.array(output["data"], np.float32).reshape(output["shape"])


@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_rows_are_answered_alone_and_in_company(compiled, count: int) -> None:
    rows = np.arange(count * 4, dtype=np.float32).reshape(count, 4)
    assert np.array_equal(answer(compiled, "good", rows), 2 * rows)
    requests = [rows + number for number in range(16)]
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda request: answer(compiled, "good", request), requests)
        assert all(np.array_equal(reply, 2 * request) for reply, request in zip(replies, requests))


def test_the_code_checks_sizes_that_the_configuration_leaves_open(compiled) -> None:
    assert answer(compiled, "whole", np.ones((2, 4), np.float32)).shape == (2, 4)
    for shape in [(1, 4), (2, 5), (17, 4)]:
        reply = ask(compiled, "whole", np.ones(shape, np.float32))
        assert reply.status in (400, 500), reply
        assert "does not take these sizes" in reply.error() or "unexpected shape" in reply.error(), reply
    too_many = ask(compiled, "larger", np.ones((20, 4), np.float32))
    assert too_many.status == 500 and "does not take these sizes" in too_many.error(), too_many
    assert np.array_equal(answer(compiled, "larger", np.ones((16, 4), np.float32)), np.full((16, 4), 2))


def test_a_failed_run_is_an_error_of_the_request(compiled) -> None:
    reply = ask(compiled, "fails", np.ones((2, 4), np.float32))
    assert reply.status == 500 and "the compiled code failed" in reply.error(), reply


@pytest.mark.parametrize(
    "model, words",
    [
        ("undescribed", "does not say the datatypes and sizes of its tensors"),
        ("two_inputs", "configuration expects 2 inputs, model provides 1"),
        ("gpu", "runs only on a GPU of compute capability 90"),
        ("isa", "instruction set AVX1024, which is unknown"),
        ("weights", "weights are apart from its code"),
        *((name, words) for name, (_, words) in FAULTS.items()),
    ],
)
def test_a_wrong_package_is_refused_with_its_reason(compiled, model: str, words: str) -> None:
    assert words in compiled.reason(model)
    assert compiled.call("GET", "/v2/health/live").status == 200


def test_nothing_unpacked_is_left(compiled) -> None:
    assert list(compiled.temporary.iterdir()) == []


def test_packages_are_refused_where_code_is_forbidden(tmp_path) -> None:
    add(tmp_path / "models", "good", GOOD)
    options = ["--model-code=forbid", "--exit-on-error=false", "--strict-readiness=false"]
    server = Server(tmp_path / "log", [tmp_path / "models"], options).start()
    assert "is an AOTInductor package, which is code" in server.reason("good")
    server.stop()
