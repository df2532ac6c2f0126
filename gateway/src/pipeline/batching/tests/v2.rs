//! Tests of V2 over HTTP, in JSON and binary.

use bytes::Bytes;
use proptest::prelude::*;
use weir_protocol::rest::{Encoded, Limits, decode_request, encode_response};
use weir_protocol::{DataType, Delivery, InferRequest, InferResponse, Source, Tensor};

use super::super::template::{BodyKind, JsonBody, Template};
use super::{Sample, but_half, samples};

fn encoded(id: &str, tensors: Vec<Tensor>, delivery: &Delivery) -> Encoded {
    let outputs = tensors.into_iter().map(|tensor| (tensor, delivery.clone()));
    encode_response(&InferResponse {
        model: "m".to_owned(),
        version: "1".to_owned(),
        id: id.to_owned(),
        parameters: std::iter::once(("p".to_owned(), weir_protocol::Parameter::Int(1))).collect(),
        outputs: outputs.collect(),
    })
    .unwrap()
}

/// Turns a response into a request or back, which differ only in the name of one field.
fn renamed(json: &Bytes, from: &str, to: &str) -> Bytes {
    let (from, to) = (format!("\"{from}\":[{{"), format!("\"{to}\":[{{"));
    let text = String::from_utf8(json.to_vec()).unwrap();
    text.replacen(&from, &to, 1).into()
}

fn request(id: &str, tensors: Vec<Tensor>, delivery: &Delivery) -> Template {
    let body = encoded(id, tensors, delivery);
    let text = renamed(&body.json, "outputs", "inputs");
    Template::v2(text, body.blobs.concat().into(), BodyKind::Request).unwrap()
}

fn response(id: &str, tensors: Vec<Tensor>, delivery: &Delivery) -> Template {
    let body = encoded(id, tensors, delivery);
    Template::v2(body.json, body.blobs.concat().into(), BodyKind::Response).unwrap()
}

fn decoded(body: &JsonBody) -> InferRequest {
    let text = renamed(&body.json, "outputs", "inputs");
    let body = [&text[..], &body.blobs.concat()].concat();
    decode_request("m", "", body.into(), Some(text.len()), &Limits::DEFAULT).unwrap()
}

#[track_caller]
fn assert_holds(request: &InferRequest, tensors: &[Tensor]) {
    assert_eq!(request.inputs.len(), tensors.len());
    for (input, tensor) in request.inputs.iter().zip(tensors) {
        assert_eq!((&*input.name, input.datatype), (tensor.name(), tensor.datatype()));
        assert_eq!(input.shape, *tensor.shape());
        assert_eq!(input.source, Source::Inline(tensor.data().clone()));
    }
}

fn check(sample: &Sample, delivery: &Delivery) {
    let entries = 0..sample.entries();
    let bodies = entries.map(|i| request(&format!("\"{i}\""), sample.of_member(i), delivery));
    let bodies: Vec<Template> = bodies.collect();
    for body in &bodies {
        assert_eq!(body.batch_key(), bodies[0].batch_key());
    }
    let merged = Template::merge(&bodies.iter().collect::<Vec<_>>());
    assert_holds(&decoded(&merged), &sample.of_all());
    for theirs in ["", "theirs"] {
        let answer = response(theirs, sample.of_all(), delivery);
        assert_eq!(answer.rows, sample.all_rows());
        for (i, span) in sample.spans().iter().enumerate() {
            let cut = decoded(&answer.slice(span, bodies[i].id().as_ref()));
            assert_holds(&cut, &sample.of_member(i));
            assert_eq!(cut.id, format!("\"{i}\""));
            assert_eq!(decoded(&answer.slice(span, None)).id, theirs);
        }
    }
}

proptest! {
    #[test]
    fn binary_data_return_to_their_requests(sample in samples(DataType::ALL.to_vec())) {
        check(&sample, &Delivery::Binary);
    }

    #[test]
    fn json_data_return_to_their_requests(sample in samples(but_half())) {
        check(&sample, &Delivery::Json);
    }
}

fn parse(text: &str) -> Result<Template, String> {
    Template::v2(Bytes::copy_from_slice(text.as_bytes()), Bytes::new(), BodyKind::Request)
}

#[test]
fn unknown_fields_survive() {
    let one = r#"{ "inputs":[{"name":"x","shape":[1, 2],"datatype":"FP16","data":[[NaN,1e-3]],
        "parameters":{"content_type":"np"}}],"id":"a","more":{"k":[1]}}"#;
    let two = one.replace("NaN,1e-3", "-0.0, 1.50").replace("\"a\"", "\"b\\u0041\"");
    let (one, two) = (parse(one).unwrap(), parse(&two).unwrap());
    assert_eq!(one.batch_key(), two.batch_key());
    let merged = Template::merge(&[&one, &two]).json;
    let wanted = r#"{ "inputs":[{"name":"x","shape":[2, 2],"datatype":"FP16","data":[[NaN,1e-3],[-0.0, 1.50]],
        "parameters":{"content_type":"np"}}],"id":"a","more":{"k":[1]}}"#;
    assert_eq!(merged, wanted);
    assert_eq!(two.id().unwrap(), "\"b\\u0041\"");
}

const PLAIN: &str = r#"{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}"#;

#[test]
fn different_requests_do_not_share_a_batch() {
    let plain = parse(PLAIN).unwrap().batch_key();
    for (from, to) in [
        ("[1,2],\"d", "[1,2,1],\"d"),
        ("FP32", "FP64"),
        ("\"x\"", "\"y\""),
        ("[1,2]}", "[[1,2]]}"),
        ("}]}", "}],\"outputs\":[{\"name\":\"y\"}]}"),
        ("}]}", "}],\"parameters\":{\"priority\":1}}"),
    ] {
        let other = parse(&PLAIN.replace(from, to)).unwrap();
        assert_ne!(other.batch_key(), plain, "{to}");
    }
    let longer = PLAIN.replace("[1,2],\"d", "[2,2],\"d").replace("[1,2]}", "[1,2,3,4]}");
    assert_eq!(parse(&longer).unwrap().batch_key(), plain);
}

#[test]
fn requests_that_cannot_be_merged_are_rejected() {
    for (from, to) in [
        ("[1,2],\"d", "[0,2],\"d"),
        ("[1,2],\"d", "[],\"d"),
        ("[1,2],\"d", "[1,3],\"d"),
        ("[1,2],\"d", "[-1,2],\"d"),
        ("[1,2]}", "[1,2,3]}"),
        ("[1,2]}", "[1,2}"),
        ("\"data\":[1,2]", "\"parameters\":{\"shared_memory_region\":\"r\"}"),
        ("\"data\":[1,2]", "\"parameters\":{\"binary_data_size\":8}"),
        ("}]}", "}],\"parameters\":{\"sequence_id\":1}}"),
        ("}]}", "}],\"outputs\":[{\"parameters\":{\"shared_memory_region\":\"r\"}}]}"),
        ("}]}", "},{\"name\":\"y\",\"shape\":[2],\"datatype\":\"INT8\",\"data\":[1,2]}]}"),
        ("}]}", "}],\"inputs\":[]}"),
        ("inputs", "input"),
    ] {
        assert!(parse(&PLAIN.replace(from, to)).is_err(), "{to}");
    }
}
