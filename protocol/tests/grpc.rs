//! The gRPC codec: every datatype both ways, every sentence, every place a name can hide.

#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use weir_protocol::grpc::proto::infer_parameter::ParameterChoice;
use weir_protocol::grpc::proto::model_infer_request::{
    InferInputTensor, InferRequestedOutputTensor,
};
use weir_protocol::grpc::proto::{InferParameter, InferTensorContents, ModelInferRequest};
use weir_protocol::grpc::{
    GrpcError, NameField, PEEK_LIMIT, Peek, decode_request, encode_response, peek_model_name,
    status,
};
use weir_protocol::{
    Code, Coded, DataType, Delivery, InferResponse, Parameter, Parameters, Shape, SharedRange,
    Source, Tensor,
};

fn input(name: &str, datatype: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: datatype.to_owned(),
        shape: shape.to_vec(),
        ..Default::default()
    }
}

fn request(inputs: Vec<InferInputTensor>, raw: &[&'static [u8]]) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "m".to_owned(),
        inputs,
        raw_input_contents: raw.iter().copied().map(Bytes::from_static).collect(),
        ..Default::default()
    }
}

fn given(choice: ParameterChoice) -> InferParameter {
    InferParameter {
        parameter_choice: Some(choice),
    }
}

fn text(value: &str) -> InferParameter {
    given(ParameterChoice::StringParam(value.to_owned()))
}

fn int(value: i64) -> InferParameter {
    given(ParameterChoice::Int64Param(value))
}

fn map<const N: usize>(entries: [(&str, InferParameter); N]) -> BTreeMap<String, InferParameter> {
    entries.map(|(key, value)| (key.to_owned(), value)).into()
}

fn refusal(request: ModelInferRequest) -> String {
    let error = decode_request(request).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    error.to_string()
}

/// The typed field of a datatype with two elements, and the bytes they are.
fn typed(datatype: DataType) -> Option<(InferTensorContents, Vec<u8>)> {
    let mut contents = InferTensorContents::default();
    let bytes: Vec<u8> = match datatype {
        DataType::Bool => {
            contents.bool_contents = vec![true, false];
            vec![1, 0]
        }
        DataType::Int8 => {
            contents.int_contents = vec![-128, 127];
            vec![0x80, 0x7f]
        }
        DataType::Int16 => {
            contents.int_contents = vec![-2, 3];
            vec![0xfe, 0xff, 3, 0]
        }
        DataType::Int32 => {
            contents.int_contents = vec![i32::MIN, 1];
            vec![0, 0, 0, 0x80, 1, 0, 0, 0]
        }
        DataType::Int64 => {
            contents.int64_contents = vec![i64::MAX, -1];
            [i64::MAX.to_le_bytes(), [0xff; 8]].concat()
        }
        DataType::Uint8 => {
            contents.uint_contents = vec![0, 255];
            vec![0, 255]
        }
        DataType::Uint16 => {
            contents.uint_contents = vec![0x1234, 65535];
            vec![0x34, 0x12, 0xff, 0xff]
        }
        DataType::Uint32 => {
            contents.uint_contents = vec![u32::MAX, 1];
            vec![0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]
        }
        DataType::Uint64 => {
            contents.uint64_contents = vec![u64::MAX, 0];
            [[0xff; 8], [0; 8]].concat()
        }
        DataType::Fp32 => {
            contents.fp32_contents = vec![f32::NAN, -0.5];
            [f32::NAN.to_le_bytes(), (-0.5_f32).to_le_bytes()].concat()
        }
        DataType::Fp64 => {
            contents.fp64_contents = vec![f64::INFINITY, 0.1];
            [f64::INFINITY.to_le_bytes(), 0.1_f64.to_le_bytes()].concat()
        }
        DataType::Bytes => {
            contents.bytes_contents = vec![Bytes::from_static(b"ab"), Bytes::new()];
            b"\x02\0\0\0ab\0\0\0\0".to_vec()
        }
        DataType::Fp16 | DataType::Bf16 => return None,
    };
    Some((contents, bytes))
}

#[test]
fn typed_contents_become_the_raw_bytes_of_every_datatype() {
    for datatype in DataType::ALL {
        let Some((contents, bytes)) = typed(datatype) else {
            continue;
        };
        let mut one = input("x", datatype.name(), &[2]);
        one.contents = Some(contents);
        let decoded = decode_request(request(vec![one], &[])).unwrap();
        let [x] = decoded.inputs.as_slice() else {
            panic!("{decoded:?}")
        };
        assert_eq!(x.source, Source::Inline(bytes.clone().into()), "{datatype}");
        let shape = Shape::new(&[2]).unwrap();
        Tensor::new("x".to_owned(), datatype, shape, bytes.into()).expect("fits its shape");
    }
}

