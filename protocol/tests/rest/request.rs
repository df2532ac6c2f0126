use bytes::Bytes;
use weir_protocol::rest::{Limits, decode_request, parse_header_length};
use weir_protocol::{Code, Coded, DataType, Delivery, Parameter, SharedRange, Source};

use crate::{decode, inline, refused};

/// A request with one input of these members.
fn with_input(members: &str) -> String {
    format!("{{\"inputs\":[{{{members}}}]}}")
}

/// A request whose input has this datatype, shape and data.
fn with_data(datatype: &str, shape: &str, data: &str) -> String {
    with_input(&format!(
        "\"name\":\"x\",\"datatype\":\"{datatype}\",\"shape\":{shape},\"data\":{data}"
    ))
}

/// A request with one good input and these members besides.
fn with_members(members: &str) -> String {
    let input = "{\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}";
    format!("{{\"inputs\":[{input}],{members}}}")
}

fn with_output(members: &str) -> String {
    with_members(&format!("\"outputs\":[{{{members}}}]"))
}

#[track_caller]
fn bytes_of(datatype: &str, shape: &str, data: &str) -> Vec<u8> {
    let request = decode(&with_data(datatype, shape, data)).unwrap();
    inline(&request.inputs[0].source).to_vec()
}

#[track_caller]
fn refuses(json: &str, words: &str) {
    refused(decode(json), words);
}

#[track_caller]
fn refuses_data(datatype: &str, shape: &str, data: &str, words: &str) {
    refuses(&with_data(datatype, shape, data), words);
}

#[test]
fn every_field_arrives() {
    let request = decode(
        r#"{"id":"7","parameters":{"priority":2,"note":"a"},"inputs":[{"name":"x","shape":[2],
        "datatype":"INT16","data":[1,-2]}],"outputs":[{"name":"y"},{"name":"z"}]}"#,
    )
    .unwrap();
    assert_eq!((request.model.as_str(), request.id.as_str()), ("m", "7"));
    assert_eq!(request.parameters["priority"], Parameter::Uint(2));
    assert_eq!(
        request.parameters["note"],
        Parameter::String("a".to_owned())
    );
    assert_eq!(request.inputs[0].datatype, DataType::Int16);
    assert_eq!(request.inputs[0].shape.dims(), [2]);
    assert_eq!(inline(&request.inputs[0].source), [1, 0, 0xfe, 0xff]);
    let names: Vec<&str> = request
        .outputs
        .iter()
        .map(|output| output.name.as_str())
        .collect();
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
    assert_eq!(inline(&early.inputs[0].source), [1, 2]);
    assert_eq!(early.outputs[0].delivery, Delivery::Binary);
    assert_eq!(early.id, "q");
}

#[test]
fn null_is_as_good_as_absent() {
    let json = with_members("\"id\":null,\"parameters\":null,\"outputs\":null");
    let request = decode(&json).unwrap();
    assert_eq!((request.id.as_str(), request.outputs.len()), ("", 0));
    let json = with_input(
        r#""name":"x","datatype":"INT8","shape":[1],"data":null,"parameters":{"binary_data_size":0}"#,
    );
    assert_eq!(inline(&decode(&json).unwrap().inputs[0].source), b"");
}

