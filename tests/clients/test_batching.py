"""Batching under load but not for a lone client; queue limits, timeouts, priorities, order."""

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2_grpc

import samples
import test_perf_analyzer as perf
from adapters import connect
from stopwatch import Stopwatch
from test_grpc import message
from wire import request, tensor

# Errors of timeouts: of a request that expired in the queue, and of one that was refused because it would expire.
EXPIRED = ("Request timeout expired", "predicted wait")

# Absolute tolerance: another batch size may add the 512 products of a sum in another order.
TOLERANCE = 1e-5


def number(value: int, **parameters) -> dict:
    more = {"parameters": parameters} if parameters else {}
    return request(tensor("INPUT0", "INT32", [1, 1], [value]), **more)


def together(server, model: str, bodies: list) -> list:
    """Sends all bodies at once, each on its own connection; returns the replies in the order of the bodies."""
    barrier = threading.Barrier(len(bodies))

    def ask(body):
        barrier.wait()
        return server.infer(model, body)

    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(ask, bodies))


def expired(message: str) -> bool:
    return any(text in message for text in EXPIRED)


class Change:
    """The change of a model's statistics since this object was created."""

    def __init__(self, server, model: str):
        self.server, self.model = server, model
        self.before = server.statistics(model)

    def of(self, key: str) -> int:
        return self.server.statistics(self.model)[key] - self.before[key]

    def batches(self) -> dict[int, int]:
        """Returns the number of executions by batch size."""
        sizes = counts(self.server.statistics(self.model))
        for size, count in counts(self.before).items():
            sizes[size] -= count
        return {size: count for size, count in sizes.items() if count}


def counts(statistics: dict) -> dict[int, int]:
    return {row["batch_size"]: row["compute_infer"]["count"] for row in statistics["batch_stats"]}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_32_clients_on_digits_are_batched_and_get_their_own_outputs(server, protocol, tmp_path):
    """28 of the clients are perf_analyzer's, because 32 clients in Python are too slow to keep the model busy. The
    other four compare every output with that of a lone request."""
    images = [image for image, _ in samples.digits().values()]
    alone = [connect("http", server).infer("digits", {"image": i}).as_numpy("logits") for i in images]
    change = Change(server, "digits")
    with ThreadPoolExecutor() as pool:
        load = pool.submit(perf.analyze, server, tmp_path, "digits", protocol, *LOAD)
        workers = [pool.submit(greatest_difference, server, protocol, images, alone, load) for _ in range(4)]
        load.result()
        differences = [worker.result() for worker in workers]
    inferred, batches = change.of("inference_count"), change.batches()
    assert all(compared > 20 and worst <= TOLERANCE for compared, worst in differences), differences
    assert inferred > 1000
    # The mean is over inferences and not over batches, because the four clients are alone while perf_analyzer starts
    # and ends.
    shared = sum(size * size * count for size, count in batches.items()) / inferred
    assert shared >= 8, (inferred, shared, batches)


# Two measurement windows of one second with 28 concurrent requests.
LOAD = ("--concurrency-range", "28", "-p", "1000")


def greatest_difference(server, protocol: str, images, alone, load) -> tuple[int, float]:
    """Infers until the load has ended. Returns the number of compared outputs and the largest difference."""
    client = connect(protocol, server)
    compared, worst = 0, 0.0
    while not load.done():
        n = compared % len(images)
        got = client.infer("digits", {"image": images[n]}).as_numpy("logits")
        worst = max(worst, float(np.abs(got - alone[n]).max()))
        compared += 1
    client.close()
    return compared, worst


def test_lone_client_does_not_wait_for_a_batch(server):
    # On an idle device the wait is a hand-over between threads, which takes microseconds. A busy machine adds some, and
    # a paused machine adds seconds, but hardly to each of five rounds.
    assert min(mean_wait(server) for _ in range(5)) < 0.002


def mean_wait(server) -> float:
    """Returns the mean queue time of 50 requests of a lone client, in seconds."""
    image, _ = next(iter(samples.digits().values()))
    row = tensor("image", "FP32", [1, 1, 8, 8], image.flatten().tolist())
    change = Change(server, "digits")
    queued = change.before["inference_stats"]["queue"]["ns"]
    for _ in range(50):
        assert server.infer("digits", request(row)).status == 200
    assert change.batches() == {1: 50}
    waited = server.statistics("digits")["inference_stats"]["queue"]["ns"] - queued
    return waited / 50 / 1e9


