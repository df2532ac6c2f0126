use weir_protocol::rest::{Limits, RestError, decode_predict, encode_predict};
use weir_protocol::{DataType, Delivery, InferRequest, TensorSpec};

use crate::response::{response, tensor};
use crate::{batching, inline_data, refused, spec};

fn one() -> Vec<TensorSpec> {
    vec![spec("x", DataType::Int8, &[-1, -1])]
}

fn two() -> Vec<TensorSpec> {
    vec![spec("a", DataType::Int8, &[-1]), spec("s", DataType::Bytes, &[-1, -1])]
}

fn decode(inputs: &[TensorSpec], json: &str) -> Result<InferRequest, RestError> {
    decode_predict(&batching(inputs), json.as_bytes(), &Limits::DEFAULT)
}

#[track_caller]
fn reads(inputs: &[TensorSpec], json: &str, expected: &[(&str, &[usize], &[u8])]) {
    let request = decode(inputs, json).unwrap();
    let read: Vec<_> = request
        .inputs
        .iter()
        .map(|input| (input.name.as_str(), input.shape.dims(), inline_data(&input.source)))
        .collect();
    assert_eq!(read, expected, "{json}");
    assert_eq!(request.default_delivery, Delivery::Json);
}

#[test]
fn rows_of_values() {
    reads(&one(), "{\"instances\":[[1,2],[3,4],[5,6]]}", &[("x", &[3, 2], &[1, 2, 3, 4, 5, 6])]);
    reads(&one(), "{\"instances\":[1,2]}", &[("x", &[2], &[1, 2])]);
    reads(&one(), "{\"instances\":[]}", &[("x", &[0], &[])]);
    reads(&one(), "{\"instances\":[[],[]],\"signature_name\":\"s\"}", &[("x", &[2, 0], &[])]);
    reads(&one(), "{\"instances\":[[[[1]]]]}", &[("x", &[1, 1, 1, 1], &[1])]);
}

#[test]
fn rows_by_name() {
    let json = r#"{"instances":[{"a":1,"s":["p","q"]},{"s":["r",""],"a":2}]}"#;
    let strings = b"\x01\0\0\0p\x01\0\0\0q\x01\0\0\0r\0\0\0\0";
    reads(&two(), json, &[("a", &[2], &[1, 2]), ("s", &[2, 2], strings)]);
    reads(&one(), "{\"instances\":[{\"x\":[1,2]}]}", &[("x", &[1, 2], &[1, 2])]);
}

#[test]
fn columns() {
    reads(&one(), "{\"inputs\":[[1],[2]]}", &[("x", &[2, 1], &[1, 2])]);
    reads(&two(), "{\"inputs\":{\"s\":[[\"p\"]],\"a\":[7]}}", &[("s", &[1, 1], b"\x01\0\0\0p"), ("a", &[1], &[7])]);
}

#[test]
fn byte_strings_come_in_base64() {
    let strings = [spec("s", DataType::Bytes, &[-1])];
    let json = "{\"instances\":[{\"b64\":\"AP8=\"},\"x\"]}";
    reads(&strings, json, &[("s", &[2], b"\x02\0\0\0\0\xff\x01\0\0\0x")]);
    reads(&strings, "{\"inputs\":{\"b64\":\"AA==\"}}", &[("s", &[], b"\x01\0\0\0\0")]);
    reads(&strings, "{\"instances\":[{\"s\":{\"b64\":\"\"}}]}", &[("s", &[1], b"\0\0\0\0")]);
    reads(&strings, "{\"instances\":[{\"b64\":\"AP\\n8=\\n\"}]}", &[("s", &[1], b"\x02\0\0\0\0\xff")]);
    refused(
        decode(&strings, "{\"instances\":[{\"b64\":\"?\"}]}"),
        "Unable to parse 'b64': Invalid symbol 63, offset 0.",
    );
}

#[test]
fn half_precision_is_read_as_numbers() {
    let inputs = [spec("h", DataType::Fp16, &[-1])];
    reads(&inputs, "{\"instances\":[1.5]}", &[("h", &[1], &[0, 0x3e])]);
    refused(decode(&inputs, "{\"instances\":[1e6]}"), "Unable to parse 'h': 1e6 is out of range for FP16 input 'h'");
}

