//! Tests of the members of a request.

use weir_protocol::{DataType, Delivery, Parameter, SharedRange, Source};

use crate::{decode, inline_data, refused, refuses, refuses_data, with_input, with_members, with_output};

#[test]
fn every_field_is_decoded() {
    let request = decode(
        r#"{"id":"7","parameters":{"priority":2,"note":"a"},"inputs":[{"name":"x","shape":[2],
        "datatype":"INT16","data":[1,-2]}],"outputs":[{"name":"y"},{"name":"z"}]}"#,
    )
    .unwrap();
    assert_eq!((request.model.as_str(), request.id.as_str()), ("m", "7"));
    assert_eq!(request.parameters["priority"], Parameter::Uint(2));
    assert_eq!(request.parameters["note"], Parameter::String("a".to_owned()));
    assert_eq!(request.inputs[0].datatype, DataType::Int16);
    assert_eq!(request.inputs[0].shape.dims(), [2]);
    assert_eq!(inline_data(&request.inputs[0].source), [1, 0, 0xfe, 0xff]);
    let names: Vec<&str> = request.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(names, ["y", "z"]);
    assert_eq!(request.default_delivery, Delivery::Json);
}

#[test]
fn keys_come_in_any_order() {
    let early = decode(
        r#"{"outputs":[{"parameters":{"binary_data":true},"name":"y"}],"extra":{"a":[1,{}]},
        "inputs":[{"data":[[1],[2]],"extra":null,"shape":[2],"datatype":"INT8","name":"x"}],"id":"q"}"#,
    );
    let early = early.unwrap();
    assert_eq!(inline_data(&early.inputs[0].source), [1, 2]);
    assert_eq!(early.outputs[0].delivery, Delivery::Binary);
    assert_eq!(early.id, "q");
}