#[test]
fn raw_contents_are_shared_with_the_message_not_copied() {
    let sent = request(vec![input("x", "FP16", &[2])], &[b"abcd"]).encode_to_vec();
    let sent = Bytes::from(sent);
    let message = ModelInferRequest::decode(sent.clone()).unwrap();
    let decoded = decode_request(message).unwrap();
    let Source::Inline(data) = &decoded.inputs[0].source else {
        panic!("inline")
    };
    assert_eq!(data.as_ref(), b"abcd");
    assert!(sent.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn inputs_in_shared_memory_take_no_raw_entry_and_surplus_is_ignored() {
    let mut shared = input("s", "INT8", &[2]);
    shared.parameters = map([
        ("shared_memory_region", text("r")),
        ("shared_memory_byte_size", int(2)),
        ("shared_memory_offset", int(4)),
    ]);
    let inputs = vec![input("a", "INT8", &[1]), shared, input("b", "INT8", &[1])];
    let decoded = decode_request(request(inputs, &[b"a", b"b", b"surplus"])).unwrap();
    let sources: Vec<&Source> = decoded.inputs.iter().map(|input| &input.source).collect();
    let range = SharedRange {
        region: "r".to_owned(),
        offset: 4,
        size: 2,
    };
    assert_eq!(
        sources,
        [
            &Source::Inline(Bytes::from_static(b"a")),
            &Source::Shared(range),
            &Source::Inline(Bytes::from_static(b"b")),
        ]
    );
}

#[test]
fn parameters_outputs_and_version_are_read() {
    let mut sent = request(vec![], &[]);
    sent.id = "7".to_owned();
    sent.model_version = "3".to_owned();
    sent.parameters = map([
        ("priority", given(ParameterChoice::Uint64Param(u64::MAX))),
        ("timeout", int(5)),
        ("sequence_id", text("s")),
        (
            "triton_enable_empty_final_response",
            given(ParameterChoice::BoolParam(true)),
        ),
        ("mine", given(ParameterChoice::DoubleParam(0.5))),
    ]);
    let output = |name: &str, parameters| InferRequestedOutputTensor {
        name: name.to_owned(),
        parameters,
    };
    sent.outputs = vec![
        output("p", map([("classification", int(3))])),
        output(
            "q",
            map([
                ("shared_memory_region", text("r")),
                ("shared_memory_byte_size", int(8)),
            ]),
        ),
    ];
    let decoded = decode_request(sent).unwrap();
    assert_eq!((decoded.id.as_str(), decoded.version.as_str()), ("7", "3"));
    assert_eq!(decoded.parameters["priority"], Parameter::Uint(u64::MAX));
    assert_eq!(decoded.parameters["mine"], Parameter::Double(0.5));
    assert_eq!(decoded.outputs[0].classes.unwrap().get(), 3);
    assert_eq!(decoded.outputs[0].delivery, Delivery::Binary);
    let range = SharedRange {
        region: "r".to_owned(),
        offset: 0,
        size: 8,
    };
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

fn filled(fill: fn(&mut InferTensorContents)) -> Option<InferTensorContents> {
    let mut contents = InferTensorContents::default();
    fill(&mut contents);
    Some(contents)
}

fn with(datatype: &str, contents: Option<InferTensorContents>) -> Vec<InferInputTensor> {
    let mut one = input("x", datatype, &[1]);
    one.contents = contents;
    vec![one]
}

#[test]
fn data_is_refused_in_tritons_words() {
    let floats = filled(|contents| contents.fp32_contents = vec![1.0]);
    let cases = [
        (
            request(with("FP32", floats.clone()), &[b"abcd"]),
            "contents field must not be specified when using raw_input_contents for 'x' for model \
             'm'",
        ),
        (
            request(with("INT32", floats.clone()), &[]),
            "unexpected explicit tensor data for input tensor 'x' for model 'm' of type 'FP32', \
             expected datatype 'INT32'",
        ),
        (
            request(with("FP16", floats), &[]),
            "unexpected explicit tensor data for input tensor 'x' for model 'm' of type 'FP32', \
             expected datatype 'FP16'",
        ),
        (
            request(with("FP32", None), &[]),
            "unable to find data for input tensor 'x' for model 'm' in request.",
        ),
        (
            request(
                with("INT8", filled(|some| some.int_contents = vec![128])),
                &[],
            ),
            "value 128 of input tensor 'x' for model 'm' is out of range for datatype 'INT8'",
        ),
        (
            request(
                with("UINT16", filled(|some| some.uint_contents = vec![65536])),
                &[],
            ),
            "value 65536 of input tensor 'x' for model 'm' is out of range for datatype 'UINT16'",
        ),
    ];
    for (request, sentence) in cases {
        assert_eq!(refusal(request), sentence);
    }
}

#[test]
fn impossible_tensors_are_refused_by_name() {
    let huge = i64::MAX;
    let cases = [
        (
            request(vec![input("x", "float", &[1])], &[b"abcd"]),
            "input 'x' for model 'm' has the unknown datatype 'float'".to_owned(),
        ),
        (
            request(vec![input("x", "FP32", &[1, -1])], &[b"abcd"]),
            "input 'x' for model 'm': shape [1,-1] has the negative dimension -1".to_owned(),
        ),
        (
            request(vec![input("x", "FP32", &[huge, huge])], &[b"abcd"]),
            format!(
                "input 'x' for model 'm': shape [{huge},{huge}] causes total element count to \
                 exceed maximum size of {}",
                Shape::MAX_ELEMENTS
            ),
        ),
        (
            request(
                vec![input("x", "INT8", &[1]), input("x", "INT8", &[1])],
                &[b"a", b"b"],
            ),
            "input 'x' already exists in request".to_owned(),
        ),
    ];
    for (request, sentence) in cases {
        assert_eq!(refusal(request), sentence);
    }
}

#[test]
fn parameters_are_refused_in_tritons_words() {
    let bool_param = || given(ParameterChoice::BoolParam(true));
    let cases = [
        (
            "triton_x",
            int(1),
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not \
             be specified.",
        ),
        (
            "x",
            InferParameter::default(),
            "parameter 'x' has invalid type. It should be either 'int', 'bool', 'double', or \
             'string'.",
        ),
        (
            "priority",
            text("1"),
            "invalid value type for 'priority' parameter, expected int64_param or uint64_param.",
        ),
        (
            "priority",
            int(-1),
            "invalid value for 'priority' parameter, expected a value that is not negative.",
        ),
        (
            "timeout",
            bool_param(),
            "invalid value type for 'timeout' parameter, expected int64_param.",
        ),
        (
            "sequence_id",
            bool_param(),
            "invalid value type for 'sequence_id' parameter, expected int64_param or string_param.",
        ),
        (
            "sequence_start",
            int(1),
            "invalid value type for 'sequence_start' parameter, expected bool_param.",
        ),
        (
            "sequence_end",
            int(1),
            "invalid value type for 'sequence_end' parameter, expected bool_param.",
        ),
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
        (
            map([("classification", int(0))]),
            "invalid value for 'classification' parameter, expected a value greater than 0.",
        ),
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
        sent.outputs = vec![InferRequestedOutputTensor {
            name: "y".to_owned(),
            parameters,
        }];
        assert_eq!(refusal(sent), sentence);
    }
}

#[test]
fn names_and_versions_are_refused() {
    let output = InferRequestedOutputTensor {
        name: "y".to_owned(),
        ..Default::default()
    };
    let mut twice = request(vec![], &[]);
    twice.outputs = vec![output.clone(), output];
    assert_eq!(refusal(twice), "output 'y' already exists in request");
    let mut worded = request(vec![], &[]);
    worded.model_version = "latest".to_owned();
    let sentence = "failed to get model version from specified version string 'latest'";
    assert_eq!(refusal(worded), sentence);
}

#[test]
fn a_status_carries_code_and_sentence() {
    let status = status(&GrpcError::DuplicateInput("x".to_owned()));
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "input 'x' already exists in request");
}

#[test]
fn answers_are_raw_and_shared_outputs_leave_an_empty_entry() {
    let tensor = |name: &str| {
        let shape = Shape::new(&[1, 2]).unwrap();
        Tensor::new(
            name.to_owned(),
            DataType::Int8,
            shape,
            Bytes::from_static(b"ab"),
        )
        .unwrap()
    };
    let range = SharedRange {
        region: "r".to_owned(),
        offset: 16,
        size: 64,
    };
    let answer = InferResponse {
        model: "m".to_owned(),
        version: "1".to_owned(),
        id: "i".to_owned(),
        parameters: Parameters::from([("k".to_owned(), Parameter::Bool(true))]),
        outputs: vec![
            (tensor("a"), Delivery::Binary),
            (tensor("b"), Delivery::Shared(range)),
            (tensor("c"), Delivery::Json),
        ],
    };
    let message = encode_response(answer);
    assert_eq!(message.raw_output_contents, ["ab", "", "ab"]);
    assert_eq!(
        message.parameters,
        map([("k", given(ParameterChoice::BoolParam(true)))])
    );
    assert!(
        message
            .outputs
            .iter()
            .all(|output| output.contents.is_none())
    );
    assert_eq!(
        (
            message.outputs[0].datatype.as_str(),
            &message.outputs[0].shape[..]
        ),
        ("INT8", &[1, 2][..])
    );
    let place = map([
        ("shared_memory_region", text("r")),
        ("shared_memory_byte_size", int(2)),
        ("shared_memory_offset", int(16)),
    ]);
    assert_eq!(message.outputs[1].parameters, place);
}

#[test]
fn the_model_name_is_found_at_the_start_of_a_message() {
    let body = request(vec![input("x", "INT8", &[1])], &[b"a"]).encode_to_vec();
    let field = NameField::of("ModelInfer").unwrap();
    assert_eq!(peek_model_name(field, &body), Peek::Found("m"));
    assert_eq!(peek_model_name(field, &body[..2]), Peek::Cut);
    assert_eq!(peek_model_name(field, &[]), Peek::Absent);
    assert_eq!(peek_model_name(field, b"\x0a\x01\xff"), Peek::Malformed);
    assert_eq!(peek_model_name(field, b"\x0f"), Peek::Malformed);
    assert_eq!(peek_model_name(field, &[0xff; 11]), Peek::Malformed);
    let load = NameField::of("RepositoryModelLoad").unwrap();
    assert_eq!(
        peek_model_name(load, b"\x0a\x04repo\x12\x01m"),
        Peek::Found("m")
    );
    assert_eq!(NameField::of("ServerLive"), None);
}

#[test]
fn a_name_beyond_the_limit_is_not_looked_for() {
    let mut body = vec![0x1a, 0x80, 0x40];
    body.resize(3 + 8192, b'i');
    body.extend_from_slice(b"\x0a\x01m");
    assert!(body.len() > PEEK_LIMIT);
    let field = NameField::of("ModelInfer").unwrap();
    assert_eq!(peek_model_name(field, &body), Peek::Cut);
}

proptest! {
    #[test]
    fn raw_tensors_come_back_as_they_went(
        id in ".{0,8}",
        data in proptest::collection::vec(any::<u8>(), 0..64),
        index in 0..DataType::ALL.len(),
    ) {
        let datatype = DataType::ALL[index];
        let Some(size) = datatype.size() else { return Ok(()) };
        let count = data.len() / size;
        let data = Bytes::from(data).slice(..count * size);
        let mut sent = request(vec![input("x", datatype.name(), &[count as i64])], &[]);
        sent.id = id.clone();
        sent.raw_input_contents = vec![data.clone()];
        let message = ModelInferRequest::decode(Bytes::from(sent.encode_to_vec())).unwrap();
        let decoded = decode_request(message).unwrap();
        let [x] = decoded.inputs.as_slice() else { panic!("one input") };
        let Source::Inline(read) = x.source.clone() else { panic!("inline") };
        let tensor = Tensor::new("y".to_owned(), x.datatype, x.shape.clone(), read).unwrap();
        let answer = encode_response(InferResponse {
            model: decoded.model,
            version: "1".to_owned(),
            id: decoded.id,
            parameters: Parameters::new(),
            outputs: vec![(tensor, Delivery::Binary)],
        });
        prop_assert_eq!(&answer.raw_output_contents[0], &data);
        prop_assert_eq!(&answer.outputs[0].datatype, datatype.name());
        prop_assert_eq!(answer.id, id);
    }

    #[test]
    fn peek_agrees_with_the_decoder(name in "[a-z]{0,12}", id in ".{0,40}") {
        let mut sent = request(vec![input("x", "INT8", &[1])], &[b"a"]);
        sent.model_name = name.clone();
        sent.id = id;
        let body = sent.encode_to_vec();
        let found = peek_model_name(NameField::of("ModelInfer").unwrap(), &body);
        let expected = if name.is_empty() { Peek::Absent } else { Peek::Found(&name) };
        prop_assert_eq!(found, expected);
    }
}
