//! A model that sums the numbers of each row, over V1, V2 and gRPC.

use bytes::{BufMut, Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use serde_json::{Value, json};
use weir_protocol::grpc::proto::model_infer_response::InferOutputTensor;
use weir_protocol::grpc::proto::{ModelInferRequest, ModelInferResponse};

use crate::replica::{Observed, TestBody, full};

const HEADER_LENGTH: &str = "inference-header-content-length";

/// V1 model that refuses a request with an instance that is not a list of numbers.
pub(crate) fn strict(_: &Parts, body: &Bytes) -> Response<TestBody> {
    let sums: Option<Vec<f64>> = instances(body).iter().map(sum).collect();
    match sums {
        Some(sums) => json(&json!({ "predictions": sums })),
        None => {
            let mut response = json(&json!({ "error": "no number" }));
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
    }
}

/// V1 model that returns 0 for an instance that is not a list of numbers.
pub(crate) fn lenient(_: &Parts, body: &Bytes) -> Response<TestBody> {
    let sums = instances(body);
    let sums: Vec<f64> = sums.iter().map(|row| sum(row).unwrap_or(0.0)).collect();
    json(&json!({ "predictions": sums }))
}

/// V1 model that sets a session cookie for its client.
pub(crate) fn personal(head: &Parts, body: &Bytes) -> Response<TestBody> {
    let mut response = lenient(head, body);
    let cookie = HeaderValue::from_static("session=1");
    response.headers_mut().insert("set-cookie", cookie);
    response
}

/// V1 model that returns one prediction for any number of instances.
pub(crate) fn only_one(_: &Parts, _: &Bytes) -> Response<TestBody> {
    json(&json!({ "predictions": [1] }))
}

/// V1 model that returns a prediction of half a MiB for each instance.
pub(crate) fn wide(_: &Parts, body: &Bytes) -> Response<TestBody> {
    let long = "x".repeat(512 << 10);
    json(&json!({ "predictions": vec![long; instances(body).len()] }))
}

pub(crate) fn echo(_: &Parts, body: &Bytes) -> Response<TestBody> {
    Response::new(full(body.clone()))
}

/// V2 model for rows of FP64, in JSON or binary.
pub(crate) fn v2(head: &Parts, body: &Bytes) -> Response<TestBody> {
    let length = head.headers.get(HEADER_LENGTH);
    let length = length.map(|length| length.to_str().unwrap().parse::<usize>().unwrap());
    let (text, blob) = body.split_at(length.unwrap_or(body.len()));
    let request: Value = serde_json::from_slice(text).unwrap();
    let rows = request["inputs"][0]["shape"][0].as_u64().unwrap() as usize;
    let numbers = match length {
        Some(_) => numbers(blob),
        None => serde_json::from_value(request["inputs"][0]["data"].clone()).unwrap(),
    };
    let sums = sums(&numbers, rows);
    let mut output = json!({"name": "sum", "datatype": "FP64", "shape": [rows]});
    if length.is_none() {
        output["data"] = json!(sums);
        return json(&json!({"model_name": "digits", "id": request["id"], "outputs": [output]}));
    }
    output["parameters"] = json!({ "binary_data_size": rows * 8 });
    let text = json!({"model_name": "digits", "id": request["id"], "outputs": [output]}).to_string();
    let mut response = Response::new(full([text.as_bytes(), &bytes(&sums)].concat()));
    response.headers_mut().insert(HEADER_LENGTH, HeaderValue::from(text.len()));
    response
}

/// gRPC model for rows of FP64, in raw or typed contents.
pub(crate) fn grpc(_: &Parts, body: &Bytes) -> Response<TestBody> {
    let request = ModelInferRequest::decode(body.slice(5..)).unwrap();
    let rows = request.inputs[0].shape[0] as usize;
    let numbers = match &request.inputs[0].contents {
        Some(contents) => contents.fp64_contents.clone(),
        None => numbers(&request.raw_input_contents[0]),
    };
    let answer = ModelInferResponse {
        model_name: request.model_name,
        id: request.id,
        outputs: vec![InferOutputTensor {
            name: "sum".to_owned(),
            datatype: "FP64".to_owned(),
            shape: vec![rows as i64],
            ..Default::default()
        }],
        raw_output_contents: vec![bytes(&sums(&numbers, rows)).into()],
        ..Default::default()
    };
    let mut end = HeaderMap::new();
    end.insert("grpc-status", HeaderValue::from_static("0"));
    let timing = HeaderValue::from_static("queue;dur=1.000, compute;dur=2.000");
    end.insert("server-timing", timing);
    let frames = [Ok(Frame::data(framed(&answer))), Ok(Frame::trailers(end))];
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(tokio_stream::iter(frames))));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}

pub(crate) fn framed(message: &impl Message) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(message.encoded_len() as u32);
    message.encode(&mut out).unwrap();
    out.freeze()
}

pub(crate) fn bytes(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn numbers(bytes: &[u8]) -> Vec<f64> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    assert!(rest.is_empty());
    chunks.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect()
}

/// Returns the largest number of rows in one request.
pub(crate) fn most_rows(seen: &Observed) -> usize {
    let bodies = seen.bodies.lock();
    bodies.iter().map(rows_of).max().unwrap()
}

fn rows_of(body: &Bytes) -> usize {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    match values.next() {
        Some(Ok(Value::Object(request))) => match request.get("instances") {
            Some(instances) => instances.as_array().unwrap().len(),
            None => request["inputs"][0]["shape"][0].as_u64().unwrap() as usize,
        },
        _ => {
            let request = ModelInferRequest::decode(body.slice(5..)).unwrap();
            request.inputs[0].shape[0] as usize
        }
    }
}

fn instances(body: &Bytes) -> Vec<Value> {
    let request: Value = serde_json::from_slice(body).unwrap();
    request["instances"].as_array().unwrap().clone()
}

fn sum(row: &Value) -> Option<f64> {
    row.as_array()?.iter().map(Value::as_f64).sum()
}

fn sums(numbers: &[f64], rows: usize) -> Vec<f64> {
    let rows = numbers.chunks(numbers.len() / rows);
    rows.map(|row| row.iter().sum()).collect()
}

fn json(value: &Value) -> Response<TestBody> {
    let mut response = Response::new(full(value.to_string()));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", kind);
    response
}
