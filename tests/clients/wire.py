"""HTTP as bytes: what no well-behaved client would send, and what it gets."""

import http.client
import json
import socket
import struct
from typing import NamedTuple, Optional

import ml_dtypes
import numpy as np

HEADER_LENGTH = "Inference-Header-Content-Length"

# By this host a gateway finds the service behind which the server under test is (see gateway.py); the
# server itself does not look at it. Requests that cases write byte by byte spell it out.
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
# Not sendable as JSON, by Triton's rule.
BINARY_ONLY = ("FP16", "BF16")


class Reply(NamedTuple):
    status: int
    headers: dict  # names in lower case
    body: bytes

    def json(self):
        return json.loads(self.body)

    def error(self) -> str:
        """The sentence of an error; asserts that it has the one form errors have."""
        assert self.headers.get("content-type", "").startswith("application/json"), self
        body = self.json()
        assert list(body) == ["error"] and isinstance(body["error"], str), body
        return body["error"]

    def outputs(self) -> dict:
        """JSON outputs by name."""
        assert self.status == 200, self
        return {output["name"]: output for output in self.json()["outputs"]}

    def split(self) -> tuple[dict, bytes]:
        """JSON header and the bytes after it."""
        assert self.status == 200, self
        length = int(self.headers[HEADER_LENGTH.lower()])
        return json.loads(self.body[:length]), self.body[length:]


class Connection(http.client.HTTPConnection):
    """A connection to a port of this machine, whose requests are for `HOST`."""

    def __init__(self, port: int, timeout: float = 30.0):
        super().__init__(HOST, port, timeout=timeout)

    def connect(self) -> None:
        self.sock = socket.create_connection(("127.0.0.1", self.port), self.timeout)
        # As the library does: a head must not wait for the acknowledgement of what precedes it.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def call(port: int, method: str, path: str, body=None, headers=None, timeout=30.0) -> Reply:
    """One request on a connection of its own. A body that is no bytes is sent as JSON."""
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
    """Sends bytes, and returns all that comes until the server closes or falls silent."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        try:
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It may refuse before it has read all.
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
                if complete(answer):
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def complete(answer: bytes) -> bool:
    head, separator, body = answer.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if separator and name.lower() == b"content-length":
            return len(body) >= int(value)
    return False


def status_of(answer: bytes) -> Optional[int]:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def tensor(name: str, datatype: str, shape, data=None, **parameters) -> dict:
    """One input of a request; `data` is left out where it is None."""
    row = {"name": name, "datatype": datatype, "shape": list(shape)}
    if parameters:
        row["parameters"] = parameters
    if data is not None:
        row["data"] = data
    return row


def request(*inputs: dict, **more) -> dict:
    return {"inputs": list(inputs), **more}


def binary(header: dict, *blobs: bytes) -> tuple[bytes, dict]:
    """Body and headers of a binary request; whether the header tells the truth is the test's affair."""
    text = json.dumps(header).encode()
    return text + b"".join(blobs), {HEADER_LENGTH: str(len(text))}


def strings(*elements: bytes) -> bytes:
    """A BYTES tensor as it travels."""
    return b"".join(struct.pack("<I", len(element)) + element for element in elements)


def from_bytes(datatype: str, data: bytes, shape) -> np.ndarray:
    return np.frombuffer(data, NUMPY[datatype]).reshape(shape)


def add_sub(values=None) -> dict:
    """A good request for `add_sub`: 0..15 and ones."""
    values = values or list(range(16))
    return request(
        tensor("INPUT0", "FP32", [1, 16], values), tensor("INPUT1", "FP32", [1, 16], [1] * 16)
    )
