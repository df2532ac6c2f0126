"""Writes `zoo`: models as users bring them, without a configuration, and PyTorch's own answers of each.

    pip install torch==2.11.0 torchvision==0.26.0 transformers==5.23.0 numpy && python zoo.py

The files are committed, so that running the tests needs no PyTorch. All weights are random and all widths tiny, because
only the signature and the operations matter. `zoo/NAME/1/model.pt` is the model; `zoo/answers.npz` contains
`NAME/REQUEST/in/INPUT` and `NAME/REQUEST/out/INDEX`. The requests of a model with rows have one row each, so that tests
can combine them. BF16, which NumPy does not have, is stored as FP32.
"""

import shutil
import warnings
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from generate import write

HERE = Path(__file__).resolve().parent
ZOO = HERE / "zoo"

# Number of requests for each model, all different.
REQUESTS = 4

Value = Union[Tensor, List[str]]
Request = Dict[str, Value]

answers: Dict[str, np.ndarray] = {}


def numpy(value: Value) -> np.ndarray:
    if isinstance(value, list):
        return np.array(value, dtype=np.str_)
    value = value.detach()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def flat(result) -> List[Value]:
    """Returns the outputs in the order in which the server numbers them."""
    strings = isinstance(result, list) and all(isinstance(each, str) for each in result)
    if isinstance(result, Tensor) or strings:
        return [result]
    if isinstance(result, dict):
        return [each for key in result for each in flat(result[key])]
    return [each for part in result for each in flat(part)]


def add(name: str, model: Union[nn.Module, torch.jit.ScriptModule], request: Callable[[int], Request]) -> None:
    """Saves a module (scripted unless it already is) and its answers to `request(0)`, `request(1)`, …"""
    torch.manual_seed(0)
    if not isinstance(model, torch.jit.ScriptModule):
        model = torch.jit.script(model.eval())
    path = ZOO / name / "1"
    path.mkdir(parents=True)
    write(model, path / "model.pt")
    for number in range(REQUESTS):
        # Each request gets a newly loaded module, because some modules change their state.
        loaded = torch.jit.load(path / "model.pt")
        torch.manual_seed(100 + number)
        inputs = request(number)
        with torch.inference_mode():
            outputs = flat(loaded(*inputs.values()))
        # Tracing drops the names of some arguments.
        names = [argument.name for argument in loaded.forward.schema.arguments[1:]]
        for key, value in zip(names, inputs.values()):
            answers[f"{name}/{number}/in/{key}"] = numpy(value)
        for index, value in enumerate(outputs):
            answers[f"{name}/{number}/out/{index}"] = numpy(value)


def traced(module: nn.Module, *example: Tensor) -> torch.jit.ScriptModule:
    with torch.no_grad():
        return torch.jit.trace(module.eval(), example, check_trace=False)


def floats(name: str, *dims: int, dtype: torch.dtype = torch.float32) -> Callable[[int], Request]:
    # Sixteenths compress well and are exact in every type.
    return lambda _: {name: (torch.randint(1, 17, dims) / 16).to(dtype)}


def ids(name: str, *dims: int, below: int = 20) -> Callable[[int], Request]:
    return lambda _: {name: torch.randint(0, below, dims)}


def both(*parts: Callable[[int], Request]) -> Callable[[int], Request]:
    return lambda number: {key: value for part in parts for key, value in part(number).items()}


# --- Signatures that shapes decide -----------------------------------------------------------------------------


class Digits(nn.Module):
    """Takes one channel of 28 by 28, as the last layer demands."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.out = nn.Linear(4 * 13 * 13, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.out(F.max_pool2d(F.relu(self.conv(image)), 2).flatten(1))


class AnySize(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.out = nn.Linear(4, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.out(F.adaptive_avg_pool2d(self.conv(image), 1).flatten(1))


class Pixels(nn.Module):
    """Takes bytes, and normalises them itself."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 3)

    def forward(self, image: Tensor) -> Tensor:
        return self.conv(image.to(torch.float32) / 255.0).mean(dim=[2, 3])