#[test]
fn null_members_count_as_absent() {
    let json = with_members("\"id\":null,\"parameters\":null,\"outputs\":null");
    let request = decode(&json).unwrap();
    assert_eq!((request.id.as_str(), request.outputs.len()), ("", 0));
    let json =
        with_input(r#""name":"x","datatype":"INT8","shape":[1],"data":null,"parameters":{"binary_data_size":0}"#);
    assert_eq!(inline_data(&decode(&json).unwrap().inputs[0].source), b"");
}

#[test]
fn bodies_other_than_requests_are_refused() {
    refuses("", "failed to parse the request JSON buffer: The document is empty. at 0");
    refuses("not json", "failed to parse the request JSON buffer: Invalid value. at 0");
    refuses(
        "{\"inputs\":[",
        "failed to parse the request JSON buffer: Missing a comma or ] after an array element. at 11",
    );
    refuses(
        "{\"inputs\":[]} {}",
        "failed to parse the request JSON buffer: The document root must not be followed by other values. at 14",
    );
    refuses("[]", "Unable to parse 'request': attempt to access JSON non-object as object");
    refuses("{}", "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'");
    refuses("{\"inputs\":{}}", "Unable to parse 'inputs': attempt to access JSON non-array as array");
    refuses("{\"inputs\":[1]}", "Unable to parse 'inputs': attempt to access JSON non-object as object");
    refuses(&with_members("\"id\":5"), "Unable to parse 'id': attempt to access JSON non-string as string");
    refuses(&with_members("\"outputs\":5"), "Unable to parse 'outputs': attempt to access JSON non-array as array");
    let deep = format!("{{\"x\":{}", "[".repeat(250_000));
    refuses(&deep, "JSON nesting depth exceeds maximum allowed limit (100)");
}

#[test]
fn inputs_need_their_members() {
    let data = "\"data\":[1]";
    let check = |members: &str, field: &str| {
        let words = format!("Unable to parse '{field}': attempt to access non-existing object member '{field}'");
        refuses(&with_input(&format!("{members},{data}")), &words);
    };
    check("\"datatype\":\"INT8\",\"shape\":[1]", "name");
    check("\"name\":\"x\",\"shape\":[1]", "datatype");
    check("\"name\":\"x\",\"datatype\":\"INT8\"", "shape");
    let wrong = |members: &str, words: &str| refuses(&with_input(members), words);
    wrong("\"name\":1", "Unable to parse 'name': attempt to access JSON non-string as string");
    wrong("\"datatype\":1", "Unable to parse 'datatype': attempt to access JSON non-string as string");
    refuses_data("INT128", "[1]", "[1]", "invalid datatype 'INT128' for input x");
    refuses_data("int8", "[1]", "[1]", "invalid datatype 'int8' for input x");
}

#[test]
fn repeated_keys_are_refused() {
    refuses("{\"id\":\"a\",\"id\":\"a\"}", "duplicate key 'id' in request");
    refuses("{\"inputs\":[],\"inputs\":[]}", "duplicate key 'inputs' in request");
    refuses("{\"parameters\":{\"a\":1,\"a\":2}}", "duplicate key 'a' in parameters");
    refuses("{\"parameters\":{},\"parameters\":{}}", "duplicate key 'parameters' in request");
    refuses(&with_input("\"name\":\"x\",\"name\":\"x\""), "duplicate key 'name' in input");
    refuses(&with_input("\"data\":[1],\"data\":[1]"), "duplicate key 'data' in input");
    refuses(&with_output("\"name\":\"x\",\"name\":\"x\""), "duplicate key 'name' in output");
}

#[test]
fn repeated_names_are_refused() {
    let input = "{\"name\":\"INPUT0\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}";
    refuses(&format!("{{\"inputs\":[{input},{input}]}}"), "input 'INPUT0' already exists in request");
    let json = with_members("\"outputs\":[{\"name\":\"OUTPUT0\"},{\"name\":\"OUTPUT0\"}]");
    refuses(&json, "output 'OUTPUT0' already exists in request");
}

#[test]
fn data_has_exactly_one_source() {
    let but = |members: &str, found: &str| {
        let head = "\"name\":\"x\",\"datatype\":\"INT8\",\"shape\":[1]";
        let words = format!(
            "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But {found}"
        );
        refuses(&with_input(&format!("{head}{members}")), &words);
    };
    but("", "no field is set");
    but(",\"parameters\":{\"other\":1}", "no field is set");
    but(",\"data\":[1],\"parameters\":{\"binary_data_size\":1}", "set 'data' 'binary_data_size'");
    but(",\"parameters\":{\"shared_memory_region\":\"r\"},\"data\":[1]", "set 'data' 'shared_memory_region'");
    but(
        ",\"parameters\":{\"shared_memory_region\":\"r\",\"binary_data_size\":1}",
        "set 'binary_data_size' 'shared_memory_region'",
    );
}

#[test]
fn shared_memory_is_named() {
    let json = with_input(
        r#""name":"x","datatype":"INT8","shape":[4],"parameters":{"shared_memory_region":"r",
        "shared_memory_byte_size":4,"shared_memory_offset":8}"#,
    );
    let range = SharedRange { region: "r".to_owned(), offset: 8, size: 4 };
    assert_eq!(decode(&json).unwrap().inputs[0].source, Source::Shared(range.clone()));
    let parameters = "{\"shared_memory_offset\":8,\"shared_memory_byte_size\":4,\"shared_memory_region\":\"r\"}";
    let json = with_output(&format!("\"name\":\"y\",\"parameters\":{parameters}"));
    assert_eq!(decode(&json).unwrap().outputs[0].delivery, Delivery::Shared(range));
    let both = |other: &str, value: &str| {
        let json = with_output(&format!(
            "\"name\":\"y\",\"parameters\":{{\"shared_memory_region\":\"r\",\"{other}\":{value}}}"
        ));
        refuses(&json, &format!("Output can't set both 'shared_memory_region' and '{other}'"));
    };
    both("classification", "1");
    both("binary_data", "true");
    let unsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer";
    refuses(
        &with_output("\"name\":\"y\",\"parameters\":{\"shared_memory_offset\":-1}"),
        &format!("Unable to parse 'shared_memory_offset': {unsigned}"),
    );
}

