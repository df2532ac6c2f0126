"""A server with the part of OpenAI's API that a test needs: `openai_server.py PORT`. Each answer is of 500 tokens."""

import json
import sys

import uvicorn

USAGE = {"prompt_tokens": 100, "completion_tokens": 400, "total_tokens": 500}
WORDS = ["a", " b", " c"]


def answer(model, **more) -> dict:
    return {"id": "chat-1", "created": 1, "model": model, **more}


def whole(model) -> dict:
    message = {"role": "assistant", "content": "".join(WORDS)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return answer(model, object="chat.completion", choices=choices, usage=USAGE)


def pieces(model, has_usage):
    """Yields the events of a stream, of which the last one has the usage if the client asked for it."""
    for word in WORDS:
        choices = [{"index": 0, "delta": {"content": word}, "finish_reason": None}]
        yield json.dumps(answer(model, object="chat.completion.chunk", choices=choices))
    if has_usage:
        yield json.dumps(answer(model, object="chat.completion.chunk", choices=[], usage=USAGE))
    yield "[DONE]"


async def body_of(receive) -> dict:
    body, message = b"", {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    return json.loads(body or b"{}")


async def app(scope, receive, send) -> None:
    if scope["type"] != "http":
        return
    asked = await body_of(receive)
    is_stream, model = asked.get("stream", False), asked.get("model")
    kind = b"text/event-stream" if is_stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    if is_stream:
        for event in pieces(model, asked.get("stream_options", {}).get("include_usage", False)):
            await send({"type": "http.response.body", "body": f"data: {event}\n\n".encode(), "more_body": True})
    else:
        await send({"type": "http.response.body", "body": json.dumps(whole(model)).encode(), "more_body": True})
    await send({"type": "http.response.body"})


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off")
