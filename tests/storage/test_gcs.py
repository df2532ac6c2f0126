"""gs:// against a small server with the requests that a fetch sends."""

from conftest import fetch, files
from gcs import Gcs

OBJECTS = {"m/1/model.pt": b"weights", "m/config.pbtxt": b"x", "other": b"y"}


def test_objects_and_prefixes(serve, tmp_path):
    variables = {"STORAGE_EMULATOR_HOST": serve(Gcs(OBJECTS))}
    done = fetch("gs://models/m", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path) == {"1/model.pt": b"weights", "config.pbtxt": b"x"}
    done = fetch("gs://models/other", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    assert files(tmp_path)["other"] == b"y"
    done = fetch("gs://models/none", tmp_path, variables)
    assert "no object has this key" in done.stderr
    done = fetch("gs://nowhere/m", tmp_path, variables)
    assert "the bucket nowhere does not exist" in done.stderr