#[test]
fn scalars_become_little_endian_bytes() {
    assert_eq!(bytes_of("BOOL", "[2]", "[true,false]"), [1, 0]);
    assert_eq!(bytes_of("UINT8", "[2]", "[0,255]"), [0, 255]);
    assert_eq!(bytes_of("INT8", "[2]", "[-128,127]"), [128, 127]);
    assert_eq!(bytes_of("UINT16", "[1]", "[65535]"), u16::MAX.to_le_bytes());
    assert_eq!(bytes_of("INT16", "[1]", "[-32768]"), i16::MIN.to_le_bytes());
    assert_eq!(
        bytes_of("UINT32", "[1]", "[4294967295]"),
        u32::MAX.to_le_bytes()
    );
    assert_eq!(
        bytes_of("INT32", "[1]", "[-2147483648]"),
        i32::MIN.to_le_bytes()
    );
    assert_eq!(
        bytes_of("UINT64", "[1]", "[18446744073709551615]"),
        u64::MAX.to_le_bytes()
    );
    assert_eq!(
        bytes_of("INT64", "[1]", "[-9223372036854775808]"),
        i64::MIN.to_le_bytes()
    );
    assert_eq!(bytes_of("FP32", "[1]", "[0.1]"), 0.1_f32.to_le_bytes());
    assert_eq!(bytes_of("FP32", "[1]", "[3]"), 3_f32.to_le_bytes());
    assert_eq!(
        bytes_of("FP64", "[1]", "[-1e-3]"),
        (-1e-3_f64).to_le_bytes()
    );
    assert_eq!(
        bytes_of("FP32", "[1]", "[-Infinity]"),
        f32::NEG_INFINITY.to_le_bytes()
    );
    assert_eq!(
        bytes_of("FP64", "[1]", "[Inf]"),
        f64::INFINITY.to_le_bytes()
    );
    assert_eq!(bytes_of("FP64", "[1]", "[NaN]"), f64::NAN.to_le_bytes());
    assert_eq!(
        bytes_of("BYTES", "[3]", r#"["a","é",""]"#),
        b"\x01\0\0\0a\x02\0\0\0\xc3\xa9\0\0\0\0"
    );
    assert_eq!(
        bytes_of("BYTES", "[1]", r#"["a\u0000\n"]"#),
        b"\x03\0\0\0a\0\n"
    );
}

#[test]
fn only_the_count_of_scalars_matters() {
    assert_eq!(bytes_of("INT8", "[2,2]", "[1,2,3,4]"), [1, 2, 3, 4]);
    assert_eq!(bytes_of("INT8", "[2,2]", "[[1,2],[3,4]]"), [1, 2, 3, 4]);
    assert_eq!(
        bytes_of("INT8", "[4]", "[[[1],2],[[],[3,[4]]]]"),
        [1, 2, 3, 4]
    );
    assert_eq!(bytes_of("INT8", "[0]", "[]"), [0_u8; 0]);
    assert_eq!(bytes_of("INT8", "[2,0]", "[[],[]]"), [0_u8; 0]);
    assert_eq!(bytes_of("INT8", "[]", "[5]"), [5]);
    let deep = format!("{}123{}", "[".repeat(50), "]".repeat(50));
    assert_eq!(bytes_of("INT8", "[1,1]", &deep), [123]);
    let deep = format!("{}123{}", "[".repeat(120), "]".repeat(120));
    refuses_data(
        "INT8",
        "[1,1]",
        &deep,
        "JSON nesting depth exceeds maximum allowed limit (100)",
    );
}

#[test]
fn wrong_counts_are_refused() {
    let words = "Unable to parse 'data': Shape does not match true shape of 'data' field";
    refuses_data("INT8", "[2]", "[1]", words);
    refuses_data("INT8", "[2]", "[1,2,3]", words);
    refuses_data("INT8", "[0]", "[1]", words);
    refuses_data("FP32", "[1000000]", "[1]", words);
    refuses_data("BYTES", "[2]", "[\"a\"]", words);
    refuses_data("BYTES", "[1]", "[\"a\",\"b\"]", words);
}

#[test]
fn wrong_scalars_are_refused() {
    let bool_words = "Unable to parse 'data': attempt to access JSON non-boolean as boolean";
    refuses_data("BOOL", "[1]", "[1]", bool_words);
    refuses_data("BOOL", "[1]", "[\"true\"]", bool_words);
    let unsigned =
        "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer";
    refuses_data("UINT8", "[1]", "[-1]", unsigned);
    refuses_data("UINT64", "[1]", "[1.5]", unsigned);
    refuses_data("UINT64", "[1]", "[18446744073709551616]", unsigned);
    refuses_data("UINT32", "[1]", "[null]", unsigned);
    let signed =
        "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer";
    refuses_data("INT32", "[1]", "[1e3]", signed);
    refuses_data("INT64", "[1]", "[9223372036854775808]", signed);
    let number = "Unable to parse 'data': attempt to access JSON non-number as number";
    refuses_data("FP32", "[1]", "[\"1\"]", number);
    refuses_data("FP64", "[1]", "[{}]", number);
    let string = "Unable to parse 'data': attempt to access JSON non-string as string";
    refuses_data("BYTES", "[1]", "[1]", string);
    let array = "Unable to parse 'data': attempt to access JSON non-array as array";
    refuses_data("FP32", "[1]", "1", array);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let check = |datatype: &str, value: &str| {
        let words =
            format!("Unable to parse 'data': {value} is out of range for {datatype} input 'x'");
        refuses_data(datatype, "[1]", &format!("[{value}]"), &words);
        // The same where the datatype comes after the data.
        let json = with_input(&format!(
            "\"data\":[{value}],\"name\":\"x\",\"shape\":[1],\"datatype\":\"{datatype}\""
        ));
        refuses(&json, &words);
    };
    check("INT8", "300");
    check("INT8", "-129");
    check("UINT8", "256");
    check("UINT16", "65536");
    check("INT16", "32768");
    check("UINT32", "4294967296");
    check("INT32", "-2147483649");
    check("FP32", "1e39");
    check("FP64", "-1e309");
}

#[test]
fn half_precision_is_binary_only() {
    for datatype in ["FP16", "BF16"] {
        let words = format!(
            "receiving {datatype} data via JSON is not supported. Please use the binary data format for input x"
        );
        refuses_data(datatype, "[1]", "[1]", &words);
    }
}

#[test]
fn shapes_are_bounded() {
    let shape =
        "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer";
    refuses_data("FP32", "[-1,4]", "[1]", shape);
    refuses_data("FP32", "[1.0]", "[1]", shape);
    let array = "Unable to parse 'shape': attempt to access JSON non-array as array";
    refuses_data("FP32", "4", "[1]", array);
    refuses_data(
        "FP32",
        "[16,1152921504606846978]",
        "[1]",
        "invalid shape for input 'x': shape [16,1152921504606846978] causes total element count to exceed maximum size of 9223372036854775807",
    );
    refuses_data(
        "FP32",
        "[4,1152921504606846978]",
        "[1]",
        "byte size overflow for input 'x': element count (4611686018427387912) * data type size (4) exceeds maximum allowed size (9223372036854775807)",
    );
    refuses_data(
        "UINT8",
        "[2305843009213693952]",
        "[1]",
        "invalid shape for input 'x': shape [2305843009213693952] causes total element count to exceed maximum size of 1152921504606846975",
    );
    refuses_data(
        "UINT8",
        "[9223372036854775808]",
        "[1]",
        "invalid shape for input 'x': shape [9223372036854775808] contains one or more invalid dimensions",
    );
    let long = format!("[{}1]", "1,".repeat(64));
    refuses_data(
        "UINT8",
        &long,
        "[1]",
        "shape of input 'x' has more than 64 dimensions",
    );
}

#[test]
fn json_tensors_are_held_to_the_limit() {
    let limits = Limits {
        max_json: 200,
        max_tensors: 2,
    };
    let check = |json: &str, words: &str| {
        let body = Bytes::copy_from_slice(json.as_bytes());
        refused(decode_request("m", "", body, None, &limits), words);
    };
    check(
        &with_data("FP64", "[26]", "[1]"),
        "JSON input 'x' has a byte_size (208 bytes) that exceeds the maximum allowed value of 200 bytes. Use --http-max-input-size to increase the limit.",
    );
    check(
        &" ".repeat(201),
        "request JSON size of 201 bytes exceeds the maximum allowed input size of 200 bytes. Use --http-max-input-size to increase the limit.",
    );
    check(
        &with_data("BYTES", "[51]", "[]"),
        "JSON input 'x' has a byte_size (204 bytes) that exceeds the maximum allowed value of 200 bytes. Use --http-max-input-size to increase the limit.",
    );
    check(
        "{\"inputs\":[],\"outputs\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"}]}",
        "request has more than 2 outputs",
    );
}

