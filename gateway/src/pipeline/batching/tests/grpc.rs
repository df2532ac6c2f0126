//! Tests of V2 over gRPC, with raw and typed contents.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message as _;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;
use weir_protocol::grpc::proto::model_infer_response::InferOutputTensor;
use weir_protocol::grpc::proto::{InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse};
use weir_protocol::grpc::{decode_request, encode_parameter};
use weir_protocol::{DataType, Parameter, Source, Tensor};

use super::super::message::{GrpcRequest, GrpcResponse};
use super::{Sample, but_half, samples};

/// Encoding of a tensor's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Raw,
    Typed,
}

fn contents(tensor: &Tensor, form: Form) -> Option<InferTensorContents> {
    let data = tensor.data();
    let mut contents = InferTensorContents::default();
    match (form, tensor.datatype()) {
        (Form::Raw, _) => return None,
        (Form::Typed, DataType::Bool) => {
            contents.bool_contents = data.iter().map(|b| *b == 1).collect();
        }
        (Form::Typed, DataType::Int8) => contents.int_contents = each(data, i8::from_le_bytes),
        (Form::Typed, DataType::Int16) => contents.int_contents = each(data, i16::from_le_bytes),
        (Form::Typed, DataType::Int32) => contents.int_contents = each(data, i32::from_le_bytes),
        (Form::Typed, DataType::Int64) => contents.int64_contents = each(data, i64::from_le_bytes),
        (Form::Typed, DataType::Uint8) => contents.uint_contents = each(data, u8::from_le_bytes),
        (Form::Typed, DataType::Uint16) => contents.uint_contents = each(data, u16::from_le_bytes),
        (Form::Typed, DataType::Uint32) => contents.uint_contents = each(data, u32::from_le_bytes),
        (Form::Typed, DataType::Uint64) => {
            contents.uint64_contents = each(data, u64::from_le_bytes);
        }
        (Form::Typed, DataType::Fp32) => contents.fp32_contents = each(data, f32::from_le_bytes),
        (Form::Typed, DataType::Fp64) => contents.fp64_contents = each(data, f64::from_le_bytes),
        (Form::Typed, DataType::Bytes) => {
            contents.bytes_contents = tensor.strings().map(Bytes::copy_from_slice).collect();
        }
        (Form::Typed, DataType::Fp16 | DataType::Bf16) => unreachable!("typed contents have no 16-bit floats"),
    }
    Some(contents)
}

fn each<const N: usize, T, W: From<T>>(data: &[u8], read: fn([u8; N]) -> T) -> Vec<W> {
    let (elements, _) = data.as_chunks::<N>();
    elements.iter().map(|bytes| read(*bytes).into()).collect()
}

fn raw(tensors: &[Tensor], form: Form) -> Vec<Bytes> {
    match form {
        Form::Raw => tensors.iter().map(|tensor| tensor.data().clone()).collect(),
        Form::Typed => Vec::new(),
    }
}

fn request(id: &str, tensors: &[Tensor], form: Form) -> ModelInferRequest {
    let input = |tensor: &Tensor| InferInputTensor {
        name: tensor.name().to_owned(),
        datatype: tensor.datatype().name().to_owned(),
        shape: tensor.shape().signed().collect(),
        parameters: parameters(),
        contents: contents(tensor, form),
    };
    ModelInferRequest {
        model_name: "m".to_owned(),
        id: id.to_owned(),
        parameters: parameters(),
        inputs: tensors.iter().map(input).collect(),
        raw_input_contents: raw(tensors, form),
        ..Default::default()
    }
}

fn parameters() -> std::collections::BTreeMap<String, InferParameter> {
    let parameter = encode_parameter(Parameter::Int(7));
    std::iter::once(("p".to_owned(), parameter)).collect()
}

