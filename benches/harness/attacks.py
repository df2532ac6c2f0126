"""Hostile clients, each kind in its own process."""

import asyncio
import gzip
import multiprocessing
import os
import socket
import time
from dataclasses import dataclass
from typing import Callable

from . import frames

PING = frames.frame(frames.PING, 0, 0, b"pingpong")
# Linux socket option with which a socket can be closed without a packet to its peer.
TCP_REPAIR = 19
# An address other than that of the well-behaved clients.
SOURCE = "127.0.0.2"
# Marker in a payload at which the client waits for the server's first bytes, and the seconds of the wait.
PAUSE, PAUSE_SECONDS = b"\0PAUSE\0", 0.05
# Code for resetting a stream that its client no longer needs, and the seconds after which a call has been read but
# rarely answered.
CANCEL, GIVE_UP_SECONDS = b"\0\0\0\x08", 0.002


@dataclass(frozen=True)
class Attack:
    """A kind of attack: its name, its protocols, its number of connections, and the function that each of them runs
    until the end."""

    name: str
    wires: tuple
    connections: int
    act: Callable


async def swallow(reader, seconds: float) -> bytes:
    """Reads until the server closes the connection, or for `seconds`."""
    received = b""
    try:
        while piece := await asyncio.wait_for(reader.read(65536), seconds):
            received = (received + piece)[-4096:]
    except (asyncio.TimeoutError, ConnectionError):
        pass
    return received


async def write(writer, payload: bytes) -> None:
    for number, part in enumerate(payload.split(PAUSE)):
        if number:
            await asyncio.sleep(PAUSE_SECONDS)
        writer.write(part)