#[test]
fn empty_objects_are_not_rows() {
    refused(decode(&two(), "{\"instances\":[{},{}]}"), "'instances' must name the inputs: these are empty objects");
    let one_row = decode(&two(), "{\"instances\":[{}]}").unwrap();
    assert!(one_row.inputs.is_empty());
}

#[test]
fn wrong_bodies_are_refused() {
    let ragged = "input 'x' is ragged: its arrays differ in length or depth";
    for json in [
        "{\"instances\":[[1,2],[3]]}",
        "{\"instances\":[[1],2]}",
        "{\"instances\":[1,[2]]}",
        "{\"instances\":[[1],[]]}",
        "{\"instances\":[[],[1]]}",
        "{\"instances\":[[[]],[1]]}",
        "{\"instances\":[{\"x\":[1]},{\"x\":1}]}",
    ] {
        refused(decode(&one(), json), ragged);
    }
    let check = |json: &str, words: &str| refused(decode(&two(), json), words);
    check("{}", "request has neither 'instances' nor 'inputs'");
    check("{\"inputs\":{},\"instances\":[]}", "request must have either 'instances' or 'inputs'");
    check("{\"instances\":5}", "Unable to parse 'instances': attempt to access JSON non-array as array");
    check("{\"instances\":[1]}", "'instances' must name the inputs: model 'm' has 2 inputs");
    check("{\"inputs\":[1]}", "'inputs' must name the inputs: model 'm' has 2 inputs");
    check("{\"inputs\":{\"z\":1}}", "unexpected inference input 'z' for model 'm'");
    check("{\"inputs\":{\"a\":[1],\"a\":[1]}}", "input 'a' already exists in request");
    let differs =
        |row: usize, name: &str| format!("instance {row} must have input '{name}' once, as the other instances do");
    check("{\"instances\":[{\"a\":1},{\"s\":[]}]}", &differs(1, "s"));
    check("{\"instances\":[{\"a\":1,\"s\":[]},{\"s\":[]}]}", &differs(1, "a"));
    check("{\"instances\":[{\"a\":1,\"a\":1}]}", &differs(0, "a"));
    check("{\"instances\":[{\"a\":1},5]}", "Unable to parse 'instances': attempt to access JSON non-object as object");
    check(
        "{\"inputs\":{\"a\":\"x\"}}",
        "Unable to parse 'a': attempt to access JSON non-signed-integer as signed-integer for input 'a'",
    );
}

#[track_caller]
fn writes(outputs: Vec<weir_protocol::Tensor>, expected: &str) {
    let outputs = outputs.into_iter().map(|tensor| (tensor, Delivery::Json)).collect();
    let body = encode_predict(&response(outputs)).unwrap();
    assert_eq!(body, format!("{{\"predictions\":{expected}}}"));
}

#[test]
fn predictions_are_nested_rows() {
    let x = tensor("x", DataType::Int8, &[2, 1, 2], &[1, 2, 3, 4]);
    let s = tensor("s", DataType::Bytes, &[2], b"\x01\0\0\0a\x01\0\0\0\xff");
    let h = tensor("h", DataType::Fp16, &[2], &[0, 0x3e, 0, 0]);
    writes(vec![x.clone()], "[[[1,2]],[[3,4]]]");
    writes(vec![x, s, h], r#"[{"x":[[1,2]],"s":"a","h":1.5},{"x":[[3,4]],"s":{"b64":"/w=="},"h":0.0}]"#);
    writes(vec![tensor("e", DataType::Fp32, &[2, 0], &[])], "[[],[]]");
    writes(vec![tensor("e", DataType::Fp32, &[0, 2], &[])], "[]");
    writes(Vec::new(), "[]");
}

#[test]
fn outputs_that_cannot_be_rows_are_refused() {
    let check = |dims: &[i64], data: &[u8], shape: &str| {
        let first = tensor("x", DataType::Int8, &[1], &[1]);
        let odd = tensor("y", DataType::Int8, dims, data);
        let outputs = vec![(first, Delivery::Json), (odd, Delivery::Json)];
        let words = format!("output 'y' of shape {shape} cannot be written as rows of 'predictions'");
        refused(encode_predict(&response(outputs)), &words);
    };
    check(&[], &[1], "[]");
    check(&[2], &[1, 2], "[2]");
    check(&[1, 1_000_000_000, 0], &[], "[1,1000000000,0]");
}
