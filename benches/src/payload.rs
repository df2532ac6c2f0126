//! Builds the request once, before the load begins.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use weir_protocol::grpc::proto::ModelInferRequest;
use weir_protocol::grpc::proto::model_infer_request::InferInputTensor;

use crate::args::Protocol;
use crate::tensor::Tensor;

/// Builds the bytes of each request, including the head for HTTP/1.1.
pub(crate) fn build(protocol: Protocol, model: &str, inputs: &[Tensor]) -> Bytes {
    match protocol {
        Protocol::HttpJson => http(model, &json(inputs), &[]),
        Protocol::HttpBinary => http(model, &binary_head(inputs), inputs),
        Protocol::Grpc => grpc(model, inputs),
    }
}

fn http(model: &str, json: &str, blobs: &[Tensor]) -> Bytes {
    let blob_bytes: usize = blobs.iter().map(|tensor| tensor.data.len()).sum();
    let split = if blobs.is_empty() {
        "Content-Type: application/json\r\n".to_owned()
    } else {
        let json_bytes = json.len();
        format!("Content-Type: application/octet-stream\r\nInference-Header-Content-Length: {json_bytes}\r\n")
    };
    let head = format!(
        "POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\n{split}Content-Length: {}\r\n\r\n",
        json.len() + blob_bytes
    );
    let mut bytes = BytesMut::from(head.as_bytes());
    bytes.put_slice(json.as_bytes());
    for blob in blobs {
        bytes.put_slice(&blob.data);
    }
    bytes.freeze()
}

fn json(inputs: &[Tensor]) -> String {
    let data = |tensor: &Tensor| format!("\"data\":[{}]", tensor.datatype.json(&tensor.data));
    format!("{{\"inputs\":[{}]}}", list(inputs, data))
}

fn binary_head(inputs: &[Tensor]) -> String {
    let size = |tensor: &Tensor| format!("\"parameters\":{{\"binary_data_size\":{}}}", tensor.data.len());
    format!("{{\"inputs\":[{}],\"parameters\":{{\"binary_data_output\":true}}}}", list(inputs, size))
}

fn list(inputs: &[Tensor], rest: impl Fn(&Tensor) -> String) -> String {
    let entry = |tensor: &Tensor| {
        let (name, datatype) = (&tensor.name, tensor.datatype.name());
        let dims: Vec<String> = tensor.shape.iter().map(ToString::to_string).collect();
        let (dims, rest) = (dims.join(","), rest(tensor));
        format!("{{\"name\":\"{name}\",\"datatype\":\"{datatype}\",\"shape\":[{dims}],{rest}}}")
    };
    let entries: Vec<String> = inputs.iter().map(entry).collect();
    entries.join(",")
}

/// Encodes a message with gRPC's prefix: the flag for no compression, and the length.
fn grpc(model: &str, inputs: &[Tensor]) -> Bytes {
    let input = |tensor: &Tensor| InferInputTensor {
        name: tensor.name.clone(),
        datatype: tensor.datatype.name().to_owned(),
        shape: tensor.shape.clone(),
        ..InferInputTensor::default()
    };
    let message = ModelInferRequest {
        model_name: model.to_owned(),
        inputs: inputs.iter().map(input).collect(),
        raw_input_contents: inputs.iter().map(|tensor| tensor.data.clone()).collect(),
        ..ModelInferRequest::default()
    };
    let encoded = message.encode_to_vec();
    let mut bytes = BytesMut::with_capacity(5 + encoded.len());
    bytes.put_u8(0);
    bytes.put_u32(encoded.len() as u32);
    bytes.put_slice(&encoded);
    bytes.freeze()
}