def test_requests_queued_while_the_device_is_busy_run_as_one_batch(server):
    change = Change(server, "dyn_plain")
    answers = together(server, "dyn_plain", [number(n) for n in range(17)])
    assert [a.outputs()["OUTPUT0"]["data"] for a in answers] == [[n] for n in range(17)]
    assert change.of("inference_count") == 17
    # The first requests run alone or nearly so; those that arrive meanwhile fit in two or three batches of 8.
    assert change.of("execution_count") <= 5, change.batches()


def test_batches_never_exceed_the_limit(server):
    change = Change(server, "dyn_plain")
    body = request(tensor("INPUT0", "INT32", [3, 1], [1, 2, 3]))
    answers = together(server, "dyn_plain", [body] * 12)
    assert all(a.outputs()["OUTPUT0"]["data"] == [1, 2, 3] for a in answers)
    assert change.of("inference_count") == 36
    assert max(change.batches()) <= 8


def test_requests_of_different_shape_do_not_share_a_batch_but_are_both_answered(server):
    bodies = [
        request(tensor("INPUT0", "INT32", [1, 1 + n % 2], [n] * (1 + n % 2))) for n in range(16)
    ]
    change = Change(server, "dyn_shapes")
    answers = together(server, "dyn_shapes", bodies)
    assert [a.outputs()["OUTPUT0"]["data"] for a in answers] == [[n] * (1 + n % 2) for n in range(16)]
    # Batches are grouped by shape, in whatever order requests arrive, so there are far fewer executions than requests.
    assert change.of("execution_count") <= 7, change.batches()


def test_lengths_in_one_bucket_share_a_batch(server):
    def body(length: int) -> dict:
        return request(
            tensor("tokens", "INT64", [1, length], [1] * length),
            tensor("mask", "FP32", [1, length], [1] * length),
        )

    lengths = [5, 6, 7, 8] * 8
    expected = server.infer("ragged", body(1)).outputs()["embedding"]["data"]
    answers = together(server, "ragged", [body(length) for length in lengths])
    for length, answer in zip(lengths, answers):
        outputs = answer.outputs()
        assert outputs["per_token"]["shape"] == [1, length, 4]
        np.testing.assert_allclose(outputs["embedding"]["data"], expected, atol=TOLERANCE)


def test_delay_batches_requests_that_arrive_within_it(server):
    change = Change(server, "dyn_delay")
    answers = together(server, "dyn_delay", [number(n) for n in range(4)])
    assert [a.outputs()["OUTPUT0"]["data"] for a in answers] == [[n] for n in range(4)]
    assert change.batches() == {4: 1}


def test_delay_ends_when_the_batch_is_full(server):
    stopwatch = Stopwatch()
    change = Change(server, "dyn_delay")
    together(server, "dyn_delay", [number(n) for n in range(8)])
    assert change.batches() == {8: 1}
    assert stopwatch.seconds() < 0.4


def test_lone_request_waits_for_the_whole_configured_delay(server):
    started, stopwatch = time.monotonic(), Stopwatch()
    assert server.infer("dyn_delay", number(1)).status == 200
    assert time.monotonic() - started > 0.35
    assert stopwatch.seconds() < 2


@pytest.mark.parametrize("count", [2, 6])
def test_preferred_size_runs_at_once(server, count):
    change = Change(server, "dyn_pref")
    rows = request(tensor("INPUT0", "INT32", [count, 1], list(range(count))))
    stopwatch = Stopwatch()
    assert server.infer("dyn_pref", rows).outputs()["OUTPUT0"]["data"] == list(range(count))
    assert stopwatch.seconds() < 1.5
    assert change.batches() == {count: 1}


def test_size_that_is_not_preferred_waits_for_the_delay(server):
    change = Change(server, "dyn_pref")
    started = time.monotonic()
    bodies = [number(1), request(tensor("INPUT0", "INT32", [3, 1], [1, 2, 3]))]
    assert all(a.status == 200 for a in together(server, "dyn_pref", bodies))
    assert time.monotonic() - started > 1.8
    assert change.batches() == {4: 1}


