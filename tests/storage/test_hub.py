"""hf:// against a small Hub, beside huggingface_hub, which downloads the same model."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import fetch, files
from hub import FILES, NEW, OLD, TOKEN, WEIGHTS, Hub


def by_huggingface_hub(folder, endpoint, revision):
    """Returns the files of the model as huggingface_hub downloads them."""
    code = f"from huggingface_hub import snapshot_download as d; print(d('org/net', revision={revision!r}))"
    variables = {"HOME": str(folder), "PATH": os.environ["PATH"], "HF_ENDPOINT": endpoint, "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    root = pathlib.Path(done.stdout.strip().splitlines()[-1])
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("suffix, revision, commit", [("", "main", NEW), (":v1", "v1", OLD), (f":{OLD}", OLD, OLD)])
def test_a_model_is_the_same_as_by_huggingface_hub(serve, tmp_path, suffix, revision, commit):
    endpoint = serve(Hub())
    done = fetch(f"hf://org/net{suffix}", tmp_path, {"HF_ENDPOINT": endpoint})
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == by_huggingface_hub(tmp_path, endpoint, revision) == FILES[commit]


def test_patterns_choose_the_files(serve, tmp_path):
    variables = {"HF_ENDPOINT": serve(Hub()), "STORAGE_IGNORE_PATTERNS": '["docs/*"]'}
    done = fetch("hf://org/net", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert set(files(tmp_path)) == {"config.json", "1/model.pt"}


def test_the_weights_are_read_once(serve, tmp_path):
    hub = Hub()
    done = fetch("hf://org/net", tmp_path, {"HF_ENDPOINT": serve(hub)})
    assert done.returncode == 0, done.stderr
    assert hub.sent < len(WEIGHTS) * 1.01


def test_a_gated_model_needs_a_token_and_its_licence(serve, tmp_path):
    hub = Hub(gated=True)
    variables = {"HF_ENDPOINT": serve(hub)}
    done = fetch("hf://org/net", tmp_path, variables)
    assert done.returncode == 1 and "accept its licence" in done.stderr and "HF_TOKEN" in done.stderr, done.stderr
    done = fetch("hf://org/net", tmp_path, variables | {"HF_TOKEN": TOKEN})
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == FILES[NEW] and TOKEN not in done.stderr


@pytest.mark.parametrize(
    "uri, text", [("hf://org/none", "no such model"), ("hf://org/net:v9", "v9"), ("hf://org", "hf://ORG/NAME")]
)
def test_missing_models_are_named(serve, tmp_path, uri, text):
    done = fetch(uri, tmp_path, {"HF_ENDPOINT": serve(Hub())})
    assert done.returncode != 0 and text in done.stderr, done.stderr
