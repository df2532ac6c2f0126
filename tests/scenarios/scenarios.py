"""The behaviour of a service for its users, written once and run on each bed. A bed declares and deletes services, and
reports their addresses and their state:

    apply(body)           declares the InferenceService
    delete()              deletes it
    is_ready()            returns true if its condition Ready is true
    http()                returns pairs of URL and headers, by name
    grpc()                returns pairs of address and authority, by name
    replicas()            returns the number of replicas, including starting and ending ones
    left()                returns the names of its remaining objects

`weir up` is the bed of local.py, the one-node cluster is that of kubernetes/walk.py.
"""

import copy
import functools

import numpy as np
import tritonclient.grpc as triton
import yaml
from asking import INFER, ROOT, SEVEN, Failure, Traffic, digit, expect, post, step, wait_until

IMAGE = ROOT / "examples/digits/inputs/digit-7-a.npy"
REVISION = "digits-predictor-{:05}"
SPLIT = 2000


def digits(**predictor):
    """Returns the InferenceService of examples/digits, with these fields of its predictor."""
    body = yaml.safe_load((ROOT / "examples/digits/service.yaml").read_text())
    body = copy.deepcopy(body)
    model = {**body["spec"]["predictor"]["model"], **predictor.pop("model", {})}
    body["spec"]["predictor"] |= {**predictor, "model": model}
    return body


def changed(**predictor):
    """Returns the same service with a changed pod, so that a new revision is needed."""
    return digits(model={"env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}, **predictor)


def url(bed):
    address, _ = next(iter(bed.http().values()))
    return address + INFER


def it_becomes_ready(bed):
    with step("an InferenceService, until it is ready"):
        bed.apply(digits())
        wait_until("Ready", 90, bed.is_ready)


def it_answers_over_http(bed):
    for name, (address, headers) in bed.http().items():
        with step(f"a request {name}"):
            expect("the digit", SEVEN, digit(post(address + INFER, headers=headers)[1]))


def it_answers_over_grpc(bed):
    for name, (address, authority) in bed.grpc().items():
        with step(f"tritonclient over gRPC {name}"):
            arguments = [("grpc.default_authority", authority)] if authority else None
            client = triton.InferenceServerClient(address, channel_args=arguments)
            image = triton.InferInput("image", [1, 1, 8, 8], "FP32")
            image.set_data_from_numpy(np.load(IMAGE).astype(np.float32).reshape(1, 1, 8, 8))
            expect("the digit", SEVEN, int(client.infer("digits", [image]).as_numpy("digit")[0, 0]))
            client.close()


def a_canary_takes_its_share_and_is_promoted(bed):
    infer = url(bed)
    with Traffic(infer) as traffic:
        with step("a canary of 20 %, until it takes traffic"):
            bed.apply(changed(canaryTrafficPercent=20))
            wait_until("the canary answers", 90, lambda: REVISION.format(2) in traffic.revisions)
        with step(f"{SPLIT} requests"):
            share = 100 * sum(post(infer)[0] == REVISION.format(2) for _ in range(SPLIT)) / SPLIT
        if not 17 <= share <= 23:
            raise Failure(f"the canary took {share} % of {SPLIT} requests")
        with step("promotion, until the canary takes all requests"):
            bed.apply(changed())
            wait_until("only the new revision answers", 60, lambda: all(post(infer)[0] == REVISION.format(2) for _ in range(50)))
    expect("failed requests", [], traffic.failures[:5])
    expect("Ready", True, bed.is_ready())


def it_is_deleted(bed):
    with step("deletion, until nothing is left"):
        bed.delete()
        wait_until("everything is deleted", 60, lambda: not bed.left())


def it_sleeps_and_wakes(bed):
    """Uses a new service, because one that was rolled out keeps its former revision for ten minutes."""
    body = digits()
    body["metadata"]["annotations"] = {"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "3s"}
    bed.apply(body)
    wait_until("Ready", 90, bed.is_ready)
    expect("the digit", SEVEN, digit(post(url(bed))[1]))
    with step("no requests, until no replica is left"):
        wait_until("no replicas", 180, lambda: bed.replicas() == 0)
    expect("Ready at zero", True, bed.is_ready())
    with step("a request to a service without replicas"):
        expect("the digit", SEVEN, digit(post(url(bed))[1]))


def on(bed, *scenarios):
    """Returns scenarios as parts of a run: without arguments, under their own names."""
    return [functools.wraps(scenario)(functools.partial(scenario, bed)) for scenario in scenarios]


ALL = (
    it_becomes_ready, it_answers_over_http, it_answers_over_grpc, a_canary_takes_its_share_and_is_promoted, it_is_deleted,
    it_sleeps_and_wakes, it_is_deleted,
)