def test_full_queue_refuses_at_once(server):
    """Eight requests wait and, at the latest once a busy machine has got that far, 2 are prepared and 2 run. Further
    ones are answered only when a batch has ended, while some requests have not arrived yet or a gateway sends them
    again."""
    barrier = threading.Barrier(32)

    def ask(n: int):
        barrier.wait()
        reply = server.infer("dyn_queue", number(n))
        return n, reply, time.monotonic()

    with ThreadPoolExecutor(32) as pool:
        results = list(pool.map(ask, range(32)))
    good = [(n, reply, ended) for n, reply, ended in results if reply.status == 200]
    bad = [(reply, ended) for _, reply, ended in results if reply.status != 200]
    assert all(reply.outputs()["OUTPUT0"]["data"] == [n] for n, reply, _ in good)
    came = [ended - server_seconds(reply) for _, reply, ended in results]
    refused = [ended for _, ended in bad]
    batches = 2 + int((max(came + refused) - min(came)) / SECONDS_OF_A_BATCH)
    assert 8 <= len(good) <= 12 + 2 * batches
    assert bad or batches > 10
    # Requests were refused while others ran, not after the queue was empty again.
    assert min(refused, default=0) < max(ended for *_, ended in good)
    for reply, _ in bad:
        assert reply.status == 503
        assert "Exceeds maximum queue size" in reply.error()
        assert int(reply.headers["retry-after"]) >= 0


# Time of a batch of dyn_queue, as set in its configuration.
SECONDS_OF_A_BATCH = 0.2


def server_seconds(reply) -> float:
    """Returns the time for which the servers had the request, as reported by their header."""
    parts = re.findall(r"dur=([\d.]+)", reply.headers.get("server-timing", ""))
    return sum(map(float, parts)) / 1000


def test_full_queue_over_grpc_is_resource_exhausted(server):
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        body = message("dyn_queue", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}))
        calls = [stub.ModelInfer.future(body) for _ in range(24)]
        codes = [call.code() for call in calls]
        refused = [call for call in calls if call.code() != grpc.StatusCode.OK]
    assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert all("Exceeds maximum queue size" in call.details() for call in refused)


def test_refusals_are_marked_for_gateways(server):
    barrier = threading.Barrier(24)

    def ask(n: int):
        barrier.wait()
        return server.infer("dyn_queue", number(n))

    with ThreadPoolExecutor(24) as pool:
        bad = [reply for reply in pool.map(ask, range(24)) if reply.status != 200]
    assert bad and all(reply.headers["weir-refused"] == "1" for reply in bad)
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        body = message("dyn_queue", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}))
        calls = [stub.ModelInfer.future(body) for _ in range(24)]
        refused = [call for call in calls if call.code() != grpc.StatusCode.OK]
    assert refused and all(("weir-refused", "1") in call.trailing_metadata() for call in refused)


def test_queue_timeout_rejects_promptly(server):
    stopwatch = Stopwatch()
    ends = []

    def ask(n: int):
        reply = server.infer("dyn_timeout", number(n))
        ends.append((reply.status, stopwatch.seconds()))
        return reply

    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(ask, range(8)))
    assert all(expired(r.error()) for r in replies if r.status != 200)
    assert {r.status for r in replies} == {200, 503}
    # The queue timeout is 100 ms; Triton notices it up to 500 ms later.
    assert all(seconds < 0.4 for status, seconds in ends if status == 503), ends


def test_queue_timeout_over_grpc(server):
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        body = message("dyn_timeout", ("INPUT0", "INT32", [1, 1], {"int_contents": [1]}))
        calls = [stub.ModelInfer.future(body) for _ in range(6)]
        refused = [call for call in calls if call.code() != grpc.StatusCode.OK]
        assert refused
        for call in refused:
            late = "Request timeout expired" in call.details()
            assert late or "predicted wait" in call.details()
            code = grpc.StatusCode.UNAVAILABLE if late else grpc.StatusCode.RESOURCE_EXHAUSTED
            assert call.code() == code


