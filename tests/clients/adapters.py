"""A common interface to tritonclient's four clients, so that each test case runs with every one of them."""

import asyncio

import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http_client
import tritonclient.http.aio as http_aio
from tritonclient.utils import np_to_triton_dtype


class Blocking:
    """A synchronous client."""

    def __init__(self, library, url: str, **options):
        self.library = library
        self.client = library.InferenceServerClient(url, **options)

    def call(self, method: str, *args, **kwargs):
        return getattr(self.client, method)(*args, **kwargs)

    def infer(self, model: str, arrays: dict, outputs=None, **kwargs):
        inputs = [self.input(name, array) for name, array in arrays.items()]
        requested = outputs and [self.output(output) for output in outputs]
        return self.call("infer", model, inputs, outputs=requested, **kwargs)

    def input(self, name: str, array):
        value = self.library.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        value.set_data_from_numpy(array)
        return value

    def output(self, requested):
        """Returns a requested output, given by name or by name and class count."""
        name, classes = requested if isinstance(requested, tuple) else (requested, 0)
        return self.library.InferRequestedOutput(name, class_count=classes)

    def close(self) -> None:
        self.client.close()


class Asynchronous(Blocking):
    """An asyncio client, whose coroutines run to completion on an event loop of its own."""

    def __init__(self, library, url: str, **options):
        self.loop = asyncio.new_event_loop()
        self.library = library
        self.client = self.loop.run_until_complete(self.make(url, options))

    async def make(self, url: str, options: dict):
        return self.library.InferenceServerClient(url, **options)

    def call(self, method: str, *args, **kwargs):
        return self.loop.run_until_complete(getattr(self.client, method)(*args, **kwargs))

    def close(self) -> None:
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


NAMES = ["http", "http.aio", "grpc", "grpc.aio"]


def connect(name: str, server):
    """Connects the client with this name to the server."""
    if name == "http":
        return Blocking(http_client, server.http, concurrency=1, network_timeout=120)
    if name == "http.aio":
        return Asynchronous(http_aio, server.http)
    if name == "grpc":
        return Blocking(grpc_client, server.grpc)
    return Asynchronous(grpc_aio, server.grpc)


def error_of(client, method, *args, **kwargs) -> str:
    """Returns the text of the InferenceServerException that the call must raise."""
    from tritonclient.utils import InferenceServerException

    try:
        if method == "infer":
            client.infer(*args, **kwargs)
        else:
            client.call(method, *args, **kwargs)
    except InferenceServerException as error:
        return error.message() or str(error)
    raise AssertionError(f"{method}{args} did not fail")


def field(response, name: str):
    """Returns a field of a response: HTTP clients return dicts, gRPC clients messages."""
    return response[name] if isinstance(response, dict) else getattr(response, name)
