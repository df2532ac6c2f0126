"""HTTP/2 frames built byte by byte, including frames that no library would send."""

import struct

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTING_IDS = {"header_table": 1, "window": 4, "max_frame": 5}
INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

# API key of all requests of this process; None sends none.
key = None


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def preface(**values: int) -> bytes:
    settings = b"".join(struct.pack(">HI", SETTING_IDS[name], value) for name, value in values.items())
    return MAGIC + frame(SETTINGS, 0, 0, settings)


def grant(stream: int, size: int) -> bytes:
    """Opens the window of a stream, or of the connection (stream 0), by `size` bytes."""
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", size))


def string(text: bytes) -> bytes:
    """Encodes a header string without Huffman coding."""
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    out, length = bytes([127]), length - 127
    while length >= 128:
        out, length = out + bytes([length & 127 | 128]), length >> 7
    return out + bytes([length]) + text


def key_fields() -> list:
    """Returns the header with the key of this process."""
    return [("x-api-key", key)] if key else []


def key_lines() -> str:
    """Returns the same header as lines of HTTP/1.1."""
    return "".join(f"{name}: {value}\r\n" for name, value in key_fields())


def fields(*pairs: tuple) -> bytes:
    """Encodes headers as literals that are never indexed."""
    return b"".join(b"\0" + string(name.encode()) + string(value.encode()) for name, value in pairs)


def call(stream: int, path: str, host: str, *more: tuple) -> bytes:
    """Begins a gRPC call."""
    head = fields((":method", "POST"), (":scheme", "http"), (":path", path), (":authority", host),
                  ("content-type", "application/grpc"), ("te", "trailers"), *key_fields(), *more)
    return frame(HEADERS, END_HEADERS, stream, head)


def message(content: bytes, flag: int = 0) -> bytes:
    """Prefixes a gRPC message."""
    return bytes([flag]) + struct.pack(">I", len(content)) + content


def data(stream: int, content: bytes, last: bool = True, step: int = 16384) -> bytes:
    """Splits a body into frames."""
    pieces = [content[start:start + step] for start in range(0, len(content), step)] or [b""]
    flags = [0] * (len(pieces) - 1) + [END_STREAM if last else 0]
    return b"".join(frame(DATA, flag, stream, piece) for flag, piece in zip(flags, pieces))


def parse(buffer: bytearray):
    """Removes complete frames from the received bytes, and yields kind, flags, stream and payload of each."""
    while len(buffer) >= 9:
        length = int.from_bytes(buffer[:3], "big")
        if len(buffer) < 9 + length:
            return
        head, payload = bytes(buffer[:9]), bytes(buffer[9:9 + length])
        del buffer[:9 + length]
        yield head[3], head[4], int.from_bytes(head[5:9], "big"), payload
