"""Inference with tritonclient's four clients: the same request has the same response."""

import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as http_client

import samples
import wire
from adapters import error_of, field

A = np.arange(16, dtype=np.float32)[None]
B = np.ones((1, 16), dtype=np.float32)


def arrays(dtype=np.float32, rows=1) -> dict:
    first = np.arange(16 * rows, dtype=dtype).reshape(rows, 16)
    return {"INPUT0": first, "INPUT1": np.ones((rows, 16), dtype=dtype)}


def check_add_sub(result, given, names=("OUTPUT0", "OUTPUT1")) -> None:
    first, second = given.values()
    np.testing.assert_array_equal(result.as_numpy(names[0]), first + second)
    np.testing.assert_array_equal(result.as_numpy(names[1]), first - second)


@pytest.mark.parametrize("rows", [1, 2, 8])
@pytest.mark.parametrize("model, dtype", [("add_sub", "float32"), ("add_sub_int32", "int32")])
def test_add_sub_of_a_batch(client, model, dtype, rows):
    given = arrays(np.dtype(dtype), rows)
    check_add_sub(client.infer(model, given), given)


def test_the_model_of_tritons_examples(client):
    given = arrays(np.int32)
    check_add_sub(client.infer("simple", given), given)


def test_tensors_named_by_index(client):
    given = {"INPUT__0": A, "INPUT__1": B}
    check_add_sub(client.infer("add_sub_by_index", given), given, ("OUTPUT__0", "OUTPUT__1"))


def test_inputs_in_the_other_order_are_matched_by_name(client):
    result = client.infer("add_sub", {"INPUT1": B, "INPUT0": A})
    np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)


@pytest.mark.parametrize("datatype", wire.NUMPY)
def test_every_datatype_comes_back_equal(client, datatype):
    sent = samples.of(datatype)
    got = client.infer(f"identity_{datatype.lower()}", {"INPUT0": sent}).as_numpy("OUTPUT0")
    assert got.dtype == sent.dtype
    assert got.tobytes() == sent.tobytes()


@pytest.mark.parametrize(
    "elements",
    [
        [b"a", "\u00e9".encode(), b""],
        [b"nul\x00inside", b"\xff\xfe not utf-8", b"x" * 70000],
        [],
    ],
)
def test_byte_strings_come_back_equal(client, elements):
    sent = np.array(elements, dtype=np.object_)
    got = client.infer("identity_str", {"INPUT0": sent}).as_numpy("OUTPUT0")
    assert list(got) == elements


@pytest.mark.parametrize("shape", [(1, 0), (3, 0), (1, 1), (8, 5)])
def test_variable_dimension_even_of_size_zero(client, shape):
    sent = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    got = client.infer("identity_fp32", {"INPUT0": sent}).as_numpy("OUTPUT0")
    assert got.shape == shape
    np.testing.assert_array_equal(got, sent)


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 5, 1), (1, 0, 4)])
def test_two_variable_dimensions(client, shape):
    sent = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    got = client.infer("var2", {"INPUT0": sent}).as_numpy("OUTPUT0")
    assert got.shape == shape
    np.testing.assert_array_equal(got, sent)


def test_reshape_shows_the_model_another_shape(client):
    sent = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=np.float32)
    got = client.infer("reshape", {"INPUT0": sent}).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(got, [[1, 3, 2, 4], [5, 7, 6, 8]])


def test_reshape_to_no_dimension(client):
    sent = np.array([[1], [2], [3]], dtype=np.int32)
    got = client.infer("reshape_none", {"INPUT0": sent}).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(got, [[-1], [-2], [-3]])


def test_three_inputs(client):
    given = {name: np.array([[n]], dtype=np.int64) for n, name in enumerate("ABC", 1)}
    assert client.infer("three_inputs", given).as_numpy("OUTPUT0").tolist() == [[321]]


