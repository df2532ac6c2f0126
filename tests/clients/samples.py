"""Arrays with the extreme values of each datatype."""

import json

import ml_dtypes
import numpy as np

from server import DIGITS_INPUTS

FLOATS = [0.0, -0.0, 1.5, -2.25, 0.1, 65504.0, 1e-7, -1.0]


def of(datatype: str) -> np.ndarray:
    """Returns one row of eight elements, including the extreme values."""
    if datatype == "BOOL":
        return np.array([[True, False, True, True, False, False, True, False]])
    if datatype == "BF16":
        return np.array([FLOATS], dtype=ml_dtypes.bfloat16)
    if datatype.startswith("FP"):
        return np.array([FLOATS], dtype=f"float{datatype[2:]}")
    kind = np.dtype(datatype.lower())
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return np.array([[low, low + 1, 0, 1, 2, 100, high - 1, high]], dtype=kind)


def digits() -> dict[str, tuple[np.ndarray, int]]:
    """Returns the inputs of the digits example and the digits that they show, by name."""
    labels = json.loads((DIGITS_INPUTS / "labels.json").read_text())
    return {name: (np.load(DIGITS_INPUTS / f"{name}.npy"), label) for name, label in labels.items()}