fn response(id: &str, tensors: &[Tensor], form: Form) -> ModelInferResponse {
    let output = |tensor: &Tensor| InferOutputTensor {
        name: tensor.name().to_owned(),
        datatype: tensor.datatype().name().to_owned(),
        shape: tensor.shape().signed().collect(),
        parameters: parameters(),
        contents: contents(tensor, form),
    };
    ModelInferResponse {
        model_name: "m".to_owned(),
        model_version: "1".to_owned(),
        id: id.to_owned(),
        parameters: parameters(),
        outputs: tensors.iter().map(output).collect(),
        raw_output_contents: raw(tensors, form),
    }
}

fn read(message: &ModelInferRequest) -> Option<GrpcRequest> {
    GrpcRequest::read(message.encode_to_vec().into())
}

fn check(sample: &Sample, form: Form) {
    let entries = 0..sample.entries();
    let requests = entries.map(|i| read(&request(&i.to_string(), &sample.of_member(i), form)));
    let requests: Vec<GrpcRequest> = requests.map(Option::unwrap).collect();
    for one in &requests {
        assert_eq!(one.batch_key(), requests[0].batch_key());
    }
    let merged = GrpcRequest::merge(&requests.iter().collect::<Vec<_>>());
    assert_eq!(merged.parameters, parameters());
    let merged = decode_request(merged).unwrap();
    for (input, tensor) in merged.inputs.iter().zip(sample.of_all()) {
        assert_eq!(input.shape, *tensor.shape());
        assert_eq!(input.source, Source::Inline(tensor.data().clone()));
    }
    let answer = response("theirs", &sample.of_all(), form).encode_to_vec();
    let answer = GrpcResponse::read(answer.into()).unwrap();
    assert_eq!(answer.rows, sample.all_rows());
    for (i, span) in sample.spans().iter().enumerate() {
        let own = response(requests[i].id(), &sample.of_member(i), form);
        assert_eq!(answer.slice(span, requests[i].id()), own);
        assert_eq!(answer.slice(span, "").id, "theirs");
    }
}

proptest! {
    #[test]
    fn raw_contents_return_to_their_requests(sample in samples(DataType::ALL.to_vec())) {
        check(&sample, Form::Raw);
    }

    #[test]
    fn typed_contents_return_to_their_requests(sample in samples(but_half())) {
        check(&sample, Form::Typed);
    }
}

fn plain() -> ModelInferRequest {
    let mut plain = request("", &[], Form::Raw);
    plain.inputs.push(InferInputTensor {
        name: "x".to_owned(),
        datatype: "INT8".to_owned(),
        shape: vec![1, 2],
        ..Default::default()
    });
    plain.raw_input_contents.push(Bytes::from_static(b"12"));
    plain
}

#[test]
fn requests_that_cannot_be_merged_are_rejected() {
    assert!(read(&plain()).is_some());
    let changes: [fn(&mut ModelInferRequest); 8] = [
        |request| request.inputs[0].shape.clear(),
        |request| request.inputs[0].shape[0] = 0,
        |request| request.inputs[0].shape[0] = -1,
        |request| request.inputs[0].shape[1] = 3,
        |request| request.inputs.clear(),
        |request| request.raw_input_contents.clear(),
        |request| request.raw_input_contents.push(Bytes::new()),
        |request| {
            let sequence = encode_parameter(Parameter::Int(1));
            request.parameters.insert("sequence_id".to_owned(), sequence);
        },
    ];
    for (i, change) in changes.iter().enumerate() {
        let mut request = plain();
        change(&mut request);
        assert!(read(&request).is_none(), "change {i}");
    }
}

#[test]
fn a_response_without_rows_names_its_output() {
    let mut answer = response("", &[], Form::Raw);
    assert_eq!(GrpcResponse::read(answer.encode_to_vec().into()).unwrap_err(), "it has no output");
    answer.outputs.push(InferOutputTensor { name: "y".to_owned(), ..Default::default() });
    let error = GrpcResponse::read(answer.encode_to_vec().into()).unwrap_err();
    assert!(error.contains("tensor \"y\" has the shape []"), "{error}");
}