@pytest.mark.parametrize("both", [True, False])
def test_optional_input(client, both):
    given = {"INPUT0": np.ones((1, 4), dtype=np.float32)}
    if both:
        given["INPUT1"] = np.full((1, 4), 5, dtype=np.float32)
    got = client.infer("optional", given).as_numpy("OUTPUT0")
    assert got.tolist() == [[6.0 if both else 1.0] * 4]


def test_nan_and_infinity(client):
    got = client.infer("nan_inf", {"INPUT0": np.zeros((1, 4), dtype=np.float32)})
    np.testing.assert_array_equal(got.as_numpy("OUTPUT0"), [[np.nan, np.inf, -np.inf, 1.5]])


@pytest.mark.parametrize("version, added", [("", 3), ("2", 2), ("3", 3)])
def test_requested_version_or_the_newest(client, version, added):
    given = {"INPUT0": np.array([[10]], dtype=np.int32)}
    result = client.infer("two_versions", given, model_version=version)
    assert result.as_numpy("OUTPUT0").tolist() == [[10 + added]]
    assert field(result.get_response(), "model_version") == str(added)


def test_version_that_is_not_served(client):
    given = {"INPUT0": np.array([[10]], dtype=np.int32)}
    text = error_of(client, "infer", "two_versions", given, model_version="1")
    assert "version 1 is not" in text


@pytest.mark.parametrize("outputs", [["OUTPUT1"], ["OUTPUT1", "OUTPUT0"], ["OUTPUT0"]])
def test_only_requested_outputs_in_that_order(client, outputs):
    result = client.infer("add_sub", arrays(), outputs)
    assert [field(row, "name") for row in field(result.get_response(), "outputs")] == outputs
    if "OUTPUT1" in outputs:
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), A - B)


def test_request_id_is_echoed(client):
    result = client.infer("add_sub", arrays(), request_id="my id \u00fc")
    assert field(result.get_response(), "id") == "my id \u00fc"


@pytest.mark.parametrize(
    "classes, expected",
    [
        (1, [b"9.000000:3:dog"]),
        (3, [b"9.000000:3:dog", b"8.500000:0:ant", b"7.000000:9:jay"]),
    ],
)
def test_classification_with_labels(client, classes, expected):
    scores = np.array([[8.5, 1, 2, 9, 3, 0, -1, 4, 5, 7]], dtype=np.float32)
    result = client.infer("labels", {"INPUT0": scores}, [("OUTPUT0", classes)])
    assert result.as_numpy("OUTPUT0").tolist() == [expected]


def test_classification_of_more_classes_than_there_are_of_a_batch(client):
    scores = np.arange(80, dtype=np.float32).reshape(8, 10)
    got = client.infer("labels", {"INPUT0": scores}, [("OUTPUT0", 99)]).as_numpy("OUTPUT0")
    assert got.shape == (8, 10)
    assert got[0][0] == b"9.000000:9:jay" and got[7][9] == b"70.000000:0:ant"


def test_classification_without_labels(client):
    got = client.infer("add_sub", arrays(), [("OUTPUT0", 2)]).as_numpy("OUTPUT0")
    assert got.tolist() == [[b"16.000000:15", b"15.000000:14"]]


def test_classification_of_strings_is_refused(client):
    sent = np.array([b"a"], dtype=np.object_)
    text = error_of(client, "infer", "identity_str", {"INPUT0": sent}, [("OUTPUT0", 1)])
    assert "class result not available for output due to unsupported type 'BYTES'" in text


@pytest.mark.parametrize("name", samples.digits())
def test_digits_are_recognised(blocking, name):
    image, label = samples.digits()[name]
    result = blocking.infer("digits", {"image": image}, ["digit", ("logits", 1)])
    assert result.as_numpy("digit").tolist() == [[label]]
    best = result.as_numpy("logits")[0][0].decode().split(":")
    words = "zero one two three four five six seven eight nine".split()
    assert (int(best[1]), best[2]) == (label, words[label])


