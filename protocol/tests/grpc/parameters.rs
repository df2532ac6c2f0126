//! Tests of parameters, requested outputs and the version.

use weir_protocol::grpc::decode_request;
use weir_protocol::grpc::proto::InferParameter;
use weir_protocol::grpc::proto::infer_parameter::ParameterChoice;
use weir_protocol::grpc::proto::model_infer_request::InferRequestedOutputTensor;
use weir_protocol::{Delivery, Parameter, SharedRange};

use super::{given, int, map, refusal, request, text};

#[test]
fn parameters_outputs_and_version_are_read() {
    let mut sent = request(vec![], &[]);
    sent.id = "7".to_owned();
    sent.model_version = "3".to_owned();
    sent.parameters = map([
        ("priority", given(ParameterChoice::Uint64Param(u64::MAX))),
        ("timeout", int(5)),
        ("sequence_id", text("s")),
        ("triton_enable_empty_final_response", given(ParameterChoice::BoolParam(true))),
        ("mine", given(ParameterChoice::DoubleParam(0.5))),
    ]);
    let output = |name: &str, parameters| InferRequestedOutputTensor { name: name.to_owned(), parameters };
    sent.outputs = vec![
        output("p", map([("classification", int(3))])),
        output("q", map([("shared_memory_region", text("r")), ("shared_memory_byte_size", int(8))])),
    ];
    let decoded = decode_request(sent).unwrap();
    assert_eq!((decoded.id.as_str(), decoded.version.as_str()), ("7", "3"));
    assert_eq!(decoded.parameters["priority"], Parameter::Uint(u64::MAX));
    assert_eq!(decoded.parameters["mine"], Parameter::Double(0.5));
    assert_eq!(decoded.outputs[0].classes.unwrap().get(), 3);
    assert_eq!(decoded.outputs[0].delivery, Delivery::Binary);
    let range = SharedRange { region: "r".to_owned(), offset: 0, size: 8 };
    assert_eq!(decoded.outputs[1].delivery, Delivery::Shared(range));
    assert_eq!(decoded.default_delivery, Delivery::Binary);
}

#[test]
fn version_minus_one_is_the_newest() {
    for (sent, read) in [("", ""), ("-1", ""), ("07", "7"), ("12", "12")] {
        let mut message = request(vec![], &[]);
        message.model_version = sent.to_owned();
        assert_eq!(decode_request(message).unwrap().version, read);
    }
}

#[test]
fn parameters_are_refused_in_tritons_words() {
    let bool_param = || given(ParameterChoice::BoolParam(true));
    let cases = [
        (
            "triton_x",
            int(1),
            "parameter keys starting with 'triton_' are reserved for Triton usage. Only the \
             following keys starting with 'triton_' are allowed: triton_enable_empty_final_response",
        ),
        (
            "x",
            InferParameter::default(),
            "invalid value type for 'x' parameter, expected int64_param, bool_param, or \
             string_param.",
        ),
        ("priority", text("1"), "invalid value type for 'priority' parameter, expected int64_param or uint64_param."),
        ("priority", int(-1), "invalid value for 'priority', expected value >= 0."),
        ("timeout", bool_param(), "invalid value type for 'timeout' parameter, expected int64_param."),
        (
            "sequence_id",
            bool_param(),
            "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
        ),
        ("sequence_start", int(1), "invalid value type for 'sequence_start' parameter, expected bool_param."),
        ("sequence_end", int(1), "invalid value type for 'sequence_end' parameter, expected bool_param."),
        (
            "triton_enable_empty_final_response",
            int(1),
            "invalid value type for 'triton_enable_empty_final_response' parameter, expected \
             bool_param.",
        ),
    ];
    for (key, value, sentence) in cases {
        let mut sent = request(vec![], &[]);
        sent.parameters = map([(key, value)]);
        assert_eq!(refusal(sent), sentence);
    }
}

#[test]
fn output_parameters_are_refused_by_name() {
    let region = || ("shared_memory_region", text("r"));
    let size = |value| ("shared_memory_byte_size", int(value));
    let cases = [
        (map([("classification", int(0))]), "invalid value for 'classification', expected value > 0."),
        (
            map([("classification", text("1"))]),
            "invalid value type for 'classification' parameter, expected int64_param.",
        ),
        (
            map([("classification", int(1)), region(), size(1)]),
            "'classification' can not be specified with 'shared_memory_region' parameter for \
             tensor 'y'.",
        ),
        (
            map([region()]),
            "'shared_memory_region' can not be specified without 'shared_memory_byte_size' \
             parameter for tensor 'y'.",
        ),
        (
            map([size(1)]),
            "'shared_memory_byte_size' can not be specified without 'shared_memory_region' \
             parameter for tensor 'y'.",
        ),
        (
            map([("shared_memory_offset", int(1)), size(1)]),
            "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter \
             for tensor 'y'.",
        ),
        (
            map([region(), size(-1)]),
            "invalid value for 'shared_memory_byte_size' parameter for tensor 'y', must not be \
             negative.",
        ),
        (
            map([("shared_memory_region", int(1)), size(1)]),
            "invalid value type for 'shared_memory_region' parameter for tensor 'y', expected \
             string_param.",
        ),
        (
            map([region(), ("shared_memory_byte_size", text("1"))]),
            "invalid value type for 'shared_memory_byte_size' parameter for tensor 'y', expected \
             int64_param.",
        ),
    ];
    for (parameters, sentence) in cases {
        let mut sent = request(vec![], &[]);
        sent.outputs = vec![InferRequestedOutputTensor { name: "y".to_owned(), parameters }];
        assert_eq!(refusal(sent), sentence);
    }
}

#[test]
fn names_and_versions_are_refused() {
    let output = InferRequestedOutputTensor { name: "y".to_owned(), ..Default::default() };
    let mut twice = request(vec![], &[]);
    twice.outputs = vec![output.clone(), output];
    assert_eq!(refusal(twice), "output 'y' already exists in request");
    for version in ["latest", "-2", "1.0", "9223372036854775808"] {
        let mut worded = request(vec![], &[]);
        worded.model_version = version.to_owned();
        let sentence = format!(
            "failed to get model version from specified version string '{version}' (details: stol), version should \
             be an integral value > 0"
        );
        assert_eq!(refusal(worded), sentence);
    }
}