#[test]
fn bodies_that_are_no_request_are_refused() {
    refuses(
        "",
        "failed to parse the request JSON buffer: The document is empty. at 0",
    );
    refuses(
        "not json",
        "failed to parse the request JSON buffer: Invalid value. at 0",
    );
    refuses(
        "{\"inputs\":[",
        "failed to parse the request JSON buffer: Missing a comma or ] after an array element. at 11",
    );
    refuses(
        "{\"inputs\":[]} {}",
        "failed to parse the request JSON buffer: The document root must not be followed by other values. at 14",
    );
    refuses(
        "[]",
        "Unable to parse 'request': attempt to access JSON non-object as object",
    );
    refuses(
        "{}",
        "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'",
    );
    refuses(
        "{\"inputs\":{}}",
        "Unable to parse 'inputs': attempt to access JSON non-array as array",
    );
    refuses(
        "{\"inputs\":[1]}",
        "Unable to parse 'inputs': attempt to access JSON non-object as object",
    );
    refuses(
        &with_members("\"id\":5"),
        "Unable to parse 'id': attempt to access JSON non-string as string",
    );
    refuses(
        &with_members("\"outputs\":5"),
        "Unable to parse 'outputs': attempt to access JSON non-array as array",
    );
    let deep = format!("{{\"x\":{}", "[".repeat(250_000));
    refuses(
        &deep,
        "JSON nesting depth exceeds maximum allowed limit (100)",
    );
}