class Clip(nn.Module):
    """Takes a short video: channels, frames, height, width."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv3d(2, 3, 3, padding=1)

    def forward(self, clip: Tensor) -> Tensor:
        return self.conv(clip).mean(dim=[2, 3, 4])


class Audio(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 9, stride=4)

    def forward(self, audio: Tensor) -> Tensor:
        return self.conv(audio).mean(dim=2)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(6, 4 * 7 * 7)
        self.up = nn.ConvTranspose2d(4, 1, 4, stride=2, padding=1)

    def forward(self, latent: Tensor) -> Tensor:
        return torch.sigmoid(self.up(self.dense(latent).view(-1, 4, 7, 7)))


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 4, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)

    def forward(self, image: Tensor) -> Tuple[Tensor, Tensor]:
        code = torch.relu(self.down(image))
        return self.up(code), code


class FlatAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(64, 5)
        self.decode = nn.Linear(5, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(torch.tanh(self.encode(x)))


class Sequence(nn.Module):
    """A sentiment model, which maps ids to one number."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.lstm = nn.LSTM(6, 5, batch_first=True)
        self.out = nn.Linear(5, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        return self.out(states[:, -1])


class Signal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(7, 4, batch_first=True)

    def forward(self, signal: Tensor) -> Tensor:
        return self.gru(signal)[0]


class TimeFirst(nn.Module):
    """The rows are in the second dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4)

    def forward(self, steps: Tensor) -> Tensor:
        return self.lstm(steps)[0]


class Cell(nn.Module):
    """A step of a recurrent model that gets its state from the client."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(5, 3)

    def forward(self, x: Tensor, state: Tensor) -> Tuple[Tensor, Tensor]:
        state = self.cell(x, state)
        return state.sum(1, keepdim=True), state


class TextCnn(nn.Module):
    """Needs at least five tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 6)
        self.conv = nn.Conv1d(6, 4, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.conv(self.embedding(tokens).transpose(1, 2)).amax(2)


class FixedLength(nn.Module):
    """Adds a position to each of exactly 12 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(5, 8)
        self.position = nn.Parameter(torch.rand(1, 12, 8))
        self.out = nn.Linear(8, 2)

    def forward(self, steps: Tensor) -> Tensor:
        return self.out((self.project(steps) + self.position).mean(1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class MaskedMean(nn.Module):
    """Takes ids and a mask of floats."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 4)

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        states = self.embedding(input_ids) * mask.unsqueeze(2)
        return states.sum(1) / (mask.sum(1, keepdim=True) + 0.5)


class ImageAndVector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.out = nn.Linear(4 + 9, 3)

    def forward(self, image: Tensor, features: Tensor) -> Tensor:
        seen = self.conv(image).mean(dim=[2, 3])
        return self.out(torch.cat([seen, features], dim=1))


class TwoTowers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.user = nn.Linear(10, 4)
        self.item = nn.Linear(3, 4)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        return (self.user(user) * self.item(item)).sum(1)


class Similarity(nn.Module):
    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return F.cosine_similarity(left, right, dim=1)


class Pick(nn.Module):
    """Uses an input as an index."""

    def forward(self, table: Tensor, index: Tensor) -> Tensor:
        return torch.gather(table, 1, index)


class StringsAndTensor(nn.Module):
    def forward(self, texts: List[str], weight: Tensor) -> Tensor:
        lengths = torch.zeros(len(texts), 1)
        for i, text in enumerate(texts):
            lengths[i, 0] = len(text)
        return lengths * weight


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("value", torch.tensor([1.5, 2.5, 3.5]))

    def forward(self) -> Tensor:
        return self.value * 2


class OptionalBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        y = self.linear(x)
        if bias is not None:
            y = y + bias
        return y


class Unchanged(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Inverse(nn.Module):
    """Takes square matrices."""

    def forward(self, matrix: Tensor) -> Tensor:
        return torch.linalg.inv(matrix + 4 * torch.eye(matrix.shape[-1]))


class Single(nn.Module):
    """Takes one id per row, without another dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 4)

    def forward(self, user: Tensor) -> Tensor:
        assert user.dim() == 1
        return self.embedding(user)


class Tabular(nn.Module):
    """Takes columns that are normalised first, as from a data frame."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(11)
        self.out = nn.Linear(11, 1)

    def forward(self, row: Tensor) -> Tensor:
        return torch.sigmoid(self.out(self.norm(row)))


class MatrixProduct(nn.Module):
    """The weights belong to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(9, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x @ self.weight, dim=-1)


class Categories(nn.Module):
    """Takes numbers and categories, like a click model."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 3)
        self.out = nn.Linear(3 * 4 + 5, 1)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:
        embedded = self.embedding(categories).view(-1, 12)
        return self.out(torch.cat([embedded, numbers], dim=1)).squeeze(1)


# --- Outputs of odd shapes -------------------------------------------------------------------------------------


class Squeezed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x).squeeze(-1)


class Label(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x).argmax(1)


class Best(NamedTuple):
    score: Tensor
    label: Tensor


class BestOfRow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Best:
        score, label = self.out(x).max(1)
        return Best(score, label)


class TopK(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(6, 7)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        values, indices = self.out(x).topk(3)
        return values, indices


class Positive(nn.Module):
    """Returns as many elements as are over a half."""

    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0.5]


class NonZero(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x > 0.5).nonzero()


class Total(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


class Moments(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return x - x.mean(), x.std()


class Centred(nn.Module):
    """Mixes the rows of a batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Spectrum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(x)


class Unservable(nn.Module):
    """Every trial fails, because no weight shows the required shape."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.size(1) != 17 or x.size(2) != 5:
            raise ValueError("expected 17 joints of 5 numbers")
        return x.sum(dim=[1, 2]).view(-1, 1)


def shapes() -> None:
    add("mlp", nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)), floats("input", 1, 16))
    add("digits", Digits(), floats("image", 1, 1, 28, 28))
    add("any_size", AnySize(), floats("image", 1, 3, 17, 23))
    add("pixels", Pixels(), lambda _: {"image": torch.randint(0, 256, (1, 3, 12, 12), dtype=torch.uint8)})
    add("clip", Clip(), floats("clip", 1, 2, 4, 8, 8))
    add("audio", Audio(), floats("audio", 1, 1, 64))
    add("decoder", Decoder(), floats("latent", 1, 6))
    add("autoencoder", Autoencoder(), floats("image", 1, 3, 16, 16))
    add("flat_autoencoder", FlatAutoencoder(), floats("x", 1, 64))
    add("sequence", Sequence(), ids("tokens", 1, 9))
    add("signal", Signal(), floats("signal", 1, 6, 7))
    add("time_first", TimeFirst(), floats("steps", 5, 2, 3))
    add("cell", Cell(), both(floats("x", 1, 5), floats("state", 1, 3)))
    add("text_cnn", TextCnn(), ids("tokens", 1, 11))
    add("fixed_length", FixedLength(), floats("steps", 1, 12, 5))
    add("attention", Attention(), floats("x", 1, 6, 8))
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    add("encoder_layer", traced(layer, torch.rand(1, 6, 8)), floats("src", 1, 6, 8))
    add("masked_mean", MaskedMean(), both(ids("input_ids", 1, 7), floats("mask", 1, 7)))
    add("image_and_vector", ImageAndVector(), both(floats("image", 1, 3, 14, 14), floats("features", 1, 9)))
    add("two_towers", TwoTowers(), both(floats("user", 1, 10), floats("item", 1, 3)))
    add("similarity", Similarity(), both(floats("left", 1, 6), floats("right", 1, 6)))
    add("pick", Pick(), both(floats("table", 1, 4), ids("index", 1, 2, below=4)))
    add("strings_and_tensor", StringsAndTensor(), lambda number: {
        "texts": ["a" * (number + 1)], "weight": torch.rand(1, 3)})
    add("constant", Constant(), lambda _: {})
    add("optional_bias", OptionalBias(), floats("x", 1, 6))
    add("unchanged", Unchanged(), floats("x", 1, 5))
    add("inverse", Inverse(), floats("matrix", 1, 3, 3))
    add("single", Single(), ids("user", 1))
    add("single_traced", traced(Single(), torch.zeros(2, dtype=torch.int64)), ids("user", 1))
    add("tabular", Tabular(), floats("row", 1, 11))
    add("layer_norm", nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 2)), floats("input", 1, 6))
    add("matrix_product", MatrixProduct(), floats("x", 1, 9))
    add("categories", Categories(), both(ids("categories", 1, 4), floats("numbers", 1, 5)))
    add("linear_3d", nn.Linear(8, 3), floats("input", 1, 8))
    add("bilinear", nn.Bilinear(4, 6, 2), both(floats("input1", 1, 4), floats("input2", 1, 6)))
    add("embedding_bag", nn.EmbeddingBag(20, 4), ids("input", 1, 6))
    frozen = torch.jit.freeze(torch.jit.script(Digits().eval()))
    add("digits_frozen", frozen, floats("image", 1, 1, 28, 28))
    frozen = torch.jit.freeze(torch.jit.script(TwoTowers().eval()))
    add("two_towers_frozen", frozen, both(floats("user", 1, 10), floats("item", 1, 3)))


def types() -> None:
    linear = lambda dtype: nn.Sequential(nn.Linear(8, 4), nn.Tanh()).to(dtype)  # noqa: E731
    for name, dtype in (("half", torch.float16), ("bfloat16", torch.bfloat16), ("double", torch.float64)):
        add(name, linear(dtype), floats("input", 1, 8, dtype=dtype))


def outputs() -> None:
    add("squeezed", Squeezed(), floats("x", 1, 6))
    add("label", Label(), floats("x", 1, 6))
    add("best", BestOfRow(), floats("x", 1, 6))
    add("top_k", TopK(), floats("x", 1, 6))
    add("positive", Positive(), floats("x", 9))
    add("nonzero", NonZero(), floats("x", 3, 3))
    add("total", Total(), floats("x", 2, 4))
    add("moments", Moments(), floats("x", 3, 4))
    add("centred", Centred(), floats("x", 3, 4))
    add("spectrum", Spectrum(), floats("x", 1, 8))
    add("unservable", Unservable(), floats("x", 2, 17, 5))


# --- Architectures of other projects ---------------------------------------------------------------------------


def images() -> None:
    from torchvision.models import convnext, densenet, mobilenet, regnet, resnet, shufflenetv2, vgg
    from torchvision.models import swin_transformer, vision_transformer

    side = 32
    image = floats("x", 1, 3, side, side)
    tiny = {
        "mobilenet_v2": mobilenet.mobilenet_v2(width_mult=0.05, num_classes=5),
        "shufflenet_v2": shufflenetv2.ShuffleNetV2([1, 1, 1], [4, 8, 16, 32, 32], num_classes=5),
        "densenet": densenet.DenseNet(4, (1, 1, 1, 1), 8, num_classes=5),
        "vgg": vgg.VGG(vgg.make_layers([4, "M", 8, "M", 8, "M"]), num_classes=5),
        "convnext": convnext.ConvNeXt([convnext.CNBlockConfig(4, 8, 1), convnext.CNBlockConfig(8, None, 1)], num_classes=5),
        "swin": swin_transformer.SwinTransformer([4, 4], 8, [1, 1], [2, 2], [4, 4], num_classes=5),
        "vit": vision_transformer.VisionTransformer(side, 8, 1, 2, 16, 32, num_classes=5),
    }
    tiny["vgg"].avgpool = nn.AdaptiveAvgPool2d(2)
    tiny["vgg"].classifier = nn.Linear(8 * 4, 5)
    torch.manual_seed(1)
    residual = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=5)
    narrow(residual)
    tiny["resnet"] = residual
    for name, module in tiny.items():
        module.eval()
        if name == "vit":
            add(name, module, image)
        if name in ("resnet", "densenet", "mobilenet_v2"):
            add(name, module, image)
        if name != "mobilenet_v2":
            add(f"{name}_traced", traced(module, torch.rand(1, 3, side, side)), image)


def narrow(module: nn.Module, by: int = 16) -> None:
    """Divides the channels of a residual network, whose constructor has no parameter for them."""
    for name, child in module.named_children():
        cut = lambda channels: channels if channels == 3 else max(channels // by, 1)  # noqa: E731
        if isinstance(child, nn.Conv2d):
            setattr(module, name, nn.Conv2d(
                cut(child.in_channels), cut(child.out_channels), child.kernel_size, child.stride,
                child.padding, bias=child.bias is not None))
        elif isinstance(child, nn.BatchNorm2d):
            setattr(module, name, nn.BatchNorm2d(cut(child.num_features)))
        elif isinstance(child, nn.Linear):
            setattr(module, name, nn.Linear(cut(child.in_features), child.out_features))
        else:
            narrow(child, by)


class First(nn.Module):
    """Returns one tensor of a model that returns many."""

    def __init__(self, model: nn.Module, positional: Tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.positional = model, positional

    def forward(self, *values: Tensor) -> Tensor:
        return self.model(**dict(zip(self.positional, values)), return_dict=False)[0]


def texts() -> None:
    import transformers as t

    small = dict(vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
                 max_position_embeddings=24, type_vocab_size=2)
    tokens, ones = torch.randint(1, 40, (1, 7)), torch.ones(1, 7, dtype=torch.int64)
    masked = lambda number: {  # noqa: E731
        "input_ids": torch.randint(1, 40, (1, 7)),
        "attention_mask": (torch.arange(7) < 7 - number).long().unsqueeze(0)}
    for name, model in {
        "bert": t.BertModel(t.BertConfig(**small, attn_implementation="eager")),
        "electra": t.ElectraModel(t.ElectraConfig(**small, embedding_size=8, attn_implementation="eager")),
        "distilbert": t.DistilBertModel(t.DistilBertConfig(
            vocab_size=40, dim=8, n_layers=1, n_heads=2, hidden_dim=16, max_position_embeddings=24,
            attn_implementation="eager")),
        "t5_encoder": t.T5EncoderModel(t.T5Config(
            vocab_size=40, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)),
        "gpt2": t.GPT2LMHeadModel(t.GPT2Config(
            vocab_size=40, n_positions=24, n_embd=8, n_layer=1, n_head=2, use_cache=False,
            attn_implementation="eager")),
    }.items():
        wrapped = First(model.eval(), ("input_ids", "attention_mask"))
        add(name, traced(wrapped, tokens, ones), masked)
    vit = t.ViTModel(t.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8,
        attn_implementation="eager"))
    add("hf_vit", traced(First(vit.eval(), ("pixel_values",)), torch.rand(1, 3, 16, 16)), floats("x", 1, 3, 16, 16))


def main() -> None:
    warnings.simplefilter("ignore")
    shutil.rmtree(ZOO, ignore_errors=True)
    torch.manual_seed(0)
    for group in (shapes, types, outputs, images, texts):
        group()
    np.savez_compressed(ZOO / "answers.npz", **answers)


if __name__ == "__main__":
    main()
