"""Paths of programs, models and results."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "target"
BENCH = TARGET / "bench"
MODELS = BENCH / "models"
TENSORS = MODELS / "tensors"
LOAD = TARGET / "dist" / "load"
WEIR = TARGET / "dist" / "weir-runtime"
PEERS = BENCH / "peers"
TRITON = PEERS / "triton" / "pytriton" / "tritonserver" / "bin" / "tritonserver"
BACKENDS = PEERS / "backends"
RAW_LOOP = PEERS / "raw_loop"
DIGITS = ROOT / "examples" / "digits" / "weir-examples"
RESULTS = ROOT / "benches" / "results" / "runtime.json"
PAGE = ROOT / "docs" / "performance.md"
MEASURED_PAGE = ROOT / "docs" / "history" / "measured.md"
GATEWAY_RESULTS = ROOT / "benches" / "results" / "gateway.json"
SECURITY_RESULTS = ROOT / "benches" / "results" / "security.json"
SECURITY_PAGE = ROOT / "docs" / "security.md"
EXPORTED_RESULTS = ROOT / "benches" / "results" / "exported.json"
EXPORTED_PAGE = ROOT / "docs" / "exported-models.md"
