"""Nets for benches/gpu.py, with random weights, and the fastest loops of PyTorch over them."""

import time

import torch
import torch.nn.functional as F
from torch import nn

TOKENS, VOCABULARY, WIDTH = 128, 30522, 768
TYPES = {torch.float32: "FP32", torch.int64: "INT64"}
LARGEST = 64
SIZES = (1, 2, 4, 8, 16, 32, LARGEST)
# Runs before a loop is measured: allocations, and the choice of kernels by cuDNN.
FIRST_RUNS = 8


class AddSub(nn.Module):
    def forward(self, INPUT0, INPUT1):
        return INPUT0 + INPUT1, INPUT0 - INPUT1


class Bottleneck(nn.Module):
    def __init__(self, before: int, inner: int, stride: int):
        super().__init__()
        after = 4 * inner
        self.body = nn.Sequential(
            *convolution(before, inner, 1, 1), nn.ReLU(), *convolution(inner, inner, 3, stride), nn.ReLU(),
            *convolution(inner, after, 1, 1),
        )
        same = before == after and stride == 1
        self.skip = nn.Identity() if same else nn.Sequential(*convolution(before, after, 1, stride))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def convolution(before: int, after: int, size: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, size, stride, size // 2, bias=False), nn.BatchNorm2d(after)]


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [*convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        before = 64
        for inner, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for block in range(blocks):
                layers.append(Bottleneck(before, inner, stride if block == 0 else 1))
                before = 4 * inner
        self.layers = nn.Sequential(*layers)
        self.classes = nn.Linear(before, 1000)

    def forward(self, INPUT0):
        return self.classes(self.layers(INPUT0).mean((2, 3)))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        q, k, v = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.first(x + self.out(y.transpose(1, 2).flatten(2)))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers: int = 12, heads: int = 12):
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(512, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH, heads) for _ in range(layers))

    def forward(self, INPUT0, INPUT1):
        x = self.norm(self.words(INPUT0) + self.positions(torch.arange(INPUT0.size(1), device=INPUT0.device)))
        mask = (INPUT1 > 0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return x.mean(1).float()


NETS = {"add_sub": AddSub, "resnet50": ResNet50, "bert_fp16": lambda: Bert().half()}


def inputs(name: str, rows: int) -> tuple:
    """Returns the inputs of a batch on the host; rows differ from each other."""
    random = torch.Generator().manual_seed(7)
    if name == "add_sub":
        return tuple(torch.randn(rows, 16, generator=random) for _ in range(2))
    if name == "resnet50":
        return (torch.randn(rows, 3, 224, 224, generator=random),)
    words = torch.randint(0, VOCABULARY, (rows, TOKENS), generator=random)
    return words, torch.ones_like(words)


def scripted(name: str, path) -> torch.jit.ScriptModule:
    """Saves the net as TorchScript, and returns it as loaded from the file, on the GPU."""
    torch.manual_seed(0)
    module = NETS[name]().eval()
    with torch.no_grad():
        if name == "add_sub":
            script = torch.jit.script(module)
        else:
            example = tuple(tensor.cuda() for tensor in inputs(name, 2))
            script = torch.jit.trace(module.cuda(), example, check_trace=False)
        torch.jit.save(script, str(path))
    return torch.jit.load(str(path)).cuda()


def outputs(module, tensors: tuple) -> tuple:
    with torch.no_grad():
        made = module(*[tensor.cuda() for tensor in tensors])
    return tuple(each.cpu() for each in (made if isinstance(made, tuple) else (made,)))


def synchronous(module, host: tuple):
    """Returns a loop's step that copies inputs, runs and copies outputs, one after the other."""

    def step():
        made = module(*[tensor.cuda(non_blocking=True) for tensor in host])
        for each in made if isinstance(made, tuple) else (made,):
            each.cpu()

    return step


def overlapped(module, host: tuple):
    """Returns a loop's step that copies the inputs of a batch while the previous one runs."""
    upload, compute, pending = torch.cuda.Stream(), torch.cuda.current_stream(), []

    def step():
        with torch.cuda.stream(upload):
            device = [tensor.cuda(non_blocking=True) for tensor in host]
            uploaded = upload.record_event()
        compute.wait_event(uploaded)
        for tensor in device:
            tensor.record_stream(compute)
        made = module(*device)
        made = made if isinstance(made, tuple) else (made,)
        copies = [torch.empty(each.shape, dtype=each.dtype, pin_memory=True).copy_(each, non_blocking=True) for each in made]
        pending.append((compute.record_event(), copies))
        if len(pending) > 1:
            pending.pop(0)[0].synchronize()

    return step


def rate(step, rows: int, seconds: float) -> float:
    """Returns the rows per second of a loop."""
    for _ in range(FIRST_RUNS):
        step()
    torch.cuda.synchronize()
    begun, runs = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        step()
        runs += 1
    torch.cuda.synchronize()
    return runs * rows / (time.perf_counter() - begun)


def loops(module, name: str, seconds: float) -> dict[int, float]:
    """Returns the rows per second of the better loop, by batch size."""
    row, best = inputs(name, 1), {}
    with torch.no_grad():
        for rows in SIZES:
            host = tuple(tensor.expand(rows, *tensor.shape[1:]).contiguous().pin_memory() for tensor in row)
            best[rows] = max(rate(make(module, host), rows, seconds) for make in (synchronous, overlapped))
    return best


def config(name: str, tensors: tuple, made: tuple) -> str:
    """Returns the net's config.pbtxt."""

    def entry(kind: str, label: str, tensor) -> str:
        dims = ",".join(map(str, tensor.shape[1:]))
        return f'{kind} {{ name: "{label}" data_type: TYPE_{TYPES[tensor.dtype]} dims: [{dims}] }}'

    lines = [f'name: "{name}"', 'platform: "pytorch_libtorch"', f"max_batch_size: {LARGEST}", "dynamic_batching { }"]
    lines += [entry("input", f"INPUT{index}", tensor) for index, tensor in enumerate(tensors)]
    lines += [entry("output", f"OUTPUT__{index}", tensor) for index, tensor in enumerate(made)]
    return "\n".join([*lines, "instance_group [ { count: 1 kind: KIND_GPU } ]", ""])


def run_largest(folder) -> None:
    """Runs the overlapped loop of each net with the largest batch, so that this process holds what such loops need."""
    with torch.no_grad():
        for name in NETS:
            module = torch.jit.load(str(folder / "models" / name / "1" / "model.pt")).cuda()
            host = tuple(tensor.expand(LARGEST, *tensor.shape[1:]).contiguous().pin_memory() for tensor in inputs(name, 1))
            step = overlapped(module, host)
            for _ in range(FIRST_RUNS):
                step()
    torch.cuda.synchronize()
