"""Serves a folder of exported nets without a configuration, and compares the answers with PyTorch's.

    python tests/models/exported_zoo.py FOLDER        # small nets; or real_nets.py, with any torch from 2.8 on
    WEIR_RUNTIME=target/debug/weir-runtime .venv/bin/python tests/scenarios/exported_zoo.py FOLDER [NAME...]

It prints the nets that are not exported or not served, those that are decided wrongly or not at all, and the counts. It
fails if an answer differs by more than 1e-5 of the largest element, alone or beside other requests, or if a coupled net
is batched.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CLIENTS = Path(__file__).resolve().parent.parent / "clients"
sys.path.insert(0, str(CLIENTS))

import server as servers  # noqa: E402
import test_exported  # noqa: E402
import wire  # noqa: E402
from model_files import LENIENT, ask, assert_close  # noqa: E402
from server import Server  # noqa: E402

FOLDER = Path(sys.argv[1])
# Kinds in kinds.json of nets that could be exported. The first three have a dynamic batch; the rows of `batched` nets may
# depend on each other or not.
KINDS = ("independent", "coupled", "batched", "fixed")
# End of the reason that `weir-runtime inspect` gives for a net whose rows are proven to be independent.
PROVEN = "the graph proves that the rows are independent"
# A hundred models take longer than those of the tests.
servers.START_DEADLINE = 1800.0


def failure(server: Server, name: str) -> str:
    """Returns the first difference from PyTorch's answers, or nothing."""
    requests = list(test_exported.recorded(name).values())
    try:
        for inputs, outputs in requests:
            assert_same(ask(server, name, inputs), outputs)
        with ThreadPoolExecutor(8) as pool:
            replies = pool.map(lambda request: ask(server, name, request[0]), requests * 4)
            for reply, (_, outputs) in zip(replies, requests * 4):
                assert_same(reply, outputs)
    except AssertionError as error:
        return " ".join(str(error).split())[:400] or "the outputs differ"
    return ""


def assert_same(reply: wire.Reply, wanted: dict) -> None:
    """Compares the outputs by their order, because a nested output has another name here than in the server."""
    got = reply.arrays()
    assert len(got) == len(wanted), list(got)
    for (name, array), right in zip(got.items(), wanted.values()):
        assert_close(array, right, name)


def decisions(repository: Path) -> dict[str, str]:
    """Returns for each net how `weir-runtime inspect` decides whether rows share a batch."""
    command = [servers.BINARY, "inspect", "--json", repository]
    output = subprocess.run(command, stdout=subprocess.PIPE, timeout=servers.START_DEADLINE, check=False).stdout
    found = {}
    for row in json.loads(output):
        text = row.get("batching", "")
        found[row["model"]] = "proven" if text == PROVEN else "undecided" if "trial" in text else text
    return found


def main() -> int:
    kinds = json.loads((FOLDER / "kinds.json").read_text())
    kinds = {name: kind for name, kind in kinds.items() if not sys.argv[2:] or name in sys.argv[2:]}
    test_exported.EXPORTED = FOLDER
    exported = {name: kind for name, kind in kinds.items() if kind in KINDS}
    for name in kinds.keys() - exported.keys():
        print(f"{name} is not exported: {kinds[name]}")
    with tempfile.TemporaryDirectory() as temporary:
        repository = Path(temporary) / "models"
        for name in exported:
            (repository / name / "1").mkdir(parents=True)
            (repository / name / "1" / "model.pt2").symlink_to((FOLDER / f"{name}.pt2").resolve())
        server = Server(Path(temporary) / "log", [repository], [*LENIENT, "--model-load-thread-count=2"]).start()
        counts = compared(server, exported, decisions(repository))
        server.stop()
    print(f"{len(kinds)} nets, {len(exported)} exported: {dict(counts)}")
    return counts["different"] + counts["coupled and batched"]


def compared(server: Server, kinds: dict[str, str], decided: dict[str, str]) -> Counter:
    """Counts the nets by what is found, and prints those with a finding."""
    rows = server.call("POST", "/v2/repository/index").json()
    reasons = {row["name"]: row.get("reason", "") for row in rows if row["state"] != "READY"}
    counts = Counter()
    for name, kind in kinds.items():
        if name in reasons:
            print(f"{name} is not served: {reasons[name]}")
            continue
        is_batched = server.call("GET", f"/v2/models/{name}/config").json()["max_batch_size"] > 0
        what = failure(server, name)
        found = ["served", kind, "different" if what else "equal"]
        found += ["shares batches"] if is_batched else []
        found += [decided.get(name, "")] if decided.get(name) in ("proven", "undecided") else []
        found += ["coupled and batched"] if is_batched and kind == "coupled" else []
        counts.update(found)
        if what or (not is_batched and kind in ("independent", "batched")) or "undecided" in found:
            print(f"{name} ({kind}, batched: {is_batched}, {decided.get(name)}): {what}", flush=True)
    return counts


if __name__ == "__main__":
    sys.exit(main() > 0)
