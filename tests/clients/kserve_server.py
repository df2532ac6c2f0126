"""KServe's own Python server with one small model, as a user would write it: `kserve_server.py NAME PORT GRPC_PORT`."""

import sys

import numpy as np
from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer


class Doubling(Model):
    """Doubles numbers, over V1, V2 and gRPC."""

    def __init__(self, name: str):
        super().__init__(name)
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        if not isinstance(payload, InferRequest):
            return {"predictions": [2 * number for number in payload["instances"]]}
        doubled = 2 * payload.inputs[0].as_numpy()
        output = InferOutput("doubled", list(doubled.shape), "FP32")
        output.set_data_from_numpy(doubled.astype(np.float32), binary_data=False)
        return InferResponse(payload.id or "none", self.name, [output])


if __name__ == "__main__":
    name, port, grpc_port = sys.argv[1:]
    ModelServer(http_port=int(port), grpc_port=int(grpc_port), workers=1).start([Doubling(name)])
