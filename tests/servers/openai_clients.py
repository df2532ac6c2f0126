"""OpenAI's client, LangChain and LiteLLM, unchanged, at one base_url over several services: `openai_clients.py BASE_URL
CHATS [EMBEDDINGS]`, each with commas, in the environment `clients`. Prints a line for each check."""

import sys
import time

from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from litellm import completion, embedding
from openai import BadRequestError, NotFoundError, OpenAI

MESSAGES = [{"role": "user", "content": "Say something."}]


def check_chats(client: OpenAI, chats: list[str]) -> None:
    for chat in chats:
        answer = client.chat.completions.create(model=chat, messages=MESSAGES, max_tokens=8, temperature=0)
        assert answer.choices[0].message.content and answer.usage.completion_tokens == 8, answer
    print("openai: chat")


def check_list(client: OpenAI, names: list[str]) -> None:
    listed = [model.id for model in client.models.list()]
    assert sorted(listed) == sorted(names), listed
    print("openai: models")


def check_errors(client: OpenAI) -> None:
    try:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
        raise AssertionError("an unknown model is an error")
    except NotFoundError as error:
        assert error.code == "model_not_found" and error.type == "invalid_request_error", error.body
    try:
        client.post("/chat/completions", body={"messages": MESSAGES}, cast_to=object)
        raise AssertionError("a request without a model is an error")
    except BadRequestError as error:
        assert error.type == "invalid_request_error" and "model" in error.message, error.body
    print("openai: errors")


def check_stream(client: OpenAI, chat: str) -> None:
    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model=chat, messages=MESSAGES, max_tokens=64, temperature=0, stream=True, stream_options=options
    )
    times, usage = [], None
    for chunk in stream:
        times.append(time.monotonic())
        usage = chunk.usage or usage
    assert len(times) > 60 and usage.completion_tokens == 64, (len(times), usage)
    assert times[-1] > times[0], "the answer arrived in one piece"
    print("openai: stream with usage")


def check_responses(client: OpenAI, chat: str) -> None:
    common = {"model": chat, "input": "Say something.", "max_output_tokens": 8}
    # The server of transformers streams unless a request says that it should not.
    answer = client.responses.create(stream=False, **common)
    assert answer.output_text, answer
    kinds = [event.type for event in client.responses.create(stream=True, **common)]
    assert kinds[0] == "response.created" and "response.output_text.delta" in kinds, kinds
    print("openai: responses")


def check_langchain(url: str, chat: str) -> None:
    model = ChatOpenAI(model=chat, base_url=url, api_key="unused", max_tokens=8)
    assert model.invoke("Say something.").content
    assert len(list(model.stream("Say something."))) > 4
    print("langchain: invoke, stream")


def check_litellm(url: str, chat: str) -> None:
    common = {"model": f"openai/{chat}", "messages": MESSAGES, "max_tokens": 8, "api_base": url, "api_key": "unused"}
    assert completion(**common).choices[0].message.content
    assert sum(1 for _ in completion(stream=True, **common)) > 4
    print("litellm: completion, stream")


def check_embeddings(client: OpenAI, url: str, name: str) -> None:
    vectors = client.embeddings.create(model=name, input=["one", "two"]).data
    assert [len(vector.embedding) for vector in vectors] == [64, 64]
    chain = OpenAIEmbeddings(model=name, base_url=url, api_key="unused", check_embedding_ctx_length=False)
    assert len(chain.embed_query("one")) == 64
    common = {"api_base": url, "api_key": "unused", "encoding_format": "float"}
    assert len(embedding(model=f"openai/{name}", input=["one"], **common).data[0]["embedding"]) == 64
    print("openai, langchain, litellm: embeddings")


def main() -> None:
    url, chats, embeddings = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    client = OpenAI(base_url=url, api_key="unused", timeout=200)
    check_list(client, [*chats, *embeddings])
    check_chats(client, chats)
    check_stream(client, chats[0])
    check_responses(client, chats[0])
    check_errors(client)
    check_langchain(url, chats[0])
    check_litellm(url, chats[-1])
    for name in embeddings:
        check_embeddings(client, url, name)
    print("all")


if __name__ == "__main__":
    main()