async def send(port: int, payload: bytes, seconds: float = 10.0) -> bytes:
    """Sends a payload on a new connection, and returns the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))
    try:
        await write(writer, payload)
        answer = asyncio.ensure_future(swallow(reader, seconds))
        await asyncio.wait_for(writer.drain(), seconds)
        return await answer
    except (ConnectionError, asyncio.TimeoutError):
        return b""
    finally:
        writer.close()


def again(payload: Callable, seconds: float = 3.0) -> Callable:
    """Returns an attack that sends a payload repeatedly."""

    async def act(port: int, host: str, end: float) -> None:
        whole = payload(host)
        while time.monotonic() < end:
            await send(port, whole, seconds)

    return act


def hold(begin: Callable, drip: bytes = b"", every: float = 1.0) -> Callable:
    """Returns an attack that holds a connection with as little traffic as possible, and opens another one when it ends.
    """

    async def act(port: int, host: str, end: float) -> None:
        while time.monotonic() < end:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))
            ended = asyncio.ensure_future(swallow(reader, end - time.monotonic()))
            try:
                await write(writer, begin(host))
                while time.monotonic() < end and not ended.done():
                    await asyncio.wait([ended], timeout=min(every, end - time.monotonic()))
                    writer.write(drip)
                    await writer.drain()
            except ConnectionError:
                pass
            finally:
                ended.cancel()
                writer.close()

    return act


def post(path: str, length: str) -> Callable:
    return lambda host: f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{frames.key_lines()}{length}\r\n\r\n".encode()


def begun(**settings: int) -> bytes:
    """Returns the start of an HTTP/2 connection: it acknowledges the server's settings and pauses until the server has
    opened its windows."""
    return frames.preface(**settings) + frames.frame(frames.SETTINGS, frames.ACK, 0) + PAUSE


def rpc(path: str, content: bytes, *more: tuple, step: int = 16384, last: bool = True, **settings: int) -> Callable:
    return lambda host: (begun(**settings) + frames.call(1, path, host, *more)
                         + frames.data(1, content, last, step))


INFER = "/v2/models/add_sub/infer"
# Just less than a stream's window, so that the whole message is sent at once.
EMPTY_INPUTS = frames.message(b"\x2a\x00" * (2**19 - 8))
ZEROS = 200 << 20
BOMB = frames.message(gzip.compress(b"\x3a\x80\x80\x80\x64" + bytes(ZEROS), 9), flag=1)
CHUNKS = b"1\r\n \r\n" * 100_000


async def endless_control(port: int, host: str, end: float) -> None:
    """Announces a body of 1 GiB for a call that changes a setting, and sends 4 MiB of it."""
    head = post("/v2/logging", f"Content-Length: {1 << 30}")(host)
    while time.monotonic() < end:
        await send(port, head + b"[" * (4 << 20))


async def vanish(port: int, host: str, end: float) -> None:
    """Sends a request and disappears without closing the connection, so that the server can detect it only by probing.
    """
    while time.monotonic() < end:
        peer = socket.create_connection(("127.0.0.1", port), source_address=(SOURCE, 0))
        peer.sendall(post(INFER, "Content-Length: 100")(host))
        try:
            peer.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        except PermissionError:
            pass
        peer.close()
        await asyncio.sleep(0.5)


async def crowd(port: int, host: str, end: float) -> None:
    """Opens a connection from one address every 10 ms, and holds about 200 of them."""
    held = []
    while time.monotonic() < end:
        try:
            peer = socket.socket()
            peer.setblocking(False)
            peer.connect_ex(("127.0.0.1", port))
            held.append(peer)
        except OSError:
            pass
        if len(held) >= 200:
            for peer in held[:20]:
                peer.close()
            del held[:20]
        await asyncio.sleep(0.01)
    for peer in held:
        peer.close()


def stopped(host: str) -> bytes:
    """Returns a long body without its last byte."""
    size = 16 << 20
    return post(INFER, f"Content-Length: {size}")(host) + bytes(size - 1)


def endless_head(host: str) -> bytes:
    return f"GET /v2 HTTP/1.1\r\nHost: {host}\r\n{frames.key_lines()}".encode() + b"x: " + b"a" * (1 << 20)


def continuation(host: str) -> bytes:
    """Returns a request head of many frames, none of which is the last."""
    first = frames.frame(frames.HEADERS, 0, 1, frames.fields((":method", "POST"), (":path", "/"), (":authority", host), *frames.key_fields()))
    more = frames.frame(frames.CONTINUATION, 0, 1, frames.fields(*(("x-a", "b" * 100),) * 100))
    return begun() + first + more * 200


def table_bomb(host: str) -> bytes:
    """Returns a header that is long once, and is then referenced by one byte each."""
    long = b"\x40" + frames.string(b"x-a") + frames.string(b"b" * 3900)
    start = frames.fields((":method", "POST"), (":scheme", "http"), (":path", frames.INFER), (":authority", host),
                          *frames.key_fields())
    first = frames.frame(frames.HEADERS, frames.END_HEADERS, 1, start + long)
    second = frames.frame(frames.HEADERS, frames.END_HEADERS, 3, start + b"\xbe" * 16000)
    return begun() + first + second


def resets(host: str) -> bytes:
    """Returns calls that are reset at once."""
    one = lambda stream: frames.call(stream, frames.INFER, host) + frames.frame(frames.RESET, 0, stream, CANCEL)  # noqa: E731
    return begun() + b"".join(one(2 * number + 1) for number in range(2000))


async def give_up(port: int, host: str, end: float) -> None:
    """Sends complete calls, fifty at once, which are reset as soon as the server has read them."""
    from .neighbours import MESSAGE
    one = lambda stream: frames.call(stream, frames.INFER, host) + frames.data(stream, MESSAGE)  # noqa: E731
    while time.monotonic() < end:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))
        ended = asyncio.ensure_future(swallow(reader, end - time.monotonic()))
        try:
            await write(writer, begun(window=0))
            first = 1
            while time.monotonic() < end and not ended.done():
                streams = range(first, first + 100, 2)
                writer.write(b"".join(map(one, streams)))
                await asyncio.wait([ended], timeout=GIVE_UP_SECONDS)
                writer.write(b"".join(frames.frame(frames.RESET, 0, stream, CANCEL) for stream in streams))
                await writer.drain()
                first += 100
        except ConnectionError:
            pass
        finally:
            ended.cancel()
            writer.close()


def promises(host: str) -> bytes:
    """Returns streams that announce messages of 2 GiB each, of which only five bytes are sent."""
    begin = lambda stream: frames.call(stream, frames.STREAM, host) + frames.data(stream, b"\0\x7f\xff\xff\xff", False)  # noqa: E731
    return begun() + b"".join(begin(2 * number + 1) for number in range(500))


def unread(host: str) -> bytes:
    """Returns calls whose responses have no flow-control window."""
    from .neighbours import MESSAGE
    one = lambda stream: frames.call(stream, frames.INFER, host) + frames.data(stream, MESSAGE)  # noqa: E731
    return begun(window=0) + b"".join(one(2 * number + 1) for number in range(100))


BOTH, HTTP, GRPC, ANY = ("http", "grpc"), ("http",), ("grpc",), ("http", "grpc", "admin")
CRAWL = 29.0

ATTACKS = [
    Attack("1 MiB of empty inputs", GRPC, 8, again(rpc(frames.INFER, EMPTY_INPUTS))),
    Attack("1 MiB of empty inputs on a stream", GRPC, 8, again(rpc(frames.STREAM, EMPTY_INPUTS))),
    Attack("packed message of 200 MiB", GRPC, 8, again(rpc(frames.INFER, BOMB, ("grpc-encoding", "gzip")))),
    Attack("control body of 1 GiB", HTTP, 8, endless_control),
    Attack("body in one-byte chunks", HTTP, 8,
           again(lambda host: post(INFER, "Transfer-Encoding: chunked")(host) + CHUNKS)),
    Attack("body in one-byte frames", BOTH, 8, again(rpc(frames.INFER, EMPTY_INPUTS[:100_000], step=1))),
    Attack("silent connections", ANY, 64, hold(lambda host: b"")),
    Attack("half a preface", ANY, 64, hold(lambda host: frames.MAGIC[:10])),
    Attack("preface only", ANY, 64, hold(lambda host: frames.preface())),
    Attack("pings only", ANY, 64, hold(lambda host: frames.preface(), PING, 0.1)),
    Attack("body of one byte each 29 s", HTTP, 64, hold(post(INFER, "Content-Length: 100000"), b"1", CRAWL)),
    Attack("long bodies without their last byte", HTTP, 16, hold(stopped)),
    Attack("message of one byte each 29 s", GRPC, 64,
           hold(rpc(frames.INFER, b"\0\0\x01\0\0", last=False), frames.data(1, b"1", False), CRAWL)),
    Attack("peers that are gone", BOTH, 32, vanish),
    Attack("heads without end", ANY, 16, again(endless_head, 1.0)),
    Attack("many connections of one address", ANY, 16, crowd),
    Attack("heads of CONTINUATION frames without end", GRPC, 8, again(continuation, 1.0)),
    Attack("headers by a table of one byte each", GRPC, 8, again(table_bomb, 1.0)),
    Attack("calls reset at once", GRPC, 4, again(resets, 1.0)),
    Attack("calls given up once they are sent", GRPC, 8, give_up),
    Attack("messages of 2 GiB announced", GRPC, 4, again(promises, 2.0)),
    Attack("answers without a window", GRPC, 4, hold(unread)),
]


# Issuers of tokens that gateways with access control trust, and tokens of many clients; set before an attack starts.
issuers, names = None, []


def guessed() -> str:
    """Returns a key that nobody has. Its id is that of the attacker's key, if there is one, so that its digest is computed.
    """
    identifier = frames.key.split("_")[1] if frames.key else os.urandom(8).hex()
    return f"weir_{identifier}_{os.urandom(32).hex()}"


def with_credential(host: str, credential: str, path: str = "/v2/models/add_sub") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {credential}\r\n\r\n".encode()


def flood(credential: Callable, path: str = "/v2/models/add_sub") -> Callable:
    """Returns an attack that sends requests without waiting for their answers, fifty at a time."""

    async def act(port: int, host: str, end: float) -> None:
        while time.monotonic() < end:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(SOURCE, 0))
            ended = asyncio.ensure_future(swallow(reader, end - time.monotonic()))
            try:
                while time.monotonic() < end and not ended.done():
                    writer.write(b"".join(with_credential(host, credential(), path) for _ in range(50)))
                    await asyncio.wait_for(writer.drain(), 20)
                    await asyncio.sleep(0.001)
            except (ConnectionError, asyncio.TimeoutError):
                pass
            finally:
                ended.cancel()
                writer.close()

    return act


def guesses_over_grpc(host: str) -> bytes:
    """Returns calls with wrong keys."""
    one = lambda stream: (frames.frame(  # noqa: E731
        frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream,
        frames.fields((":method", "POST"), (":scheme", "http"), (":path", frames.INFER), (":authority", host),
                      ("content-type", "application/grpc"), ("te", "trailers"), ("x-api-key", guessed()))))
    return begun() + b"".join(one(2 * number + 1) for number in range(90))


def some_name() -> str:
    return names[int.from_bytes(os.urandom(4), "big") % len(names)]


# Attacks on access control itself.
ON_ACCESS = [
    Attack("wrong keys without a pause", HTTP, 16, flood(guessed)),
    Attack("wrong keys over gRPC without a pause", GRPC, 8, again(guesses_over_grpc, 0.2)),
    Attack("tokens with heads of 50 KiB", HTTP, 16, flood(lambda: issuers.token(kid="k" * 38_000))),
    Attack("tokens of unknown keys", HTTP, 32, flood(lambda: issuers.token(kid=os.urandom(9).hex()))),
    Attack("tokens of an issuer that is slow", HTTP, 32, flood(lambda: issuers.token(kind="slow"))),
    Attack("tokens of an issuer with a key set without end", HTTP, 32, flood(lambda: issuers.token(kind="huge"))),
    Attack("ten thousand clients, each refused", HTTP, 16, flood(some_name, "/v2/models/add_sub/infer")),
    Attack("ten thousand clients, each served", HTTP, 4, flood(some_name)),
]


def run(attack: Attack, port: int, host: str, seconds: float, key) -> None:
    frames.key = key
    # An attacker would use other machines, so the attack leaves the CPU to the servers.
    os.nice(10)

    async def all_of() -> None:
        end = time.monotonic() + seconds
        acts = [asyncio.wait_for(attack.act(port, host, end), seconds + 1) for _ in range(attack.connections)]
        await asyncio.gather(*acts, return_exceptions=True)

    asyncio.run(all_of())


def start(attack: Attack, port: int, host: str, seconds: float, key=None) -> multiprocessing.Process:
    """Starts an attack whose requests have this API key."""
    arguments = (attack, port, host, seconds, key)
    process = multiprocessing.get_context("fork").Process(target=run, args=arguments, daemon=True)
    process.start()
    return process