#[test]
fn inputs_need_their_members() {
    let data = "\"data\":[1]";
    let check = |members: &str, field: &str| {
        let words = format!(
            "Unable to parse '{field}': attempt to access non-existing object member '{field}'"
        );
        refuses(&with_input(&format!("{members},{data}")), &words);
    };
    check("\"datatype\":\"INT8\",\"shape\":[1]", "name");
    check("\"name\":\"x\",\"shape\":[1]", "datatype");
    check("\"name\":\"x\",\"datatype\":\"INT8\"", "shape");
    let wrong = |members: &str, words: &str| refuses(&with_input(members), words);
    wrong(
        "\"name\":1",
        "Unable to parse 'name': attempt to access JSON non-string as string",
    );
    wrong(
        "\"datatype\":1",
        "Unable to parse 'datatype': attempt to access JSON non-string as string",
    );
    refuses_data(
        "INT128",
        "[1]",
        "[1]",
        "invalid datatype 'INT128' for input x",
    );
    refuses_data("int8", "[1]", "[1]", "invalid datatype 'int8' for input x");
}

#[test]
fn repeated_keys_are_refused() {
    refuses(
        "{\"id\":\"a\",\"id\":\"a\"}",
        "duplicate key 'id' in request",
    );
    refuses(
        "{\"inputs\":[],\"inputs\":[]}",
        "duplicate key 'inputs' in request",
    );
    refuses(
        "{\"parameters\":{\"a\":1,\"a\":2}}",
        "duplicate key 'a' in parameters",
    );
    refuses(
        "{\"parameters\":{},\"parameters\":{}}",
        "duplicate key 'parameters' in request",
    );
    refuses(
        &with_input("\"name\":\"x\",\"name\":\"x\""),
        "duplicate key 'name' in input",
    );
    refuses(
        &with_input("\"data\":[1],\"data\":[1]"),
        "duplicate key 'data' in input",
    );
    refuses(
        &with_output("\"name\":\"x\",\"name\":\"x\""),
        "duplicate key 'name' in output",
    );
}

