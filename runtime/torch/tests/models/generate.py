#!/usr/bin/env python3
"""Writes the TorchScript files beside this script. Needs torch 2.11 and torchvision 0.26; run it only after a change.

    python3 generate.py
"""

import os
import zipfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torchvision  # registers its operators
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent


class AddSub(nn.Module):
    """Returns sum and difference of two tensors of any equal type and shape."""

    def forward(self, a: Tensor, b: Tensor) -> Tuple[Tensor, Tensor]:
        return a + b, a - b


class Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Strings(nn.Module):
    """Returns each string reversed and in upper case."""

    def forward(self, texts: List[str]) -> List[str]:
        return [text.upper()[::-1] for text in texts]


class StringsIdentity(nn.Module):
    def forward(self, texts: List[str]) -> List[str]:
        return texts


class Lengths(nn.Module):
    """Returns the number of characters of each string, as a tensor."""

    def forward(self, texts: List[str]) -> Tensor:
        return torch.tensor([len(text) for text in texts])


class DictInput(nn.Module):
    def forward(self, inputs: Dict[str, Tensor]) -> Tensor:
        return inputs["left"] * 10 + inputs["right"]


class OptionalBias(nn.Module):
    def forward(self, x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        if bias is not None:
            x = x + bias
        return x


class Fails(nn.Module):
    """Returns twice the input, but raises if the first element of any row is negative."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x.select(1, 0) < 0).any()):
            raise ValueError("the first element is negative")
        return x * 2


class Slow(nn.Module):
    """Takes about half a second for any input, which it returns unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        work = torch.full([256, 256], 0.01)
        for _ in range(600):
            work = torch.matmul(work, work) * 0.01 + 0.01
        return x + (work.sum() * 0.0)


class MaskedMean(nn.Module):
    """Returns the mean over the positions whose mask is set, so padding does not change the result."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        weight = mask.to(x.dtype)
        return (x * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True)


class NanInf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        odd = torch.tensor([float("nan"), float("inf"), float("-inf")])
        return odd.expand(x.size(0), 3) + x[:, :1] * 0


class Hungry(nn.Module):
    """Requests more memory than any machine has for negative numbers, and returns other inputs unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x < 0).any()):
            x = x.new_zeros([1 << 45]).narrow(0, 0, 1).expand_as(x)
        return x


def add_one(self, inputs: Tuple[Tensor]) -> Tuple[Tensor]:
    return (inputs[0] + 1,)


def and_sum(self, inputs: Tuple[Tensor], output: Tensor) -> Tuple[Tensor, Tensor]:
    return output * 3, inputs[0].sum(1, keepdim=True)


