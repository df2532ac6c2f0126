//! Fuzzer of the gRPC decoder: it must accept or refuse every mutated message without a panic. Runs for
//! `WEIR_FUZZ_SECONDS` (5 if unset). The seed is fixed, so that a failure is reproducible.

#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

use bytes::Bytes;
use prost::Message;
use weir_fuzz::{FuzzRng, mutate};
use weir_protocol::grpc::proto::infer_parameter::ParameterChoice;
use weir_protocol::grpc::proto::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use weir_protocol::grpc::proto::{InferParameter, InferTensorContents, ModelInferRequest};
use weir_protocol::grpc::{NameField, decode_request, find_model_name};
use weir_protocol::{DataType, Source, Tensor};

/// Long enough to reach every branch of the decoder many times, short enough for every test run.
const SECONDS: u64 = 5;

/// Bytes of tags and lengths, and last bytes of varints.
const ALPHABET: &[u8] = b"\x00\x01\x08\x0a\x12\x1a\x22\x2a\x32\x3a\x7f\x80\xff";

#[test]
fn no_message_makes_the_decoder_panic() {
    fuzz(&corpus(), |body| {
        let Ok(message) = ModelInferRequest::decode(Bytes::copy_from_slice(body)) else {
            return;
        };
        let Ok(request) = decode_request(message) else {
            return;
        };
        for input in request.inputs {
            if let Source::Inline(data) = input.source {
                // An invalid input, too, must neither overflow nor loop forever.
                let _ = Tensor::new(input.name, input.datatype, input.shape, data);
            }
        }
    });
}

#[test]
fn no_message_makes_the_search_for_the_name_panic_or_disagree() {
    let field = NameField::of("ModelInfer").unwrap();
    fuzz(&corpus(), |body| {
        // An invalid input, too, must neither overflow nor loop forever.
        let _ = find_model_name(field, body);
        let Ok(message) = ModelInferRequest::decode(body) else {
            return;
        };
        // The message is encoded again, because prost also accepts some fields with the wrong wire type.
        let whole = message.encode_to_vec();
        assert_eq!(find_model_name(field, &whole[..]).unwrap_or_default(), message.model_name, "{whole:?}");
    });
}

fn corpus() -> Vec<Vec<u8>> {
    let mut messages: Vec<ModelInferRequest> = DataType::ALL.into_iter().map(raw).collect();
    messages.push(typed());
    messages.push(parameters());
    messages.iter().map(Message::encode_to_vec).collect()
}

fn raw(datatype: DataType) -> ModelInferRequest {
    let input = InferInputTensor {
        name: "INPUT0".to_owned(),
        datatype: datatype.name().to_owned(),
        shape: vec![1, 2],
        ..Default::default()
    };
    ModelInferRequest {
        model_name: "model".to_owned(),
        model_version: "1".to_owned(),
        inputs: vec![input],
        raw_input_contents: vec![Bytes::from_static(b"\x04\0\0\0abcd\0\0\0\0abcd")],
        ..Default::default()
    }
}

fn typed() -> ModelInferRequest {
    let mut message = raw(DataType::Int8);
    message.raw_input_contents.clear();
    message.inputs[0].contents = Some(InferTensorContents {
        bool_contents: vec![true],
        int_contents: vec![-1, 300],
        int64_contents: vec![-1],
        uint_contents: vec![1],
        uint64_contents: vec![1],
        fp32_contents: vec![1.5],
        fp64_contents: vec![1.5],
        bytes_contents: vec![Bytes::from_static(b"ab")],
    });
    message
}

fn parameters() -> ModelInferRequest {
    let int = |value| InferParameter { parameter_choice: Some(ParameterChoice::Int64Param(value)) };
    let region = InferParameter { parameter_choice: Some(ParameterChoice::StringParam("r".to_owned())) };
    let shared = [
        ("shared_memory_region".to_owned(), region),
        ("shared_memory_byte_size".to_owned(), int(8)),
        ("shared_memory_offset".to_owned(), int(-8)),
        ("classification".to_owned(), int(3)),
    ];
    let mut message = raw(DataType::Fp32);
    message.inputs[0].parameters = shared.clone().into();
    message.outputs = vec![InferRequestedOutputTensor { name: "OUTPUT0".to_owned(), parameters: shared.into() }];
    message.parameters = [("priority", 1), ("timeout", 1), ("triton_x", 1), ("k", 1)]
        .map(|(key, value)| (key.to_owned(), int(value)))
        .into();
    message
}

fn fuzz(corpus: &[Vec<u8>], target: impl Fn(&[u8])) {
    let make = |rng: &mut FuzzRng| mutate(corpus, ALPHABET, 8, rng);
    weir_fuzz::fuzz(SECONDS, make, |body, _| target(body));
}