#[test]
fn repeated_names_are_refused() {
    let input = "{\"name\":\"INPUT0\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1]}";
    refuses(
        &format!("{{\"inputs\":[{input},{input}]}}"),
        "input 'INPUT0' already exists in request",
    );
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
    but(
        ",\"data\":[1],\"parameters\":{\"binary_data_size\":1}",
        "set 'data' 'binary_data_size'",
    );
    but(
        ",\"parameters\":{\"shared_memory_region\":\"r\"},\"data\":[1]",
        "set 'data' 'shared_memory_region'",
    );
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
    let range = SharedRange {
        region: "r".to_owned(),
        offset: 8,
        size: 4,
    };
    assert_eq!(
        decode(&json).unwrap().inputs[0].source,
        Source::Shared(range.clone())
    );
    let parameters =
        "{\"shared_memory_offset\":8,\"shared_memory_byte_size\":4,\"shared_memory_region\":\"r\"}";
    let json = with_output(&format!("\"name\":\"y\",\"parameters\":{parameters}"));
    assert_eq!(
        decode(&json).unwrap().outputs[0].delivery,
        Delivery::Shared(range)
    );
    let both = |other: &str, value: &str| {
        let json = with_output(&format!(
            "\"name\":\"y\",\"parameters\":{{\"shared_memory_region\":\"r\",\"{other}\":{value}}}"
        ));
        refuses(
            &json,
            &format!("Output can't set both 'shared_memory_region' and '{other}'"),
        );
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
fn outputs_say_how_they_travel() {
    let delivery = |parameters: &str, members: &str| {
        let json =
            format!("\"parameters\":{{{parameters}}},\"outputs\":[{{\"name\":\"y\"{members}}}]");
        decode(&with_members(&json)).unwrap().outputs[0]
            .delivery
            .clone()
    };
    assert_eq!(delivery("", ""), Delivery::Json);
    assert_eq!(
        delivery("", ",\"parameters\":{\"binary_data\":true}"),
        Delivery::Binary
    );
    assert_eq!(
        delivery("\"binary_data_output\":true", ""),
        Delivery::Binary
    );
    let no = ",\"parameters\":{\"binary_data\":false}";
    assert_eq!(delivery("\"binary_data_output\":true", no), Delivery::Json);
    let request = decode(&with_members(
        "\"parameters\":{\"binary_data_output\":true}",
    ))
    .unwrap();
    assert_eq!(request.default_delivery, Delivery::Binary);
    assert!(request.parameters.is_empty());
}

#[test]
fn classes_are_asked_for() {
    let classes = |n: &str| {
        let json = with_output(&format!(
            "\"name\":\"y\",\"parameters\":{{\"classification\":{n}}}"
        ));
        decode(&json).map(|request| request.outputs[0].classes.map(std::num::NonZero::get))
    };
    assert_eq!(classes("3").unwrap(), Some(3));
    assert_eq!(classes("0").unwrap(), None);
    refused(
        classes("-1"),
        "Unable to parse 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
    );
    refuses(
        &with_output(""),
        "Unable to parse 'name': attempt to access non-existing object member 'name'",
    );
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
        refuses(
            &with_members(&format!("\"parameters\":{{\"{key}\":{value}}}")),
            words,
        );
    };
    for value in ["{}", "[1]", "null"] {
        let words =
            "parameter 'k' has invalid type. It should be either 'int', 'bool', or 'string'.";
        check("k", value, words);
    }
    check(
        "triton_x",
        "1",
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
    );
    let unsigned = "attempt to access JSON non-unsigned-integer as unsigned-integer";
    check(
        "priority",
        "-1",
        &format!("Unable to parse 'priority': {unsigned}"),
    );
    check(
        "timeout",
        "\"1\"",
        &format!("Unable to parse 'timeout': {unsigned}"),
    );
    check(
        "sequence_id",
        "true",
        "Unable to parse 'sequence_id': attempt to access JSON non-string as string",
    );
    let boolean = "attempt to access JSON non-boolean as boolean";
    check(
        "sequence_start",
        "1",
        &format!("Unable to parse 'sequence_start': {boolean}"),
    );
    check(
        "sequence_end",
        "null",
        &format!("Unable to parse 'sequence_end': {boolean}"),
    );
    check(
        "binary_data_output",
        "\"yes\"",
        &format!("Unable to parse 'binary_data_output': {boolean}"),
    );
    check("d", "1e999", "Unable to parse 'd': number is out of range");
    refuses(
        &with_members("\"parameters\":[]"),
        "Unable to parse 'parameters': attempt to access JSON non-object as object",
    );
}

/// JSON that announces two blobs of two and three bytes, and what follows it.
fn split(blobs: &[u8], header_length: Option<usize>) -> (Bytes, Option<usize>) {
    let input = |name: &str, size: usize| {
        format!(
            "{{\"name\":\"{name}\",\"datatype\":\"UINT8\",\"shape\":[{size}],\"parameters\":{{\"binary_data_size\":{size}}}}}"
        )
    };
    let json_input = "{\"name\":\"j\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[9]}";
    let json = format!(
        "{{\"inputs\":[{},{json_input},{}]}}",
        input("a", 2),
        input("b", 3)
    );
    let length = header_length.unwrap_or(json.len());
    ([json.as_bytes(), blobs].concat().into(), Some(length))
}

#[test]
fn blobs_are_slices_in_order() {
    let (body, length) = split(&[1, 2, 3, 4, 5], None);
    let request = decode_request("m", "3", body.clone(), length, &Limits::DEFAULT).unwrap();
    let data: Vec<&[u8]> = request
        .inputs
        .iter()
        .map(|input| inline(&input.source))
        .collect();
    assert_eq!(data, [&[1, 2][..], &[9], &[3, 4, 5]]);
    assert_eq!(data[0].as_ptr(), body[length.unwrap()..].as_ptr());
    assert_eq!(request.version, "3");
}

#[test]
fn blobs_must_be_all_there_and_nothing_else() {
    let check = |blobs: &[u8], header_length: Option<usize>, words: &str| {
        let (body, length) = split(blobs, header_length);
        refused(
            decode_request("m", "", body, length, &Limits::DEFAULT),
            words,
        );
    };
    check(
        &[1],
        None,
        "unexpected size for input 'a', expecting 1 additional bytes for model 'm'",
    );
    check(
        &[1, 2, 3],
        None,
        "unexpected size for input 'b', expecting 2 additional bytes for model 'm'",
    );
    check(
        &[0; 6],
        None,
        "unexpected additional input data for model 'm'",
    );
    check(
        &[],
        Some(10_000),
        "unexpected size for request JSON, expecting 9773 more bytes",
    );
    check(
        &[],
        Some(0),
        "failed to parse the request JSON buffer: The document is empty. at 0",
    );
    let huge = with_input(
        r#""name":"x","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":18446744073709551615}"#,
    );
    refuses(
        &huge,
        "unexpected size for input 'x', expecting 18446744073709551615 additional bytes for model 'm'",
    );
    let negative = with_input(r#""name":"x","parameters":{"binary_data_size":-1}"#);
    refuses(
        &negative,
        "Unable to parse 'binary_data_size': attempt to access JSON non-unsigned-integer as unsigned-integer",
    );
}

#[test]
fn header_lengths_are_checked() {
    assert_eq!(parse_header_length("12", 12).unwrap(), 12);
    assert_eq!(parse_header_length(" 0 ", 12).unwrap(), 0);
    let check = |value: &str, words: &str| refused(parse_header_length(value, 12), words);
    check(
        "13",
        "inference header size should be in range (0, 12), got: 13",
    );
    check(
        "-1",
        "inference header size should be in range (0, 12), got: -1",
    );
    check(
        "abc",
        "Unable to parse Inference-Header-Content-Length, got: abc",
    );
    check("", "Unable to parse Inference-Header-Content-Length, got: ");
    check(
        "1x",
        "Unable to parse Inference-Header-Content-Length, got: 1x",
    );
    check(
        "99999999999",
        "Unable to parse Inference-Header-Content-Length, value is out of range [ -2147483648, 2147483647 ], got: 99999999999",
    );
    assert_eq!(
        parse_header_length("13", 12).unwrap_err().code(),
        Code::InvalidArgument
    );
}
