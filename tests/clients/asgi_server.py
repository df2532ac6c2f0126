"""A server as interactive tools have it, with WebSockets, long polls and server-sent events: `asgi_server.py PORT`."""

import asyncio
import sys

import uvicorn

# A page that uses the server as interactive tools do, and writes what it got. Its image is loaded once it is done, so that a
# browser that prints pages prints this one then.
PAGE = b"""<!doctype html><title>page</title><img src="image"><pre></pre><script>
const write = (...words) => { document.querySelector("pre").textContent += words.join(" ") + "\\n"; };
const socket = new WebSocket("ws", ["chat"]);
socket.binaryType = "arraybuffer";
socket.onopen = () => {
  write("open", socket.protocol);
  for (const message of ["Gr\\u00fc\\u00dfe", new Uint8Array(70000), "close"]) socket.send(message);
};
socket.onmessage = ({data}) => write("message", typeof data == "string" ? data : data.byteLength);
socket.onclose = async ({code, reason}) => {
  write("close", code, reason);
  write("poll", (await (await fetch("poll")).text()).split("\\n").length);
  await fetch("done");
};
</script>"""
DONE = asyncio.Event()


async def websocket(scope, receive, send) -> None:
    """Sends each message back, and closes with a code of its own when asked to."""
    await receive()
    await send({"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") == "close":
            return await send({"type": "websocket.close", "code": 4001, "reason": "asked to"})
        reply = {"type": "websocket.send", "text": message.get("text"), "bytes": message.get("bytes")}
        await send(reply)


async def app(scope, receive, send) -> None:
    if scope["type"] == "websocket":
        return await websocket(scope, receive, send)
    if scope["type"] != "http":
        return
    if scope["path"] == "/page":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        return await send({"type": "http.response.body", "body": PAGE})
    if scope["path"] == "/done":
        DONE.set()
    if scope["path"] == "/image":
        await DONE.wait()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    if scope["path"] == "/poll":
        await asyncio.sleep(1.5)
    for number in range(3):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
    await send({"type": "http.response.body"})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off")
