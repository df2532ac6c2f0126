"""Serves the nets of `tests/models/exported_zoo.py` without a configuration, and compares the answers with PyTorch's.

    python tests/models/exported_zoo.py FOLDER        # with torch 2.11
    WEIR_RUNTIME=target/debug/weir-runtime .venv/bin/python tests/scenarios/exported_zoo.py FOLDER

It prints the nets that are not served, those that are decided wrongly or not at all, and the counts. It fails if an
answer differs by more than 1e-5 of the largest element, alone or beside other requests, or if a coupled net is batched.
"""

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent.parent / "clients"
sys.path.insert(0, str(CLIENTS))

import server as servers  # noqa: E402
import test_exported  # noqa: E402
from server import Server  # noqa: E402

FOLDER = Path(sys.argv[1])
# A hundred models take longer than those of the tests.
servers.START_DEADLINE = 900.0


def failure(server: Server, name: str) -> str:
    """Returns the first difference from PyTorch's answers, or nothing."""
    requests = list(test_exported.recorded(name).values())
    try:
        for inputs, outputs in requests:
            test_exported.assert_same(test_exported.ask(server, name, inputs), outputs)
        with ThreadPoolExecutor(8) as pool:
            replies = pool.map(lambda request: test_exported.ask(server, name, request[0]), requests * 4)
            for reply, (_, outputs) in zip(replies, requests * 4):
                test_exported.assert_same(reply, outputs)
    except AssertionError as error:
        return str(error).strip()[:400] or "the outputs differ"
    return ""




def main() -> int:
    kinds = json.loads((FOLDER / "kinds.json").read_text())
    test_exported.EXPORTED = FOLDER
    test_exported.TYPES |= {"uint8": "UINT8", "int32": "INT32", "bool": "BOOL", "float64": "FP64"}
    wrong, counts = 0, {"served": 0, "equal": 0, "batched": 0, "coupled": 0, "coupled and batched": 0}
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary) / "models"
        for name in kinds:
            (repository / name / "1").mkdir(parents=True)
            (repository / name / "1" / "model.pt2").symlink_to((FOLDER / f"{name}.pt2").resolve())
        options = ["--exit-on-error=false", "--strict-readiness=false", "--model-load-thread-count=2"]
        server = Server(Path(temporary) / "log", [repository], options).start()
        rows = server.call("POST", "/v2/repository/index").json()
        reasons = {row["name"]: row.get("reason", "") for row in rows if row["state"] != "READY"}
        for name, kind in kinds.items():
            if name in reasons:
                print(f"{name} is not served: {reasons[name]}")
                continue
            is_batched = server.call("GET", f"/v2/models/{name}/config").json()["max_batch_size"] > 0
            what = failure(server, name)
            wrong += bool(what) + (kind == "coupled" and is_batched)
            counts["served"] += 1
            counts["equal"] += not what
            counts["batched"] += kind == "independent" and is_batched
            counts["coupled"] += kind == "coupled"
            counts["coupled and batched"] += kind == "coupled" and is_batched
            if what or (kind == "independent" and not is_batched):
                print(f"{name} ({kind}, batched: {is_batched}): {what}")
        server.stop()
    print(f"{len(kinds)} nets: {counts}")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
