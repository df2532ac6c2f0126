//! Tests of the HTTP bodies: accepted ones, refused ones, and the message of each refusal.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod blobs;
mod bodies;
mod classification;
mod data;
mod generate;
mod predict;
mod raw;
mod request;
mod response;
mod round_trip;

use bytes::Bytes;
use weir_protocol::rest::{Limits, RestError, TargetModel, decode_request};
use weir_protocol::{Batching, DataType, InferRequest, Source, TensorSpec};

/// Decodes a body that consists of JSON only.
fn decode(json: &str) -> Result<InferRequest, RestError> {
    decode_request("m", "", Bytes::copy_from_slice(json.as_bytes()), None, &Limits::DEFAULT)
}

/// Asserts that a body is refused with a message that contains `words`.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, RestError>, words: &str) {
    assert_eq!(result.unwrap_err().to_string(), words);
}

fn inline_data(source: &Source) -> &[u8] {
    match source {
        Source::Inline(data) => data,
        Source::Shared(range) => panic!("in shared memory: {range:?}"),
    }
}

fn spec(name: &str, datatype: DataType, shape: &[i64]) -> TensorSpec {
    TensorSpec { name: name.to_owned(), datatype, shape: shape.to_vec() }
}

fn batching(inputs: &[TensorSpec]) -> TargetModel<'_> {
    TargetModel { model: "m", version: "", inputs, batching: Batching::FirstDimension }
}

/// Returns a request with one input that has these members.
fn with_input(members: &str) -> String {
    format!("{{\"inputs\":[{{{members}}}]}}")
}

/// Returns a request whose input has this datatype, shape and data.
fn with_data(datatype: &str, shape: &str, data: &str) -> String {
    with_input(&format!("\"name\":\"x\",\"datatype\":\"{datatype}\",\"shape\":{shape},\"data\":{data}"))
}

/// Returns a request with one valid input and these further members.
fn with_members(members: &str) -> String {
    let input = "{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}";
    format!("{{\"inputs\":[{input}],{members}}}")
}

fn with_output(members: &str) -> String {
    with_members(&format!("\"outputs\":[{{{members}}}]"))
}

#[track_caller]
fn refuses(json: &str, words: &str) {
    refused(decode(json), words);
}

#[track_caller]
fn refuses_data(datatype: &str, shape: &str, data: &str, words: &str) {
    refuses(&with_data(datatype, shape, data), words);
}
