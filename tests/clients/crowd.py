"""Holds many hostile connections of mixed kinds from several addresses, until its standard input ends.

    python crowd.py TARGET HTTP_PORT GRPC_PORT COUNT SOURCE...     # prints the number it holds once all were opened
"""

import resource
import select
import socket
import sys

MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
# Settings frame with a window of zero bytes, so that no response can be sent.
CLOSED = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0"
HEAD = b"POST /v2/models/add_sub/infer HTTP/1.1\r\nHost: models.tests\r\n"
# `:method POST` and `:scheme http`, then path, authority and content-type as literals without indexing.
CALL = (b"\x83\x86" + b"\0\x05:path\x30/inference.GRPCInferenceService/ModelStreamInfer"
        + b"\0\x0a:authority\x0cmodels.tests" + b"\0\x0ccontent-type\x10application/grpc")
BEGIN = len(CALL).to_bytes(3, "big") + b"\x01\x04\0\0\0\x01" + CALL
ANNOUNCED = b"\0\0\x05\0\0\0\0\0\x01" + b"\0\x7f\xff\xff\xff"

KINDS = [
    ("http", b""),
    ("http", HEAD),
    ("http", HEAD + b"x-a: " + b"b" * 30_000),
    ("http", HEAD + b"Content-Length: 100000\r\n\r\n{"),
    ("http", HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"),
    ("http", HEAD + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n"),
    ("http", MAGIC + SETTINGS),
    ("grpc", b""),
    ("grpc", MAGIC[:10]),
    ("grpc", MAGIC + SETTINGS),
    ("grpc", MAGIC + SETTINGS + BEGIN),
    ("grpc", MAGIC + CLOSED + BEGIN + ANNOUNCED),
]


def main() -> None:
    target, http, grpc, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    sources, ports = sys.argv[5:], {"http": http, "grpc": grpc}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 100), hard))
    held = {}
    for number in range(count):
        port, payload = KINDS[number % len(KINDS)]
        # The socket does not block, so that a port that refuses a connection does not delay the others.
        peer = socket.socket()
        peer.bind((sources[number % len(sources)], 0))
        peer.setblocking(False)
        peer.connect_ex((target, ports[port]))
        held[peer] = payload
    waiting = set(held)
    poll = select.poll()
    for peer in held:
        poll.register(peer, select.POLLOUT)
    numbers = {peer.fileno(): peer for peer in held}
    while waiting:
        ready = poll.poll(5000)
        if not ready:
            break
        for number, _ in ready:
            peer = numbers[number]
            poll.unregister(peer)
            waiting.discard(peer)
            try:
                peer.send(held[peer])
            except OSError:
                pass
    print(count - len(waiting), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
