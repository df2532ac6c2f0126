"""Calls the KServe SDK in a separate process, because kserve and tritonclient each register a protobuf file of package
`inference`, and a Python process can load only one of them.

Each input line is `[function, arguments…]`, each output line `["ok", result]` or `["error", type, text]`.
"""

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

import authority


def tensor(name: str, datatype: str, data: list, binary: bool) -> InferInput:
    if datatype == "BYTES":
        array = np.array([element.encode() for element in data], dtype=np.object_)
    else:
        array = np.array(data, dtype={"FP32": np.float32, "INT32": np.int32}[datatype])
    row = InferInput(name, list(array.shape), datatype)
    row.set_data_from_numpy(array, binary_data=binary)
    return row


def infer_request(model: str, rows: list, binary: bool) -> InferRequest:
    return InferRequest(model, [tensor(*row, binary) for row in rows], request_id="sdk-1")


def to_dict(response) -> dict:
    outputs = {}
    for output in response.outputs:
        values = output.as_numpy().reshape(-1).tolist()
        outputs[output.name] = [v.decode() if isinstance(v, bytes) else v for v in values]
    return {"id": response.id, "model": response.model_name, "outputs": outputs}


async def rest_state(url: str, protocol: str, method: str, *arguments):
    async with InferenceRESTClient(RESTConfig(protocol=protocol)) as client:
        return await getattr(client, method)(url, *arguments)


async def rest_infer(url: str, model: str, rows: list, binary: bool):
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        return to_dict(await client.infer(url, infer_request(model, rows, binary), model_name=model))


async def rest_infer_dict(url: str, protocol: str, model: str, body: dict):
    async with InferenceRESTClient(RESTConfig(protocol=protocol)) as client:
        response = await client.infer(url, body, model_name=model)
        return response if isinstance(response, dict) else to_dict(response)


async def grpc_state(url: str, method: str, *arguments):
    async with InferenceGRPCClient(url) as client:
        return await getattr(client, method)(*arguments)


async def grpc_infer(url: str, model: str, rows: list, binary: bool):
    async with InferenceGRPCClient(url) as client:
        return to_dict(await client.infer(infer_request(model, rows, binary)))


FUNCTIONS = {f.__name__: f for f in (rest_state, rest_infer, rest_infer_dict, grpc_state, grpc_infer)}


def main() -> None:
    authority.apply()
    for line in sys.stdin:
        function, *arguments = json.loads(line)
        try:
            reply = ["ok", asyncio.run(FUNCTIONS[function](*arguments))]
        except Exception as error:  # Any exception of the SDK is reported.
            reply = ["error", type(error).__name__, str(error)]
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
