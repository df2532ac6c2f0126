"""A published speech detector without a configuration, which takes a number in addition to the tensor, supports only a
few lengths and keeps a state.

No trial run finds valid inputs, so the signature is a guess and each request tries its own inputs.
"""

import math
import shutil
from pathlib import Path

import pytest

from server import Server
from wire import request, tensor

FILE = Path(__file__).resolve().parents[2] / ".venv/silero/silero_vad.jit"
# Number of samples in a chunk, for each rate that the model supports.
CHUNKS = {16000: 512, 8000: 256}
# A rough imitation of a voice: a tone with harmonics, which rises and falls.
HARMONICS = range(1, 12)


def repository(folder: Path) -> Path:
    version = folder / "models/silero/1"
    version.mkdir(parents=True)
    shutil.copy(FILE, version / "model.pt")
    return folder / "models"


def voice(rate: int, first: int, count: int) -> list:
    def sample(index: int) -> float:
        at = index / rate
        tone = sum(math.sin(2 * math.pi * 140 * harmonic * at) / harmonic for harmonic in HARMONICS)
        return 0.2 * tone * (1 + math.sin(2 * math.pi * 4 * at))

    return [sample(first + index) for index in range(count)]


def ask(server: Server, samples: list, rate: int):
    return server.infer("silero", request(tensor("x", "FP32", [len(samples)], samples), tensor("sr", "INT64", [1], [rate])))


def chances(server: Server, rate: int, chunks: int) -> list:
    """Returns the probability of speech in consecutive chunks."""
    size = CHUNKS[rate]
    replies = [ask(server, voice(rate, number * size, size), rate) for number in range(chunks)]
    return [reply.outputs()["OUTPUT__0"]["data"][0] for reply in replies]


@pytest.mark.parametrize("rate", CHUNKS)
def test_a_stream_of_chunks(start, tmp_path, rate):
    """Two servers with the same file answer a stream identically, so loading has not changed the state."""
    first, second = (chances(start([repository(tmp_path / name)]), rate, 12) for name in ("first", "second"))
    assert first == second
    assert all(0 <= chance <= 1 for chance in first)
    # The same chunk has another answer later, because the state of the stream is kept.
    assert len(set(first)) > 1


def test_silence_is_no_speech(start, tmp_path):
    server = start([repository(tmp_path)])
    for _ in range(5):
        assert ask(server, [0.0] * 512, 16000).outputs()["OUTPUT__0"]["data"][0] < 0.2


def test_refusals_contain_the_models_own_message(start, tmp_path):
    server = start([repository(tmp_path)])
    short = ask(server, [0.0] * 100, 16000)
    assert short.status == 400
    assert "Input audio chunk is too short" in short.error() and "guessed" in short.error()
    assert ask(server, [0.0] * 512, 44100).status == 400
    two = server.infer("silero", request(tensor("x", "FP32", [512], [0.0] * 512), tensor("sr", "INT64", [2], [16000, 8000])))
    assert two.status == 400
    assert ask(server, [0.0] * 512, 16000).status == 200
