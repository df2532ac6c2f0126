"""Model servers of others behind `weir up`. The tests of a server run in this order, and share its process."""

import threading
import time

import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton_grpc

from served import Served, at_once
from server import wait_until


def needs(value, what: str) -> None:
    if not value:
        pytest.skip(f"the server has no {what}")


def test_it_becomes_ready_and_answers(served: Served) -> None:
    # The first request waits until the server is ready.
    first = served.call(served.case.infer)
    assert first.headers["weir-revision"] == "models-predictor-00001"
    served.wait_ready()
    assert all(reply.status == 200 for reply in at_once(8, lambda: served.call(served.case.infer)))


def test_it_answers_v2_over_grpc(served: Served) -> None:
    model = served.case.grpc_model
    needs(model, "gRPC API of V2")
    client = served.grpc()
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
    assert client.get_model_metadata(model).name == model
    names = {"INT32": np.int32, "FP64": np.float64}
    inputs = []
    for row in served.case.infer.body["inputs"]:
        one = triton_grpc.InferInput(row["name"], row["shape"], row["datatype"])
        one.set_data_from_numpy(np.array(row["data"], names[row["datatype"]]).reshape(row["shape"]))
        inputs.append(one)
    answer = client.infer(model, inputs, client_timeout=60)
    assert answer.get_response().model_name == model
    rows = [{"name": row.name, "data": answer.as_numpy(row.name).ravel().tolist()} for row in answer.get_response().outputs]
    served.case.infer.check({"outputs": rows})


def test_a_grpc_stream_arrives_in_pieces(served: Served) -> None:
    model = served.case.grpc_stream_model
    needs(model, "model that answers with a stream")
    client, arrived = served.grpc(), []
    client.start_stream(lambda result, error: arrived.append((time.monotonic(), result, error)))
    one = triton_grpc.InferInput("INPUT", [4], "INT32")
    one.set_data_from_numpy(np.array([3, 1, 4, 1], np.int32))
    client.async_stream_infer(model, [one])
    wait_until(lambda: len(arrived) == 4, 30, "four responses")
    client.stop_stream()
    assert [int(result.as_numpy("OUTPUT")[0]) for _, result, _ in arrived] == [3, 1, 4, 1]
    # The server waits 0.1 s before each.
    assert arrived[3][0] - arrived[0][0] > 0.2


def test_a_stream_of_events_arrives_in_pieces(served: Served) -> None:
    needs(served.case.stream, "stream of events")
    times = served.pieces(served.case.stream)
    assert len(times) >= 4 and times[-1] > 0, times
    assert served.server.metric("weir_revision_first_byte_seconds_count") >= 1


def test_its_own_metrics_are_at_its_port(served: Served) -> None:
    needs(served.case.metric, "metrics")
    assert served.case.metric in served.own_metrics()


def test_requests_that_wait_inside_it_count_as_queued(served: Served) -> None:
    works_on = served.case.works_on
    needs(works_on, "gauge of its queue")
    # A measured limit may leave all that wait in the gateway.
    served.apply(containerConcurrency=works_on + 4)
    threads = [threading.Thread(target=served.call, args=(served.case.slow,)) for _ in range(works_on + 4)]
    for thread in threads:
        thread.start()
    try:
        # The gateway sends all, and counts only those as in flight on which the server works.
        inside = lambda: served.waiting_inside() >= 1 and served.in_flight() == works_on
        wait_until(inside, 60, "requests inside the server are queued")
    finally:
        for thread in threads:
            thread.join()
    wait_until(lambda: (served.queued(), served.in_flight()) == (0, 0), 60, "nothing is queued")
    served.apply()


def test_no_answer_is_lost_when_it_is_killed(served: Served) -> None:
    stop, failures, answers = threading.Event(), [], []

    def client() -> None:
        while not stop.is_set():
            try:
                answers.append(served.call(served.case.infer))
            except Exception as error:  # Any failure is counted, and shown by the test.
                failures.append(error)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) > 20, 60, "twenty answers")
    former = served.processes()
    former[0].kill()
    before = len(answers)
    wait_until(lambda: len(answers) > before + 20, served.case.start, "answers of the next process")
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    gone, alive = psutil.wait_procs(former, timeout=30)
    assert not alive, f"processes of the killed server still run: {alive}"


def test_it_sleeps_at_zero_and_wakes(served: Served) -> None:
    served.apply(minReplicas=0, annotations={"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "2s"})
    wait_until(lambda: not served.processes(), 30, "no replica runs")
    served.call(served.case.infer)
    assert served.processes()


def test_a_canary_gets_its_share(served: Served) -> None:
    served.apply(canaryTrafficPercent=50, env={"REVISION": "2"})
    seen = set()

    def both() -> bool:
        seen.add(served.call(served.case.infer).headers["weir-revision"])
        return len(seen) == 2

    wait_until(both, served.case.start, "both revisions answer")
    assert seen == {"models-predictor-00001", "models-predictor-00002"}
    served.apply(env={"REVISION": "2"}, annotations={"weir.dev/rollback-window": "1s"})

    def only_newest() -> bool:
        return all(served.call(served.case.infer).headers["weir-revision"].endswith("2") for _ in range(20))

    wait_until(only_newest, 60, "only the second revision answers")


def test_requests_in_flight_end_before_it_does(served: Served) -> None:
    replies = []
    thread = threading.Thread(target=lambda: replies.append(served.call(served.case.slow)))
    thread.start()
    wait_until(lambda: served.in_flight() >= 1 or replies, 60, "the request is in flight")
    processes = served.processes()
    served.server.terminate()
    thread.join()
    assert served.server.exit_code(60) == 0
    assert replies[0].status == 200
    gone, alive = psutil.wait_procs(processes, timeout=30)
    assert not alive, f"processes of the server still run: {alive}"
