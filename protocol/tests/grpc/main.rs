//! Tests of the gRPC codec: every datatype in both directions, every message, and every field that may contain a name.

#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

mod data;
mod parameters;
mod peek;
mod responses;

use std::collections::BTreeMap;

use bytes::Bytes;
use weir_protocol::grpc::decode_request;
use weir_protocol::grpc::proto::infer_parameter::ParameterChoice;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;
use weir_protocol::grpc::proto::{InferParameter, ModelInferRequest};
use weir_protocol::{Code, Coded};

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
    InferParameter { parameter_choice: Some(choice) }
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
