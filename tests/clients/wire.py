"""HTTP requests as bytes, valid and invalid ones, and their responses."""

import http.client
import json
import socket
import struct
from typing import NamedTuple, Optional

import ml_dtypes
import numpy as np

HEADER_LENGTH = "Inference-Header-Content-Length"

# Host by which a gateway finds the service of the server under test (see gateway.py); the server itself ignores it.
# Requests that tests write byte by byte contain it literally.
HOST = "models.tests"

NUMPY = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "FP32": np.float32,
    "FP64": np.float64,
}
# Datatype of an array; texts are an array of objects.
DATATYPES = {np.dtype(kind): datatype for datatype, kind in NUMPY.items()} | {np.dtype(object): "BYTES"}
# Datatypes that Triton does not support as JSON.
BINARY_ONLY = ("FP16", "BF16")


class Reply(NamedTuple):
    status: int
    headers: dict  # names in lower case
    body: bytes

    def json(self):
        return json.loads(self.body)

    def error(self) -> str:
        """Returns the message of an error, and asserts the form of the body."""
        assert self.headers.get("content-type", "").startswith("application/json"), self
        body = self.json()
        assert list(body) == ["error"] and isinstance(body["error"], str), body
        return body["error"]

    def outputs(self) -> dict:
        """Returns the JSON outputs by name."""
        assert self.status == 200, self
        return {output["name"]: output for output in self.json()["outputs"]}

    def split(self) -> tuple[dict, bytes]:
        """Returns the JSON header and the bytes after it."""
        assert self.status == 200, self
        length = int(self.headers[HEADER_LENGTH.lower()])
        return json.loads(self.body[:length]), self.body[length:]

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the outputs of a binary response by name, in their order."""
        header, data = self.split()
        found = {}
        for output in header["outputs"]:
            size = output["parameters"]["binary_data_size"]
            blob, data = data[:size], data[size:]
            found[output["name"]] = from_bytes(output["datatype"], blob, output["shape"])
        return found


class Connection(http.client.HTTPConnection):
    """A connection to a port of this machine, whose requests have the host `HOST`."""

    def __init__(self, port: int, timeout: float = 30.0):
        super().__init__(HOST, port, timeout=timeout)

    def connect(self) -> None:
        self.sock = socket.create_connection(("127.0.0.1", self.port), self.timeout)
        # http.client sets the option, too: otherwise a body waits for the acknowledgement of the head.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def call(port: int, method: str, path: str, body=None, headers=None, timeout=30.0) -> Reply:
    """Sends one request on a new connection. A body that is not bytes is sent as JSON."""
    if body is not None and not isinstance(body, (bytes, bytearray)) and not hasattr(body, "__next__"):
        body = json.dumps(body).encode()
    connection = Connection(port, timeout)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        fields = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, fields, response.read())
    finally:
        connection.close()


def raw(port: int, data: bytes, timeout: float = 10.0, half_close: bool = False) -> bytes:
    """Sends bytes, and returns all bytes received until the server closes the connection or the timeout passes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        try:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # The server may refuse before it has read everything.
        response = b""
        try:
            while chunk := connection.recv(65536):
                response += chunk
                if is_complete(response):
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return response


def is_complete(response: bytes) -> bool:
    head, separator, body = response.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if separator and name.lower() == b"content-length":
            return len(body) >= int(value)
    return False


def status_of(response: bytes) -> Optional[int]:
    return int(response.split(b" ", 2)[1]) if response.startswith(b"HTTP/1.1 ") else None


def tensor(name: str, datatype: str, shape, data=None, **parameters) -> dict:
    """Returns one input of a request; `data` is omitted if it is None."""
    row = {"name": name, "datatype": datatype, "shape": list(shape)}
    if parameters:
        row["parameters"] = parameters
    if data is not None:
        row["data"] = data
    return row


def request(*inputs: dict, **more) -> dict:
    return {"inputs": list(inputs), **more}


def binary(header: dict, *blobs: bytes) -> tuple[bytes, dict]:
    """Returns body and headers of a binary request. The JSON header may be invalid on purpose."""
    text = json.dumps(header).encode()
    return text + b"".join(blobs), {HEADER_LENGTH: str(len(text))}


def arrays(inputs: dict[str, np.ndarray]) -> tuple[bytes, dict]:
    """Returns body and headers of a request with these inputs, whose response is binary too."""
    rows, blobs = [], []
    for name, array in inputs.items():
        datatype = DATATYPES[array.dtype]
        texts = (text.encode() for text in array.flat) if datatype == "BYTES" else ()
        blobs.append(strings(*texts) if datatype == "BYTES" else array.tobytes())
        rows.append(tensor(name, datatype, array.shape, binary_data_size=len(blobs[-1])))
    return binary(request(*rows, parameters={"binary_data_output": True}), *blobs)


def strings(*elements: bytes) -> bytes:
    """Encodes a BYTES tensor."""
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def texts(data: bytes) -> list[bytes]:
    """Decodes a BYTES tensor."""
    found = []
    while data:
        end = 4 + struct.unpack_from("<I", data)[0]
        found.append(data[4:end])
        data = data[end:]
    return found


def from_bytes(datatype: str, data: bytes, shape) -> np.ndarray:
    if datatype == "BYTES":
        return np.array(texts(data), object).reshape(shape)
    return np.frombuffer(data, NUMPY[datatype]).reshape(shape)


def add_sub(values=None) -> dict:
    """Returns a valid request for `add_sub`, with the inputs 0..15 and ones."""
    values = values or list(range(16))
    return request(
        tensor("INPUT0", "FP32", [1, 16], values), tensor("INPUT1", "FP32", [1, 16], [1] * 16)
    )
