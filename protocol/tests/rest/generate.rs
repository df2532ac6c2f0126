use weir_protocol::rest::{Limits, decode_generate, encode_generate, event};
use weir_protocol::{DataType, Delivery, InferRequest, InferResponse, Parameter, Parameters};

use crate::response::{response, tensor};
use crate::{batching, inline_data, refused, spec};

fn decode(json: &str) -> Result<InferRequest, weir_protocol::rest::RestError> {
    let inputs = [
        spec("TEXT", DataType::Bytes, &[-1, 1]),
        spec("N", DataType::Int32, &[-1, 2, -1]),
        spec("H", DataType::Fp16, &[-1, 1]),
    ];
    decode_generate(&batching(&inputs), json.as_bytes(), &Limits::DEFAULT)
}

#[test]
fn members_are_inputs_or_parameters() {
    let request =
        decode(r#"{"id":"7","TEXT":"hi","temperature":0.5,"stop":false,"parameters":{"k":1,"N":[1,2,3,4]}}"#).unwrap();
    assert_eq!(request.id, "7");
    assert_eq!(request.inputs[0].shape.dims(), [1, 1]);
    assert_eq!(inline_data(&request.inputs[0].source), b"\x02\0\0\0hi");
    assert_eq!(request.inputs[1].shape.dims(), [1, 2, 2]);
    assert_eq!(request.parameters["temperature"], Parameter::Double(0.5));
    assert_eq!(request.parameters["stop"], Parameter::Bool(false));
    assert_eq!(request.parameters["k"], Parameter::Int(1));
    assert_eq!(request.default_delivery, Delivery::Json);
}

#[test]
fn null_counts_as_an_absent_id_or_parameters() {
    let request = decode("{\"TEXT\":\"hi\",\"id\":null,\"parameters\":null}").unwrap();
    assert_eq!((request.id.as_str(), request.parameters.len()), ("", 0));
    assert_eq!(request.inputs.len(), 1);
}

#[test]
fn arrays_fill_the_variable_dimensions() {
    let shape = |json: &str| decode(json).map(|request| request.inputs[0].shape.dims().to_vec());
    assert_eq!(shape("{\"TEXT\":[\"a\",\"b\"]}").unwrap(), [2, 1]);
    assert_eq!(shape("{\"N\":[1,2]}").unwrap(), [1, 2, 1]);
    assert_eq!(shape("{\"N\":[]}").unwrap(), [1, 2, 0]);
    refused(shape("{\"N\":[1,2,3]}"), "The schema can not convert input 'N' to tensor with proper shape");
}

#[test]
fn nesting_gives_the_shape_or_is_refused() {
    let shape = |json: &str| decode(json).map(|request| request.inputs[0].shape.dims().to_vec());
    let nested = "{\"N\":[[[1,2,3],[4,5,6]],[[7,8,9],[0,1,2]]]}";
    assert_eq!(shape(nested).unwrap(), [2, 2, 3]);
    assert_eq!(shape("{\"TEXT\":[[\"a\"],[\"b\"]]}").unwrap(), [2, 1]);
    assert_eq!(shape("{\"N\":[[1,2],[3,4]]}").unwrap(), [1, 2, 2]);
    for other in ["[[1,2],[3,4],[5,6]]", "[[1,2,3],[4]]", "[[1,2],3,4]"] {
        refused(
            shape(&format!("{{\"N\":{other}}}")),
            "The schema can not convert input 'N' to tensor with proper shape",
        );
    }
}

#[test]
fn wrong_bodies_are_refused() {
    let check = |json: &str, words: &str| refused(decode(json), words);
    check("[]", "Unable to parse 'request': attempt to access JSON non-object as object");
    check("{", "failed to parse the request JSON buffer: Missing a comma or } after an object member. at 1");
    check("{\"TEXT\":1}", "Unable to parse 'TEXT': attempt to access JSON non-string as string for input 'TEXT'");
    check("{\"N\":[1,3000000000]}", "Unable to parse 'N': 3000000000 is out of range for INT32 input 'N'");
    check("{\"TEXT\":\"a\",\"TEXT\":\"b\"}", "input 'TEXT' already exists in request");
    check("{\"TEXT\":\"a\",\"parameters\":{\"TEXT\":\"b\"}}", "input 'TEXT' already exists in request");
    check("{\"a\":[1]}", "parameter 'a' has invalid type. It should be either 'int', 'bool', or 'string'.");
    check("{\"a\":1,\"parameters\":{\"a\":1}}", "duplicate key 'a' in parameters");
    check("{\"id\":\"a\",\"id\":\"b\"}", "duplicate key 'id' in request");
    check("{\"parameters\":{\"a\":1},\"parameters\":{\"b\":1}}", "duplicate key 'parameters' in request");
    check("{\"H\":1}", "receiving FP16 data via JSON is not supported. Please use the binary data format for input H");
}

#[test]
fn responses_are_flat() {
    let outputs = vec![
        (tensor("b", DataType::Fp32, &[1, 2], &[0; 8]), Delivery::Json),
        (tensor("a", DataType::Bytes, &[1, 1], b"\x02\0\0\0hi"), Delivery::Json),
    ];
    let answer = InferResponse {
        id: "7".to_owned(),
        parameters: Parameters::from([("p".to_owned(), Parameter::Uint(3))]),
        ..response(outputs)
    };
    assert_eq!(
        encode_generate(&answer).unwrap(),
        r#"{"a":"hi","b":[0.0,0.0],"id":"7","model_name":"m","model_version":"1","p":3}"#
    );
    let half = response(vec![(tensor("h", DataType::Fp16, &[1], &[0; 2]), Delivery::Json)]);
    refused(
        encode_generate(&half),
        "sending FP16 data via JSON is not supported. Please use the binary data format for output h",
    );
}

#[test]
fn outputs_replace_members_of_the_same_name() {
    let names = ["id", "model_name", "p"];
    let outputs = names.map(|name| {
        let output = tensor(name, DataType::Int8, &[1], &[9]);
        (output, Delivery::Json)
    });
    let answer = InferResponse {
        id: "7".to_owned(),
        parameters: Parameters::from([("p".to_owned(), Parameter::Uint(3))]),
        ..response(outputs.into())
    };
    assert_eq!(encode_generate(&answer).unwrap(), r#"{"id":9,"model_name":9,"model_version":"1","p":9}"#);
}

#[test]
fn events_are_framed() {
    assert_eq!(event(b"{}"), "data: {}\n\n");
}
