"""Writes a scikit-learn model and MLServer's settings for it: `sklearn_model.py FOLDER`, in MLServer's environment."""

import json
import sys
from pathlib import Path

import joblib
import numpy as np
from sklearn.linear_model import LogisticRegression

folder = Path(sys.argv[1])
rows = np.random.default_rng(0).random((200, 4))
joblib.dump(LogisticRegression().fit(rows, (rows.sum(1) > 2).astype(int)), folder / "model.joblib")
settings = {
    "name": "models",
    "implementation": "mlserver_sklearn.SKLearnModel",
    # MLServer gathers requests for a batch.
    "max_batch_size": 16,
    "max_batch_time": 0.005,
    "parameters": {"uri": str(folder / "model.joblib")},
}
(folder / "model-settings.json").write_text(json.dumps(settings))
