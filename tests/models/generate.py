"""Writes the model repositories of the tests: `repository` and, for models that must not load, `broken`.

    pip install torch==2.11.0 && python generate.py

The files are committed, so that running the tests needs no PyTorch. Models of the `echo` backend need no file: they
return each input as the output of the same position, after the service time in their configuration, so that tests of
queues and batches do not depend on the speed of the machine.
"""

import io
import shutil
import zipfile
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
GOOD = HERE / "repository"
BROKEN = HERE / "broken"
CHANGING = HERE / "changing"
ENDLESS = HERE / "endless"
HEAVY = HERE / "heavy"

# All datatypes that libtorch 2.11 supports.
DATATYPES = (
    "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 BF16 FP32 FP64".split()
)


class T(NamedTuple):
    """One tensor of a configuration; `more` contains fields other than name, type and dims."""

    name: str
    datatype: str
    dims: List[int]
    more: str = ""


class Identity(nn.Module):
    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0.clone()


class AddSub(nn.Module):
    def forward(self, INPUT0: Tensor, INPUT1: Tensor) -> Tuple[Tensor, Tensor]:
        return INPUT0 + INPUT1, INPUT0 - INPUT1


class Strings(nn.Module):
    def forward(self, INPUT0: List[str]) -> List[str]:
        return INPUT0


class Double(nn.Module):
    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0 * 2