#[test]
fn outputs_choose_their_delivery() {
    let delivery = |parameters: &str, members: &str| {
        let json = format!("\"parameters\":{{{parameters}}},\"outputs\":[{{\"name\":\"y\"{members}}}]");
        decode(&with_members(&json)).unwrap().outputs[0].delivery.clone()
    };
    assert_eq!(delivery("", ""), Delivery::Json);
    assert_eq!(delivery("", ",\"parameters\":{\"binary_data\":true}"), Delivery::Binary);
    assert_eq!(delivery("\"binary_data_output\":true", ""), Delivery::Binary);
    let no = ",\"parameters\":{\"binary_data\":false}";
    assert_eq!(delivery("\"binary_data_output\":true", no), Delivery::Json);
    let request = decode(&with_members("\"parameters\":{\"binary_data_output\":true}")).unwrap();
    assert_eq!(request.default_delivery, Delivery::Binary);
    assert!(request.parameters.is_empty());
}

#[test]
fn outputs_may_ask_for_classes() {
    let classes = |n: &str| {
        let json = with_output(&format!("\"name\":\"y\",\"parameters\":{{\"classification\":{n}}}"));
        decode(&json).map(|request| request.outputs[0].classes.map(std::num::NonZero::get))
    };
    assert_eq!(classes("3").unwrap(), Some(3));
    assert_eq!(classes("0").unwrap(), None);
    refused(
        classes("-1"),
        "Unable to parse 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
    );
    refuses(&with_output(""), "Unable to parse 'name': attempt to access non-existing object member 'name'");
    refuses(
        &with_output("\"name\":\"y\",\"parameters\":{\"binary_data\":1}"),
        "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
    );
}

#[test]
fn parameters_keep_their_types() {
    let json = with_members(
        r#""parameters":{"b":true,"i":-3,"u":18446744073709551615,"d":1.5,"e":1e2,"s":"t",
        "sequence_id":5,"sequence_start":true,"timeout":10,"headers":"h"}"#,
    );
    let parameters = decode(&json).unwrap().parameters;
    for (key, value) in [
        ("b", Parameter::Bool(true)),
        ("i", Parameter::Int(-3)),
        ("u", Parameter::Uint(u64::MAX)),
        ("d", Parameter::Double(1.5)),
        ("e", Parameter::Double(100.0)),
        ("s", Parameter::String("t".to_owned())),
        ("sequence_id", Parameter::Uint(5)),
        ("sequence_start", Parameter::Bool(true)),
        ("timeout", Parameter::Uint(10)),
        ("headers", Parameter::String("h".to_owned())),
    ] {
        assert_eq!(parameters[key], value, "{key}");
    }
}

#[test]
fn wrong_parameters_are_refused() {
    let check = |key: &str, value: &str, words: &str| {
        refuses(&with_members(&format!("\"parameters\":{{\"{key}\":{value}}}")), words);
    };
    for value in ["{}", "[1]", "null"] {
        let words = "parameter 'k' has invalid type. It should be either 'int', 'bool', or 'string'.";
        check("k", value, words);
    }
    check(
        "triton_x",
        "1",
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    );
    let unsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer";
    check("priority", "-1", &format!("Unable to parse 'priority': {unsigned}"));
    check("timeout", "\"1\"", &format!("Unable to parse 'timeout': {unsigned}"));
    check("sequence_id", "true", "Unable to parse 'sequence_id': attempt to access JSON non-string as string");
    let boolean = "attempt to access JSON non-boolean as boolean";
    check("sequence_start", "1", &format!("Unable to parse 'sequence_start': {boolean}"));
    check("sequence_end", "null", &format!("Unable to parse 'sequence_end': {boolean}"));
    check("binary_data_output", "\"yes\"", &format!("Unable to parse 'binary_data_output': {boolean}"));
    check("d", "1e999", "Unable to parse 'd': number is out of range");
    refuses(
        &with_members("\"parameters\":[]"),
        "Unable to parse 'parameters': attempt to access JSON non-object as object",
    );
}