def test_digits_in_one_batch_equal_digits_alone(client):
    images = np.concatenate([image for image, _ in samples.digits().values()])
    together = client.infer("digits", {"image": images}).as_numpy("logits")
    alone = [client.infer("digits", {"image": image[None]}).as_numpy("logits") for image in images]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-5)


@pytest.mark.parametrize("length", [1, 4, 5, 8, 9, 16, 17, 30])
def test_padding_to_buckets_does_not_change_outputs(client, length):
    """The pooled output equals the mean of the input; the per-token output has the length of the input."""
    tokens = np.arange(length, dtype=np.int64)[None] % 7
    mask = np.ones((1, length), dtype=np.float32)
    result = client.infer("ragged", {"tokens": tokens, "mask": mask})
    per_token, pooled = result.as_numpy("per_token"), result.as_numpy("embedding")
    assert per_token.shape == (1, length, 4) and pooled.shape == (1, 8)
    one = np.zeros((1, 1), dtype=np.int64)
    ones = np.ones((1, 1), dtype=np.float32)
    single = [client.infer("ragged", {"tokens": one + n, "mask": ones}) for n in range(min(length, 7))]
    vectors = np.concatenate([answer.as_numpy("embedding") for answer in single])
    rows = np.concatenate([answer.as_numpy("per_token")[0] for answer in single])
    np.testing.assert_allclose(pooled[0], vectors[tokens[0]].mean(0), atol=1e-5)
    np.testing.assert_allclose(per_token[0], rows[tokens[0]], atol=1e-5)


@pytest.mark.parametrize("answer", [None, "gzip", "deflate"])
@pytest.mark.parametrize("question", [None, "gzip", "deflate"])
def test_compression_both_ways_over_http(server, question, answer):
    with http_client.InferenceServerClient(server.http) as client:
        inputs = [http_client.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
        inputs[0].set_data_from_numpy(A)
        inputs[1].set_data_from_numpy(B)
        result = client.infer(
            "add_sub",
            inputs,
            request_compression_algorithm=question,
            response_compression_algorithm=answer,
        )
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), A + B)


@pytest.mark.parametrize("answer", [True, False])
@pytest.mark.parametrize("question", [True, False])
def test_json_and_binary_mixed_over_http(server, question, answer):
    with http_client.InferenceServerClient(server.http) as client:
        inputs = [http_client.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
        inputs[0].set_data_from_numpy(A, binary_data=question)
        inputs[1].set_data_from_numpy(B, binary_data=not question)
        outputs = [
            http_client.InferRequestedOutput("OUTPUT0", binary_data=answer),
            http_client.InferRequestedOutput("OUTPUT1", binary_data=not answer),
        ]
        result = client.infer("add_sub", inputs, outputs=outputs)
    check_add_sub(result, {"INPUT0": A, "INPUT1": B})


@pytest.mark.parametrize("mebibytes", [1, 100])
def test_large_tensors(blocking, mebibytes):
    sent = np.arange(mebibytes << 18, dtype=np.float32)[None]
    got = blocking.infer("identity_fp32", {"INPUT0": sent}).as_numpy("OUTPUT0")
    assert np.array_equal(got, sent)


@pytest.mark.parametrize("value", [1, "text", True, 2.5])
def test_request_parameters_reach_the_model_and_come_back(blocking, value):
    sent = np.array([[1]], dtype=np.int32)
    result = blocking.infer("echo_parameters", {"INPUT0": sent}, parameters={"mine": value})
    parameter = field(result.get_response(), "parameters")["mine"]
    if not isinstance(parameter, (int, str, float)):
        parameter = getattr(parameter, parameter.WhichOneof("parameter_choice"))
    assert parameter == value and type(parameter) is type(value)


def test_bf16_is_rounded_as_numpy_does(client):
    sent = np.array([[3.14159, 1e30, -7.7]], dtype=ml_dtypes.bfloat16)
    got = client.infer("identity_bf16", {"INPUT0": sent}).as_numpy("OUTPUT0")
    np.testing.assert_array_equal(got, sent)