def test_timeout_of_a_request_shortens_the_default_but_does_not_stretch_it(server):
    """The instance is never idle. A request that may wait for 20 ms is refused before a batch of 300 ms ends, and a
    timeout of 60 s does not extend the configured 100 ms."""
    done = threading.Event()

    def keep_busy():
        while not done.is_set():
            server.infer("dyn_timeout", number(0))

    with ThreadPoolExecutor(6) as pool:
        busy = [pool.submit(keep_busy) for _ in range(6)]
        try:
            for timeout, most in ((20_000, 0.1), (60_000_000, 0.25)):
                sentence, took = refusal(server, timeout)
                assert expired(sentence) and took < most
        finally:
            done.set()
        for future in busy:
            future.result()


def refusal(server, timeout: int) -> tuple[str, float]:
    """Sends requests until one is refused, because sometimes one arrives just when the instance is free."""
    for _ in range(30):
        stopwatch = Stopwatch()
        reply = server.infer("dyn_timeout", number(2, timeout=timeout))
        if reply.status == 503:
            return reply.error(), stopwatch.seconds()
    raise AssertionError("never refused")


def test_timeout_action_delay_serves_late_instead(server):
    replies = together(server, "dyn_timeout_delay", [number(n) for n in range(4)])
    assert [r.outputs()["OUTPUT0"]["data"] for r in replies] == [[n] for n in range(4)]


def test_timeout_of_a_request_needs_no_configured_policy(server):
    with ThreadPoolExecutor(12) as pool:
        busy = [pool.submit(server.infer, "slow", request(tensor("INPUT0", "INT32", [8, 1], [1] * 8)))
                for _ in range(3)]
        server.wait_for_pending("slow", 2)
        stopwatch = Stopwatch()
        reply = server.infer("slow", number(2, timeout=50_000))
        assert stopwatch.seconds() < 0.4
        assert reply.status == 503 and expired(reply.error())
        assert all(future.result().status == 200 for future in busy)


def test_higher_priority_runs_first(server):
    """A request of level 1 that arrives after a queue of level 3 is answered among the next."""
    order, lock = [], threading.Lock()

    def ask(n: int, priority: int):
        reply = server.infer("dyn_priority", number(n, priority=priority))
        with lock:
            order.append(n)
        return reply.status

    with ThreadPoolExecutor(16) as pool:
        low = [pool.submit(ask, n, 3) for n in range(14)]
        server.wait_for_pending("dyn_priority", 6)
        before = len(order)
        high = pool.submit(ask, 100, 1)
        assert high.result() == 200
        assert all(future.result() == 200 for future in low)
    assert order.index(100) - before <= 4, order


def test_priority_out_of_range_means_the_default(server):
    assert server.infer("dyn_priority", number(1, priority=99)).outputs()["OUTPUT0"]["data"] == [1]
    assert server.infer("dyn_priority", number(1, priority=0)).outputs()["OUTPUT0"]["data"] == [1]


def test_order_is_preserved_over_two_instances(server):
    """Requests sent on one connection without waiting are answered in the order in which they were sent."""
    finished = []
    with grpc.insecure_channel(server.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        calls = []
        for n in range(30):
            body = message("dyn_order", ("INPUT0", "INT32", [1, 1], {"int_contents": [n]}), id=str(n))
            calls.append(stub.ModelInfer.future(body))
        answers = [call.result() for call in calls]
        finished = [int(np.frombuffer(a.raw_output_contents[0], "<i4")[0]) for a in answers]
    assert finished == list(range(30))


def test_invalid_request_does_not_fail_others_in_its_batch(server):
    good = request(tensor("INPUT0", "FP32", [1, 4], [1, 2, 3, 4]))
    bad = request(tensor("INPUT0", "FP32", [1, 4], [1, -2, 3, 4]))
    replies = together(server, "fail", [good, bad, good, good])
    assert [reply.status for reply in replies] == [200, 500, 200, 200]
    assert "negative input is not allowed" in replies[1].error()
    assert all(r.outputs()["OUTPUT0"]["data"] == [2, 4, 6, 8] for r in replies if r.status == 200)


def test_two_instances_run_in_parallel(server):
    change = Change(server, "dyn_order")
    stopwatch = Stopwatch()
    together(server, "dyn_order", [number(n) for n in range(20)])
    # 20 batches of 20 ms take 0.4 s on one instance and half of that on two, which leaves time for a busy machine.
    assert change.of("execution_count") == 20
    assert stopwatch.seconds() < 0.39