class Triple(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3


class NanInf(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        inf = float("inf")
        self.register_buffer("strange", torch.tensor([float("nan"), inf, -inf, 1.5]))

    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0 + self.strange


class Transpose(nn.Module):
    """Takes [n, 2, 2], which clients send as [n, 4]."""

    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0.transpose(1, 2)


class Negate(nn.Module):
    """Takes [n], which clients send as [n, 1]. Any other shape would change the shape of the result."""

    def forward(self, INPUT0: Tensor) -> Tensor:
        assert INPUT0.dim() == 1
        return -INPUT0


class Fail(nn.Module):
    def forward(self, INPUT0: Tensor) -> Tensor:
        if bool((INPUT0 < 0).any()):
            raise ValueError("negative input is not allowed")
        return INPUT0 * 2


class FailOnZero(nn.Module):
    def forward(self, INPUT0: Tensor) -> Tensor:
        if bool((INPUT0 == 0).any()):
            raise ValueError("zero input is not allowed")
        return INPUT0


class Plus(nn.Module):
    def __init__(self, amount: int) -> None:
        super().__init__()
        self.amount = amount

    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0 + self.amount


class SumOfThree(nn.Module):
    def forward(self, A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        return A + B * 10 + C * 100


class MaybeAdd(nn.Module):
    def forward(self, INPUT0: Tensor, INPUT1: Optional[Tensor] = None) -> Tensor:
        if INPUT1 is None:
            return INPUT0.clone()
        return INPUT0 + INPUT1


class Scalar(nn.Module):
    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0.sum()


def tensors(kind: str, rows: List[T]) -> str:
    def one(t: T) -> str:
        dims = ", ".join(map(str, t.dims))
        type_name = "STRING" if t.datatype == "BYTES" else t.datatype
        more = f" {t.more}" if t.more else ""
        return f'  {{ name: "{t.name}" data_type: TYPE_{type_name} dims: [ {dims} ]{more} }}'

    return f"{kind} [\n" + ",\n".join(map(one, rows)) + "\n]\n"


def config(
    name: str,
    inputs: List[T],
    outputs: List[T],
    max_batch_size: int,
    extra: str,
    library: str = 'platform: "pytorch_libtorch"',
) -> str:
    head = f'name: "{name}"\n{library}\nmax_batch_size: {max_batch_size}\n'
    extra = extra and extra.strip() + "\n"
    return head + tensors("input", inputs) + tensors("output", outputs) + extra


def torch_model(
    name: str,
    module: nn.Module,
    inputs: List[T],
    outputs: List[T],
    max_batch_size: int = 8,
    extra: str = "",
    root: Path = GOOD,
) -> Path:
    folder = root / name
    save(module, folder / "1")
    (folder / "config.pbtxt").write_text(config(name, inputs, outputs, max_batch_size, extra))
    return folder


def save(module: nn.Module, version: Path) -> None:
    version.mkdir(parents=True)
    write(torch.jit.script(module.eval()), version / "model.pt")


def write(model: torch.jit.ScriptModule, path: Path) -> None:
    """Saves a model without its debug records, which contain local folder names."""
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    with zipfile.ZipFile(buffer) as whole, zipfile.ZipFile(path, "w") as kept:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(zipfile.ZipInfo(entry.filename), whole.read(entry))


def echo_model(
    name: str,
    service_time_ms: int,
    batching: str = "",
    max_batch_size: int = 8,
    dims: Optional[List[int]] = None,
) -> None:
    time = f'parameters {{ key: "service_time_ms" value {{ string_value: "{service_time_ms}" }} }}'
    folder = GOOD / name
    (folder / "1").mkdir(parents=True)
    # git does not store empty folders, and a version without a folder does not exist.
    (folder / "1" / "README").write_text("The echo backend needs no model file.\n")
    dims = dims or [1]
    text = config(
        name,
        [T("INPUT0", "INT32", dims)],
        [T("OUTPUT0", "INT32", dims)],
        max_batch_size,
        f"{time}\n{batching}",
        'backend: "echo"',
    )
    (folder / "config.pbtxt").write_text(text)


def identities() -> None:
    for datatype in DATATYPES:
        torch_model(
            f"identity_{datatype.lower()}",
            Identity(),
            [T("INPUT0", datatype, [-1])],
            [T("OUTPUT0", datatype, [-1])],
        )
    for name, dims in (("identity_str", [-1]), ("identity_str_one", [1])):
        torch_model(
            name,
            Strings(),
            [T("INPUT0", "BYTES", dims)],
            [T("OUTPUT0", "BYTES", dims)],
            max_batch_size=0,
        )
    torch_model(
        "dotted.name", Identity(), [T("INPUT0", "FP32", [-1])], [T("OUTPUT0", "FP32", [-1])]
    )
    torch_model(
        "var2",
        Identity(),
        [T("INPUT0", "FP32", [-1, -1])],
        [T("OUTPUT0", "FP32", [-1, -1])],
    )


def arithmetic() -> None:
    for name, datatype, tensor in (
        ("add_sub", "FP32", "{}{}"),
        ("add_sub_int32", "INT32", "{}{}"),
        # The model "simple" of tritonclient's own examples.
        ("simple", "INT32", "{}{}"),
        # Triton's alternative names for libtorch tensors, by position.
        ("add_sub_by_index", "FP32", "{}__{}"),
    ):
        torch_model(
            name,
            AddSub(),
            [T(tensor.format("INPUT", n), datatype, [16]) for n in range(2)],
            [T(tensor.format("OUTPUT", n), datatype, [16]) for n in range(2)],
            extra="dynamic_batching { }" if name == "simple" else "",
        )
    torch_model(
        "three_inputs",
        SumOfThree(),
        [T(name, "INT64", [1]) for name in "ABC"],
        [T("OUTPUT0", "INT64", [1])],
    )
    torch_model(
        "optional",
        MaybeAdd(),
        [T("INPUT0", "FP32", [4]), T("INPUT1", "FP32", [4], "optional: true")],
        [T("OUTPUT0", "FP32", [4])],
    )
    torch_model(
        "nobatch",
        Double(),
        [T("INPUT0", "FP32", [4])],
        [T("OUTPUT0", "FP32", [4])],
        max_batch_size=0,
    )


def odd_outputs() -> None:
    torch_model(
        "nan_inf", NanInf(), [T("INPUT0", "FP32", [4])], [T("OUTPUT0", "FP32", [4])]
    )
    square = "reshape { shape: [ 2, 2 ] }"
    torch_model(
        "reshape",
        Transpose(),
        [T("INPUT0", "FP32", [4], square)],
        [T("OUTPUT0", "FP32", [4], square)],
    )
    none = "reshape { shape: [ ] }"
    torch_model(
        "reshape_none",
        Negate(),
        [T("INPUT0", "INT32", [1], none)],
        [T("OUTPUT0", "INT32", [1], none)],
    )
    folder = torch_model(
        "labels",
        Identity(),
        [T("INPUT0", "FP32", [10])],
        [T("OUTPUT0", "FP32", [10], 'label_filename: "labels.txt"')],
    )
    labels = "ant bee cat dog emu fox gnu hen ibis jay".split()
    (folder / "labels.txt").write_text("\n".join(labels) + "\n")
    torch_model(
        "fail",
        Fail(),
        [T("INPUT0", "FP32", [4])],
        [T("OUTPUT0", "FP32", [4])],
        extra="dynamic_batching { max_queue_delay_microseconds: 100000 }",
    )
    torch_model(
        "scalar",
        Scalar(),
        [T("INPUT0", "FP32", [4])],
        [T("OUTPUT0", "FP32", [1])],
        max_batch_size=0,
    )


def versions() -> None:
    for name, policy in (
        ("latest_version", ""),
        ("two_versions", "version_policy: { latest: { num_versions: 2 } }"),
        ("all_versions", "version_policy: { all: { } }"),
        ("some_versions", "version_policy: { specific: { versions: [ 1, 3 ] } }"),
    ):
        folder = torch_model(
            name,
            Plus(1),
            [T("INPUT0", "INT32", [1])],
            [T("OUTPUT0", "INT32", [1])],
            extra=policy,
        )
        for version in (2, 3):
            save(Plus(version), folder / str(version))
        # Neither folder is a version: Triton ignores names with leading zeros and names that are not numbers.
        save(Plus(1000), folder / "04")
        save(Plus(2000), folder / "draft")


def without_config() -> None:
    version = GOOD / "noconfig" / "1"
    version.mkdir(parents=True)
    traced = torch.jit.trace(Triple(), torch.zeros(1, 4))
    write(traced, version / "model.pt")


def warmed() -> None:
    warmup = """
model_warmup [
  {
    name: "ones"
    batch_size: 2
    inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 4 ] random_data: true } }
  }
]"""
    torch_model(
        "warmed",
        Double(),
        [T("INPUT0", "FP32", [4])],
        [T("OUTPUT0", "FP32", [4])],
        extra=warmup + "\ninstance_group [ { count: 2 kind: KIND_CPU } ]",
    )


def batching() -> None:
    echo_model("slow", 500)
    echo_model("echo_now", 0, dims=[-1])
    parameters = 'parameters { key: "echo_parameters" value { string_value: "true" } }'
    echo_model("echo_parameters", 0, parameters)
    echo_model("dyn_plain", 50, "dynamic_batching { }")
    echo_model("dyn_shapes", 50, "dynamic_batching { }", dims=[-1])
    echo_model("dyn_delay", 1, "dynamic_batching { max_queue_delay_microseconds: 400000 }")
    echo_model(
        "dyn_pref",
        1,
        "dynamic_batching { preferred_batch_size: [ 2, 6 ] max_queue_delay_microseconds: 2000000 }",
    )
    echo_model(
        "dyn_queue",
        200,
        "dynamic_batching { default_queue_policy { max_queue_size: 8 } }",
        max_batch_size=2,
    )
    timeout = "default_timeout_microseconds: 100000 allow_timeout_override: true"
    for name, action in (("dyn_timeout", "REJECT"), ("dyn_timeout_delay", "DELAY")):
        echo_model(
            name,
            300,
            "dynamic_batching {\n  default_queue_policy { "
            f"timeout_action: {action} {timeout} }}\n}}",
            max_batch_size=1,
        )
    echo_model(
        "dyn_priority",
        100,
        "dynamic_batching { priority_levels: 3 default_priority_level: 2 }",
        max_batch_size=1,
    )
    echo_model(
        "dyn_order",
        20,
        "dynamic_batching { preserve_ordering: true }\n"
        "instance_group [ { count: 2 kind: KIND_CPU } ]",
        max_batch_size=1,
    )


def broken() -> None:
    x, y = [T("INPUT0", "FP32", [4])], [T("OUTPUT0", "FP32", [4])]

    def model(name: str, module: nn.Module = Double(), extra: str = "") -> Path:
        return torch_model(name, module, x, y, extra=extra, root=BROKEN)

    model("good")
    (model("corrupt") / "1" / "model.pt").write_bytes(bytes(range(256)) * 4)
    truncated = model("truncated") / "1" / "model.pt"
    truncated.write_bytes(truncated.read_bytes()[:500])
    (model("empty_file") / "1" / "model.pt").write_bytes(b"")
    torch.save({"weight": torch.zeros(2)}, model("not_torchscript") / "1" / "model.pt")
    missing = model("missing_file") / "1" / "model.pt"
    missing.rename(missing.with_name("other.pt"))
    (model("bad_syntax") / "config.pbtxt").write_text('name: "bad_syntax"\ninput [ { name:\n')
    (model("bad_field") / "config.pbtxt").write_text('name: "bad_field"\nmax_bach_size: 8\n')
    for name, old, new in (
        ("bad_name", '"bad_name"', '"another"'),
        ("bad_backend", 'platform: "pytorch_libtorch"', 'backend: "tensorrt"'),
        ("bad_count", "output [", 'input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]\noutput ['),
        ("bad_preferred", "output [", "dynamic_batching { preferred_batch_size: [ 9 ] }\noutput ["),
        ("bad_reshape", "dims: [ 4 ] }", "dims: [ 4 ] reshape { shape: [ 3 ] } }"),
        ("bad_gpu", "output [", "instance_group [ { kind: KIND_GPU gpus: [ 77 ] } ]\noutput ["),
    ):
        path = model(name) / "config.pbtxt"
        text = path.read_text()
        assert old in text, name
        path.write_text(text.replace(old, new, 1))
    warmup = """
model_warmup [
  {
    name: "zeros"
    batch_size: 1
    inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }
  }
]"""
    model("bad_warmup", FailOnZero(), warmup)
    no_versions = model("no_versions")
    (no_versions / "1").rename(no_versions / "draft")


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factor", torch.tensor([1.0]))

    def forward(self, INPUT0: Tensor) -> Tensor:
        return INPUT0 * self.factor


class Endless(nn.Module):
    """Never returns for 1e6, takes some milliseconds for 1e5, and answers all other values at once."""

    def forward(self, INPUT0: Tensor) -> Tensor:
        steps = 0
        while bool((INPUT0 == 1e6).any()) or (bool((INPUT0 == 1e5).any()) and steps < 3000):
            steps += 1
        return INPUT0 * 2.0


def heavy() -> None:
    """Writes one model of 24 MiB of zeros, which compress to some kilobytes."""
    layers = nn.Sequential(*(nn.Linear(512, 512) for _ in range(24)))
    for parameter in layers.parameters():
        nn.init.zeros_(parameter)
    (HEAVY / "1").mkdir(parents=True)
    stored, packed = HEAVY / "stored.pt", HEAVY / "1" / "model.pt"
    write(torch.jit.script(layers.eval()), stored)
    with zipfile.ZipFile(stored) as whole, zipfile.ZipFile(packed, "w") as kept:
        for entry in whole.infolist():
            kept.writestr(zipfile.ZipInfo(entry.filename), whole.read(entry), zipfile.ZIP_DEFLATED)
    stored.unlink()


def changing() -> None:
    x, y = [T("INPUT0", "FP32", [1])], [T("OUTPUT0", "FP32", [1])]
    torch_model("scale", Scale(), x, y, root=CHANGING)


def endless() -> None:
    x, y = [T("INPUT0", "FP32", [1])], [T("OUTPUT0", "FP32", [1])]
    torch_model("endless", Endless(), x, y, max_batch_size=1, root=ENDLESS)


def main() -> None:
    for root in (GOOD, BROKEN, CHANGING, ENDLESS, HEAVY):
        shutil.rmtree(root, ignore_errors=True)
    for group in (
        identities, arithmetic, odd_outputs, versions, without_config, warmed, batching, broken,
        changing, endless, heavy,
    ):
        group()


if __name__ == "__main__":
    main()
