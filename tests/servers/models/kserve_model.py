"""A head of causal attention on KServe's Python server: `kserve_model.py HTTP_PORT GRPC_PORT`.

Each number attends to itself and to those before it. All keys are alike, so each output is the mean of these numbers.
"""

import asyncio
import sys
import uuid

import numpy as np
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


def attend(values: np.ndarray) -> np.ndarray:
    scores = np.zeros((len(values), len(values)), np.float32)
    scores[np.triu_indices(len(values), 1)] = -np.inf
    weights = np.exp(scores)
    return weights / weights.sum(1, keepdims=True) @ values


class Attention(Model):
    def __init__(self, name: str):
        super().__init__(name)
        self.ready = True

    async def predict(self, request: InferRequest, headers=None, response_headers=None) -> InferResponse:
        inputs = {tensor.name: tensor.as_numpy() for tensor in request.inputs}
        await asyncio.sleep(float(inputs["DELAY"].max()) / 1000)
        means = attend(inputs["INPUT"].astype(np.float32))
        output = InferOutput("OUTPUT", list(means.shape), "FP32")
        # Triton's clients read only raw bytes over gRPC.
        output.set_data_from_numpy(means, binary_data=request.from_grpc)
        # The server answers 500 unless the response has an ID.
        return InferResponse(request.id or str(uuid.uuid4()), self.name, [output])


if __name__ == "__main__":
    http_port, grpc_port = map(int, sys.argv[1:])
    ModelServer(http_port=http_port, grpc_port=grpc_port).start([Attention("models")])
