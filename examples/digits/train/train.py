"""Trains the digits model, and writes it and its sample inputs next to this folder.

    python -m venv .venv && .venv/bin/pip install -r requirements.txt && .venv/bin/python train.py

One seed determines the split, the weights and the order of training, so that two runs on one machine write equal
weights.
"""

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 7
EPOCHS = 40
BATCH = 64
# A quarter is held out, stratified: 450 of scikit-learn's 1 797 images, enough to distinguish 97 % from 98 %.
HELD_OUT = 0.25
MIN_ACCURACY = 0.97
SAMPLES_PER_DIGIT = 2

EXAMPLE = Path(__file__).resolve().parent.parent
MODEL = EXAMPLE / "weir-examples" / "digits" / "1" / "model.pt"
INPUTS = EXAMPLE / "inputs"


class Digits(nn.Module):
    """Three convolutions and two linear layers: 1x8x8 pixels of 0..16 to ten logits and the digit."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, 3, padding=1)
        self.conv2 = nn.Conv2d(64, 96, 3, padding=1)
        self.conv3 = nn.Conv2d(96, 96, 3, padding=1)
        self.hidden = nn.Linear(96 * 4 * 4, 32)
        self.dropout = nn.Dropout(0.25)
        self.classes = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = image / 16.0
        x = torch.relu(self.conv1(x))
        x = torch.relu(self.conv2(x))
        x = torch.max_pool2d(torch.relu(self.conv3(x)), 2)
        x = torch.relu(self.hidden(x.flatten(1)))
        logits = self.classes(self.dropout(x))
        return logits, logits.argmax(1, keepdim=True)


def load() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    split = train_test_split(
        images, digits.target, test_size=HELD_OUT, random_state=SEED, stratify=digits.target
    )
    train_x, test_x, train_y, test_y = (torch.from_numpy(part) for part in split)
    return train_x, train_y, test_x, test_y


def shifted(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Returns the images, each moved by at most one pixel, so that the network learns strokes and not positions."""
    padded = nn.functional.pad(images, (1, 1, 1, 1))
    dx, dy = torch.randint(0, 3, (2, len(images)), generator=generator)
    return torch.stack(
        [image[:, y : y + 8, x : x + 8] for image, x, y in zip(padded, dx.tolist(), dy.tolist())]
    )


def train(images: torch.Tensor, labels: torch.Tensor) -> Digits:
    model = Digits()
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(images), generator=generator).split(BATCH):
            logits, _ = model(shifted(images[chosen], generator))
            loss = nn.functional.cross_entropy(logits, labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def png(image: np.ndarray) -> bytes:
    """Returns the image as a greyscale PNG file, in which 0 is black and 16 white."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width = image.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    # Each row begins with its filter type: none.
    rows = b"".join(b"\0" + row.tobytes() for row in np.rint(image * 255 / 16).astype(np.uint8))
    data = zlib.compress(rows, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def save(model: torch.jit.ScriptModule, path: Path) -> None:
    """Saves the model without its debug records, which contain folder names of the machine that ran this script."""
    buffer = io.BytesIO()
    torch.jit.save(model, buffer)
    with zipfile.ZipFile(buffer) as whole, zipfile.ZipFile(path, "w") as kept:
        for entry in whole.infolist():
            if not entry.filename.endswith(".debug_pkl"):
                kept.writestr(zipfile.ZipInfo(entry.filename), whole.read(entry))


def write_samples(images: torch.Tensor, labels: torch.Tensor) -> None:
    """Writes held-out images of every digit as request bodies and as arrays, with their true labels."""
    INPUTS.mkdir(parents=True, exist_ok=True)
    truth = {}
    for digit in range(10):
        for n, row in enumerate((labels == digit).nonzero().flatten()[:SAMPLES_PER_DIGIT]):
            image = images[row : row + 1]
            name = f"digit-{digit}-{'ab'[n]}"
            truth[name] = digit
            body = {
                "inputs": [
                    {
                        "name": "image",
                        "shape": list(image.shape),
                        "datatype": "FP32",
                        "data": [int(pixel) for pixel in image.flatten().tolist()],
                    }
                ]
            }
            (INPUTS / f"{name}.json").write_text(json.dumps(body) + "\n")
            np.save(INPUTS / f"{name}.npy", image.numpy())
            (INPUTS / f"{name}.png").write_bytes(png(image.numpy().reshape(8, 8)))
    (INPUTS / "labels.json").write_text(json.dumps(truth, indent=2) + "\n")


def main() -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_x, train_y, test_x, test_y = load()
    model = train(train_x, train_y)
    with torch.no_grad():
        accuracy = (model(test_x)[1].flatten() == test_y).float().mean().item()
    print(f"held-out accuracy {accuracy:.4f} on {len(test_y)} images")
    if accuracy < MIN_ACCURACY:
        raise SystemExit(f"accuracy is below {MIN_ACCURACY}; nothing written")
    MODEL.parent.mkdir(parents=True, exist_ok=True)
    save(torch.jit.script(model), MODEL)
    write_samples(test_x, test_y)
    print(f"wrote {MODEL.relative_to(EXAMPLE)}, {MODEL.stat().st_size} bytes")


if __name__ == "__main__":
    main()
