"""OpenAI's client, LangChain and LiteLLM, unchanged, at one base_url over several services: `openai_clients.py BASE_URL
CHAT... EMBEDDINGS`, in the environment `clients`. Prints a line for each check."""

import sys
import time

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from litellm import completion, embedding
from openai import NotFoundError, OpenAI

MESSAGES = [{"role": "user", "content": "Say something."}]


def check_openai(client: OpenAI, chats: list[str], embeddings: str) -> None:
    assert {model.id for model in client.models.list()} >= {*chats, embeddings}
    for chat in chats:
        answer = client.chat.completions.create(model=chat, messages=MESSAGES, max_tokens=8)
        assert answer.choices[0].message.content and answer.usage.completion_tokens == 8
    vector = client.embeddings.create(model=embeddings, input=["one", "two"]).data
    assert len(vector) == 2 and len(vector[0].embedding) == 64
    try:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
        raise AssertionError("an unknown model is an error")
    except NotFoundError as error:
        assert error.code == "model_not_found"
    print("openai: models, chat, embeddings, unknown model")


def check_stream(client: OpenAI, chat: str) -> None:
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model=chat, messages=MESSAGES, max_tokens=24, stream=True, stream_options=options
    )
    times, usage = [], None
    for chunk in stream:
        times.append(time.monotonic())
        usage = chunk.usage or usage
    assert len(times) > 20 and usage.completion_tokens == 24
    print("openai: stream with usage")


def check_langchain(url: str, chat: str, embeddings: str) -> None:
    model = ChatOpenAI(model=chat, base_url=url, api_key="unused", max_tokens=8)
    assert model.invoke("Say something.").content
    assert len(list(model.stream("Say something."))) > 4
    vectors = OpenAIEmbeddings(model=embeddings, base_url=url, api_key="unused", check_embedding_ctx_length=False)
    assert len(vectors.embed_query("one")) == 64
    print("langchain: invoke, stream, embeddings")


def check_litellm(url: str, chat: str, embeddings: str) -> None:
    common = {"api_base": url, "api_key": "unused"}
    answer = completion(model=f"openai/{chat}", messages=MESSAGES, max_tokens=8, **common)
    assert answer.choices[0].message.content
    assert sum(1 for _ in completion(model=f"openai/{chat}", messages=MESSAGES, max_tokens=8, stream=True, **common)) > 4
    vectors = embedding(model=f"openai/{embeddings}", input=["one"], encoding_format="float", **common)
    assert len(vectors.data[0]["embedding"]) == 64
    print("litellm: completion, stream, embedding")


def main() -> None:
    url, *chats, embeddings = sys.argv[1:]
    client = OpenAI(base_url=url, api_key="unused", timeout=200)
    check_openai(client, chats, embeddings)
    check_stream(client, chats[0])
    check_langchain(url, chats[0], embeddings)
    check_litellm(url, chats[-1], embeddings)


if __name__ == "__main__":
    main()
