"""ModelStreamInfer: order, ids, errors inside the stream and as its end."""

import queue

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio

from test_grpc import message, stub  # noqa: F401


def number(value: int):
    row = grpc_client.InferInput("INPUT0", [1, 1], "INT32")
    row.set_data_from_numpy(np.array([[value]], dtype=np.int32))
    return row


def one(value: int, model="identity_int32", **more):
    contents = {"int_contents": [value]}
    return message(model, ("INPUT0", "INT32", [1, 1], contents), id=f"id-{value}", **more)


def value_of(answer) -> int:
    return int(np.frombuffer(answer.infer_response.raw_output_contents[0], "<i4")[0])


def test_responses_come_in_order_with_their_ids(server):
    answers = queue.Queue()
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for n in range(10):
            client.async_stream_infer("identity_int32", [number(n)], request_id=str(n))
        got = [answers.get(timeout=10) for _ in range(10)]
        client.stop_stream()
    assert [error for _, error in got] == [None] * 10
    assert [result.get_response().id for result, _ in got] == [str(n) for n in range(10)]
    assert [int(result.as_numpy("OUTPUT0")[0][0]) for result, _ in got] == list(range(10))


def test_order_is_kept_over_models_of_different_speed(stub):  # noqa: F811
    requests = [one(1, "slow"), one(2), one(3, "slow"), one(4)]
    answers = list(stub.ModelStreamInfer(iter(requests)))
    assert [value_of(answer) for answer in answers] == [1, 2, 3, 4]


def test_each_response_is_marked_final(stub):  # noqa: F811
    for answer in stub.ModelStreamInfer(iter([one(1), one(2)])):
        assert answer.infer_response.parameters["triton_final_response"].bool_param is True


def test_opting_in_to_empty_final_answers_changes_nothing(stub):  # noqa: F811
    from tritonclient.grpc import service_pb2 as pb

    wish = {"triton_enable_empty_final_response": pb.InferParameter(bool_param=True)}
    answers = list(stub.ModelStreamInfer(iter([one(5, parameters=wish)])))
    assert [value_of(answer) for answer in answers] == [5]


def test_error_leaves_the_stream_open(stub):  # noqa: F811
    answers = list(stub.ModelStreamInfer(iter([one(1), one(2, "nope"), one(3)])))
    assert [answer.infer_response.id for answer in answers] == ["id-1", "id-2", "id-3"]
    assert "Request for unknown model: 'nope' is not found" in answers[1].error_message
    assert (value_of(answers[0]), value_of(answers[2])) == (1, 3)
    assert answers[0].error_message == answers[2].error_message == ""
    assert answers[1].infer_response.parameters["triton_final_response"].bool_param is True


def test_error_repeats_the_request(stub):  # noqa: F811
    (answer,) = stub.ModelStreamInfer(iter([one(1, model_version="77")]))
    asked = answer.infer_response
    assert (asked.id, asked.model_name, asked.model_version) == ("id-1", "identity_int32", "77")
    assert answer.error_message == "Request for unknown model: 'identity_int32' version 77 is not found"


def test_error_ends_the_stream_when_asked_to(stub):  # noqa: F811
    bad = message("identity_int32", ("INPUT0", "INT32", [1, 1]))
    metadata = [("triton_grpc_error", "true")]
    answers = stub.ModelStreamInfer(iter([one(1), bad, one(3)]), metadata=metadata)
    got = []
    with pytest.raises(grpc.RpcError) as raised:
        for answer in answers:
            got.append(value_of(answer))
    assert raised.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "unable to find data for input tensor 'INPUT0'" in raised.value.details()
    assert got == [1]


def test_empty_stream(stub):  # noqa: F811
    assert list(stub.ModelStreamInfer(iter([]))) == []


def test_server_survives_a_cancelled_stream(server, stub):  # noqa: F811
    answers = stub.ModelStreamInfer(iter([one(n, "slow") for n in range(8)]))
    assert value_of(next(answers)) == 0
    answers.cancel()
    assert value_of(next(stub.ModelStreamInfer(iter([one(9)])))) == 9


def test_stop_stream_with_cancellation(server):
    answers = queue.Queue()
    with grpc_client.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for n in range(4):
            client.async_stream_infer("slow", [number(n)])
        client.stop_stream(cancel_requests=True)
        assert client.is_server_live()


def test_asyncio_stream(server):
    import asyncio

    async def ask():
        async def requests():
            for n in range(5):
                yield {"model_name": "identity_int32", "inputs": [number(n)], "request_id": str(n)}

        async with grpc_aio.InferenceServerClient(server.grpc) as client:
            return [
                (result.get_response().id, int(result.as_numpy("OUTPUT0")[0][0]), error)
                async for result, error in client.stream_infer(requests())
            ]

    assert asyncio.run(ask()) == [(str(n), n, None) for n in range(5)]


def test_two_streams_at_once(stub):  # noqa: F811
    first = stub.ModelStreamInfer(iter([one(n) for n in range(20)]))
    second = stub.ModelStreamInfer(iter([one(n + 100) for n in range(20)]))
    assert [value_of(answer) for answer in second] == list(range(100, 120))
    assert [value_of(answer) for answer in first] == list(range(20))