class Hooked(nn.Module):
    """Returns twice the input. Hooks add one to the input, triple the result and add a second output."""

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(add_one)
        self.register_forward_hook(and_sum)

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Hides(nn.Module):
    """Takes two arguments of one shape, of which only the first has floats."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill(mask, 0.5)


class Divides(nn.Module):
    """Returns remainder and quotient of two integers. libtorch's own code would end the process for some of them."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        dividend, divisor = int(a.flatten()[0]), int(b.flatten()[0])
        return torch.tensor([[dividend % divisor, dividend // divisor]])


class Truncates(nn.Module):
    """Returns the quotient of two integers. The CPU would end the process for some of them."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.div(a, b, rounding_mode="trunc")


class Bags(nn.Module):
    """Returns the largest embedding of each bag; `offsets` holds the first index of each bag."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(20, 4, mode="max")

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.table(ids, offsets)


class LstmState(nn.Module):
    """Takes and returns the state of an LSTM. The traced model calls the kernel without the checks that
    Python makes first."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.lstm(x, (h, c))
        return y, h, c


class Scalar(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


class InPlace(nn.Module):
    """Changes its own input in place."""

    def forward(self, x: Tensor) -> Tensor:
        x.add_(1)
        return x


class BatchMean(nn.Module):
    """Rows depend on each other, so a server must never batch them."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0, keepdim=True)


class Embedding(nn.Module):
    """Takes token ids. As a scripted model it cannot be tried with floats."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).mean(1)


class Transpose(nn.Module):
    """Returns an output that is not row-major in memory."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class Outputs(nn.Module):
    """Returns a list of tensors of several types."""

    def forward(self, x: Tensor) -> List[Tensor]:
        return [x, x.to(torch.int64), x > 0]


class Segmentation(nn.Module):
    """Returns a dict, like torchvision's segmentation models."""

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        return {"out": x * 2, "aux": x + 1}


class MoodyDict(nn.Module):
    """Returns a dict with one key, or with two for inputs above 10."""

    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        result = {"low": x}
        if bool((x > 10).any()):
            result["high"] = x * 2
        return result


class Gaussian(NamedTuple):
    mean: Tensor
    std: Optional[Tensor]


class Named(nn.Module):
    """Returns a NamedTuple with a field that may be None, like GoogLeNet."""

    def forward(self, x: Tensor) -> Gaussian:
        if bool((x < 0).any()):
            return Gaussian(x, x * x)
        return Gaussian(x, None)


class Point(NamedTuple):
    left: Tensor
    right: Tensor


class Fields(nn.Module):
    def forward(self, x: Tensor) -> Point:
        return Point(x - 1, x + 1)


class Lstm(nn.Module):
    """Returns a nested tuple, like nn.LSTM."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        return x, (x + 1, x + 2)


class DictOfTuples(nn.Module):
    """Returns logits and past keys and values, like traced language models."""

    def forward(self, x: Tensor) -> Dict[str, List[Tuple[Tensor, Tensor]]]:
        return {"logits": [(x, x)], "past": [(x, x + 1), (x + 2, x + 3)]}


class Detections(nn.Module):
    """Takes a list of images and returns the same types as torchvision's detection models."""

    def forward(self, images: List[Tensor]) -> Tuple[Dict[str, Tensor], List[Dict[str, Tensor]]]:
        found: List[Dict[str, Tensor]] = []
        for image in images:
            rows = image.flatten()
            rows = rows[rows > 0.5]
            found.append({"boxes": rows[:, None].expand(-1, 4).contiguous(), "scores": rows})
        losses: Dict[str, Tensor] = {}
        return losses, found


class Split(nn.Module):
    """Returns a list with one element per row."""

    def forward(self, x: Tensor) -> List[Tensor]:
        return [row for row in x.unbind(0)]


class Settings(nn.Module):
    """Takes numbers and strings as arguments."""

    def forward(
        self,
        x: Tensor,
        times: int,
        scale: float = 1.0,
        negate: bool = False,
        word: str = "none",
        offset: Optional[int] = None,
        weights: Optional[List[float]] = None,
    ) -> Tensor:
        x = x * times * scale + float(len(word) - 4)
        if negate:
            x = -x
        if offset is not None:
            x = x + offset
        if weights is not None:
            for weight in weights:
                x = x * weight
        return x


class Numbers(nn.Module):
    """Returns no tensor, only numbers, a string and lists."""

    def forward(self, x: Tensor) -> Tuple[int, float, bool, str, List[int], List[float], List[bool]]:
        total = float(x.sum())
        return int(total), total, total > 0, "sum", [x.dim(), x.numel()], [total], [True, False]


class Methods(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x

    @torch.jit.export
    def encode(self, x: Tensor, shift: Optional[Tensor] = None) -> Tensor:
        return x * 10


class Spectrum(nn.Module):
    """Returns complex numbers, which V2 does not have and the schema does not mention."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(x)


class ReturnsNone(nn.Module):
    def forward(self, x: Tensor) -> None:
        return None


class ReturnsAny(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return x


class ReturnsFuture(nn.Module):
    def forward(self, x: Tensor) -> torch.jit.Future[Tensor]:
        return torch.jit.fork(torch.relu, x)


class ReturnsComplex(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, complex]:
        return x, complex(1, 2)


@torch.jit.script
class Holder:
    def __init__(self, x: Tensor) -> None:
        self.x = x


class ReturnsClass(nn.Module):
    def forward(self, x: Tensor) -> Holder:
        return Holder(x)


class Vision(nn.Module):
    """Calls torchvision's operators: selects boxes and pools regions."""

    def forward(self, boxes: Tensor, scores: Tensor, x: Tensor, rois: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
        pooled = torch.ops.torchvision.roi_align(x, rois, 0.5, 2, 3, -1, True)
        plain = torch.ops.torchvision.roi_align(x, rois, 0.5, 2, 2, 2, False)
        return kept, pooled, plain


# Declares, without code and only while this script runs, an operator that only a library of the test has.
DECLARED = torch.library.Library("mine", "DEF")
DECLARED.define("triple(Tensor x) -> Tensor")


class CustomOp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mine.triple(x)


def vision_inputs() -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    boxes = torch.tensor(
        [[0.0, 0.0, 4.0, 4.0], [0.5, 0.0, 4.5, 4.0], [8.0, 8.0, 9.0, 9.0], [0.0, 0.0, 4.0, 2.0], [8.0, 8.0, 9.0, 9.5]]
    )
    scores = torch.tensor([0.5, 0.9, 0.1, 0.9, 0.3])
    x = (torch.arange(72.0) * 7 % 11).reshape(2, 1, 6, 6)
    rois = torch.tensor([[0.0, 1.0, 1.5, 9.0, 7.0], [1.0, -3.0, 2.0, 20.0, 13.0], [1.0, 4.0, 4.0, 4.2, 4.2]])
    return boxes, scores, x, rois


def detector() -> nn.Module:
    """Returns a small Faster R-CNN with torchvision's own code."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.rpn import AnchorGenerator

    torch.manual_seed(5)
    backbone = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())
    backbone.out_channels = 8
    from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead

    return FasterRCNN(
        backbone,
        min_size=64,
        max_size=64,
        rpn_anchor_generator=AnchorGenerator(((16, 32),), ((0.5, 1.0),)),
        box_head=TwoMLPHead(8 * 7 * 7, 8),
        box_predictor=FastRCNNPredictor(8, 3),
        box_score_thresh=0.05,
        box_detections_per_img=6,
    )


def image() -> Tensor:
    return (torch.arange(3 * 48 * 40.0) * 7 % 101 / 101).reshape(3, 48, 40)


class Spectral(nn.Module):
    """The largest eigenvalue. For NaN the process ends: nested lists are freed by as many nested calls."""

    def forward(self, a: Tensor) -> Tensor:
        if bool(a.isnan().any()):
            nested: List[Any] = []
            for _ in range(1000000):
                outer: List[Any] = []
                outer.append(nested)
                nested = outer
            a = a * len(nested)
        return torch.linalg.eigvals(a).abs().amax(-1, keepdim=True)


class Newton(nn.Module):
    """Computes square roots with a loop that never ends for NaN."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.abs() + 1.0
        err = torch.ones_like(x)
        while not bool((err < 1e-4).all()):
            n = 0.5 * (y + x.abs() / y)
            err = (n - y).abs()
            y = n
        return y


class Pixels(nn.Module):
    """Takes images of 28 by 28 pixels in any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, 784).sum(1, keepdim=True)


class Stft(nn.Module):
    """Returns the mean spectrum of a sound of more than 512 samples."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stft(x, 1024, window=torch.ones(1024), return_complex=True).abs().mean(-1)


class Sound(nn.Module):
    """Applies a convolution over 8000 samples."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 1, 8000, stride=4000)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x.unsqueeze(1)).mean(-1)


class Speech(nn.Module):
    """Encodes 80 features per step; `lengths` is the number of steps of each row."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(80, 16, 3, stride=4)
        self.gru = nn.GRU(16, 8, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        steps = self.conv(x.transpose(1, 2)).transpose(1, 2)
        packed = nn.utils.rnn.pack_padded_sequence(steps, lengths // 4, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        return out.mean(1)


class Few(nn.Module):
    """Returns twice the input for the few inputs that it accepts."""

    def forward(self, x: Tensor) -> Tensor:
        if not bool((x.sum(-1) == 42.0).all()):
            raise ValueError("the magic number is missing")
        return x * 2


class Images(nn.Module):
    """Takes any number of images of at least 150 by 150 pixels, without a batch dimension of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 1, 150, stride=20)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).mean([2, 3])


class Encoder(nn.Module):
    """Applies a transformer's encoder, which takes [steps, 32] and [steps, rows, 32]."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))


def conv() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 10))


SCRIPTED = {
    "add_sub": AddSub,
    "identity": Identity,
    "strings": Strings,
    "strings_identity": StringsIdentity,
    "lengths": Lengths,
    "dict_input": DictInput,
    "optional_bias": OptionalBias,
    "fails": Fails,
    "divides": Divides,
    "hooked": Hooked,
    "hides": Hides,
    "slow": Slow,
    "masked_mean": MaskedMean,
    "nan_inf": NanInf,
    "hungry": Hungry,
    "scalar": Scalar,
    "in_place": InPlace,
    "batch_mean": BatchMean,
    "embedding": Embedding,
    "transpose": Transpose,
    "outputs": Outputs,
    "mlp": mlp,
}

# Generated after the models above, so that the random weights of those stay the same.
STRUCTURED = {
    "segmentation": Segmentation,
    "moody_dict": MoodyDict,
    "named": Named,
    "fields": Fields,
    "lstm": Lstm,
    "dict_of_tuples": DictOfTuples,
    "detections": Detections,
    "split": Split,
    "settings": Settings,
    "numbers": Numbers,
    "methods": Methods,
    "spectrum": Spectrum,
    "returns_none": ReturnsNone,
    "returns_any": ReturnsAny,
    "returns_future": ReturnsFuture,
    "returns_complex": ReturnsComplex,
    "returns_class": ReturnsClass,
    "vision": Vision,
    "detector": detector,
    "custom_op": CustomOp,
}


# Models that generated inputs crash or hang, or that accept few generated inputs.
TRIALS = {
    "spectral": Spectral,
    "newton": Newton,
    "stft": Stft,
    "sound": Sound,
    "speech": Speech,
    "few": Few,
    "images": Images,
    "encoder": Encoder,
}


def write(module: torch.jit.ScriptModule, name: str) -> None:
    """Saves a module without its debug records, which contain paths of the machine that ran this script."""
    path, whole = HERE / f"{name}.pt", HERE / f"{name}.whole"
    module.save(str(whole))
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for entry in source.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                # A fixed date, so that the same model gives the same file.
                record = zipfile.ZipInfo(entry.filename.replace(f"{name}/", "model/", 1), (1980, 1, 1, 0, 0, 0))
                target.writestr(record, source.read(entry))
    os.remove(whole)


def main() -> None:
    torch.manual_seed(3)
    for name, build in SCRIPTED.items():
        write(torch.jit.script(build().eval()), name)
    traced = torch.jit.trace(conv().eval(), torch.zeros(1, 1, 8, 8))
    write(traced, "conv_traced")
    lengths = (torch.zeros(1, 5), torch.ones(1, 5, dtype=torch.int64))
    write(torch.jit.trace(MaskedMean(), lengths), "masked_mean_traced")
    write(torch.jit.trace(Segmentation(), torch.zeros(1, 4), strict=False), "dict_traced")
    for name, build in STRUCTURED.items():
        write(torch.jit.script(build().eval()), name)
    for name, build in {"truncates": Truncates, "bags": Bags}.items():
        write(torch.jit.script(build().eval()), name)
    state = (torch.zeros(1, 2, 3), torch.zeros(1, 1, 4), torch.zeros(1, 1, 4))
    write(torch.jit.trace(LstmState().eval(), state), "lstm_state")
    torch.manual_seed(7)
    for name, build in TRIALS.items():
        write(torch.jit.script(build().eval()), name)
    write(torch.jit.trace(Pixels(), torch.zeros(1, 1, 28, 28)), "pixels_traced")
    torch.save({"weight": torch.zeros(2)}, HERE / "state_dict.pt")  # not TorchScript, so it must be refused
    for name, inputs in (("mlp", torch.arange(32.0).reshape(2, 16) / 32), ("conv_traced", torch.ones(1, 1, 8, 8))):
        outputs = torch.jit.load(str(HERE / f"{name}.pt"))(inputs)
        print(name, [f"{value:.7f}" for value in outputs.flatten().tolist()])
    print_vision()


def print_vision() -> None:
    """Prints the results of torchvision's own operators for `vision` and `detector`."""
    kept, pooled, plain = torch.jit.load(str(HERE / "vision.pt"))(*vision_inputs())
    print("vision", kept.tolist(), pooled.flatten().tolist(), plain.flatten().tolist())
    _, found = torch.jit.load(str(HERE / "detector.pt"))([image()])
    for name, tensor in found[0].items():
        print("detector", torchvision.__version__, name, tensor.flatten().tolist())


if __name__ == "__main__":
    main()
