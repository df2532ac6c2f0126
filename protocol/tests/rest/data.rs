//! Tests of data in JSON, and of the shapes that it must fill.

use bytes::Bytes;
use weir_protocol::rest::{Limits, decode_request};

use crate::{decode, inline_data, refused, refuses, refuses_data, with_data, with_input};

#[track_caller]
fn bytes_of(datatype: &str, shape: &str, data: &str) -> Vec<u8> {
    let request = decode(&with_data(datatype, shape, data)).unwrap();
    inline_data(&request.inputs[0].source).to_vec()
}

/// Errors in `data` are detected also if `data` comes before the datatype and the shape.
#[test]
fn data_before_the_datatype_and_shape_is_checked() {
    let early =
        |data: &str| with_input(&format!("\"data\":{data},\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[2]"));
    let request = decode(&early(r#"["]\"[", "\\"]"#)).unwrap();
    let expected = b"\x03\0\0\0]\"[\x01\0\0\0\\";
    assert_eq!(inline_data(&request.inputs[0].source), expected);
    let check = |data: &str, words: &str| refuses(&early(data), words);
    let parse = "failed to parse the request JSON buffer: ";
    let comma = "Missing a comma or ] after an array element.";
    check("[\"a\"}", &format!("{parse}{comma} at 23"));
    check("[\"a\" \"b\"]", &format!("{parse}{comma} at 24"));
    check("[\"a\",[}]", &format!("{parse}Invalid value. at 25"));
    check("[\"a", &format!("{parse}Missing a closing quotation mark in string. at 67"));
    check("truth", &format!("{parse}Invalid value. at 19"));
    let array = "Unable to parse 'data': attempt to access JSON non-array as array for input 'x'";
    check("true", array);
    let deep = "[".repeat(120);
    check(&deep, "JSON nesting depth exceeds maximum allowed limit (100)");
}

#[test]
fn scalars_become_little_endian_bytes() {
    assert_eq!(bytes_of("BOOL", "[2]", "[true,false]"), [1, 0]);
    assert_eq!(bytes_of("UINT8", "[2]", "[0,255]"), [0, 255]);
    assert_eq!(bytes_of("INT8", "[2]", "[-128,127]"), [128, 127]);
    assert_eq!(bytes_of("UINT16", "[1]", "[65535]"), u16::MAX.to_le_bytes());
    assert_eq!(bytes_of("INT16", "[1]", "[-32768]"), i16::MIN.to_le_bytes());
    assert_eq!(bytes_of("UINT32", "[1]", "[4294967295]"), u32::MAX.to_le_bytes());
    assert_eq!(bytes_of("INT32", "[1]", "[-2147483648]"), i32::MIN.to_le_bytes());
    assert_eq!(bytes_of("UINT64", "[1]", "[18446744073709551615]"), u64::MAX.to_le_bytes());
    assert_eq!(bytes_of("INT64", "[1]", "[-9223372036854775808]"), i64::MIN.to_le_bytes());
    assert_eq!(bytes_of("FP32", "[1]", "[0.1]"), 0.1_f32.to_le_bytes());
    assert_eq!(bytes_of("FP32", "[1]", "[3]"), 3_f32.to_le_bytes());
    assert_eq!(bytes_of("FP64", "[1]", "[-1e-3]"), (-1e-3_f64).to_le_bytes());
    assert_eq!(bytes_of("FP32", "[1]", "[-Infinity]"), f32::NEG_INFINITY.to_le_bytes());
    assert_eq!(bytes_of("FP64", "[1]", "[Inf]"), f64::INFINITY.to_le_bytes());
    assert_eq!(bytes_of("FP64", "[1]", "[NaN]"), f64::NAN.to_le_bytes());
    assert_eq!(bytes_of("BYTES", "[3]", r#"["a","é",""]"#), b"\x01\0\0\0a\x02\0\0\0\xc3\xa9\0\0\0\0");
    assert_eq!(bytes_of("BYTES", "[1]", r#"["a\u0000\n"]"#), b"\x03\0\0\0a\0\n");
}

#[test]
fn data_is_flat_or_nested_like_its_shape() {
    assert_eq!(bytes_of("INT8", "[2,2]", "[1,2,3,4]"), [1, 2, 3, 4]);
    for nested in ["[[1,2],[3,4]]", "[[1,2,3,4]]", "[[[1],[2]],[[3],[4]]]"] {
        assert_eq!(bytes_of("INT8", "[2,2]", nested), [1, 2, 3, 4], "{nested}");
    }
    assert_eq!(bytes_of("INT8", "[4]", "[[1],[2],[3],[4]]"), [1, 2, 3, 4]);
    let refusal =
        "Unable to parse 'data': its nesting contradicts the shape of input 'x'; nest it by the shape, or send it flat";
    for nested in ["[[[1],2],[[],[3,[4]]]]", "[[1,2],[3,4]]", "[[1,2,3],[4]]"] {
        refuses_data("INT8", "[4]", nested, refusal);
    }
    for nested in ["[[[1]],[[2,[3]]],4]", "[[1,2,3],[4]]", "[1,[2,3,4]]"] {
        refuses_data("INT8", "[1,2,2]", nested, refusal);
    }
    assert_eq!(bytes_of("INT8", "[0]", "[]"), [0_u8; 0]);
    assert_eq!(bytes_of("INT8", "[2,0]", "[[],[]]"), [0_u8; 0]);
    assert_eq!(bytes_of("INT8", "[]", "[5]"), [5]);
    let deep = format!("{}123{}", "[".repeat(50), "]".repeat(50));
    assert_eq!(bytes_of("INT8", "[1,1]", &deep), [123]);
    let deep = format!("{}123{}", "[".repeat(120), "]".repeat(120));
    refuses_data("INT8", "[1,1]", &deep, "JSON nesting depth exceeds maximum allowed limit (100)");
}

#[test]
fn wrong_counts_are_refused() {
    let words = "Unable to parse 'data': Shape does not match true shape of 'data' field for input 'x'";
    refuses_data("INT8", "[2]", "[1]", words);
    refuses_data("INT8", "[2]", "[1,2,3]", words);
    refuses_data("INT8", "[0]", "[1]", words);
    refuses_data("FP32", "[1000000]", "[1]", words);
    refuses_data("BYTES", "[2]", "[\"a\"]", words);
    refuses_data("BYTES", "[1]", "[\"a\",\"b\"]", words);
}

#[test]
fn wrong_scalars_are_refused() {
    let bool_words = "Unable to parse 'data': attempt to access JSON non-boolean as boolean for input 'x'";
    refuses_data("BOOL", "[1]", "[1]", bool_words);
    refuses_data("BOOL", "[1]", "[\"true\"]", bool_words);
    let unsigned =
        "Unable to parse 'data': attempt to access JSON non-unsigned-integer as unsigned-integer for input 'x'";
    refuses_data("UINT8", "[1]", "[-1]", unsigned);
    refuses_data("UINT64", "[1]", "[1.5]", unsigned);
    refuses_data("UINT64", "[1]", "[18446744073709551616]", unsigned);
    refuses_data("UINT32", "[1]", "[null]", unsigned);
    let signed = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer for input 'x'";
    refuses_data("INT32", "[1]", "[1e3]", signed);
    refuses_data("INT64", "[1]", "[9223372036854775808]", signed);
    let number = "Unable to parse 'data': attempt to access JSON non-number as double for input 'x'";
    refuses_data("FP32", "[1]", "[\"1\"]", number);
    refuses_data("FP64", "[1]", "[{}]", number);
    let string = "Unable to parse 'data': attempt to access JSON non-string as string for input 'x'";
    refuses_data("BYTES", "[1]", "[1]", string);
    let array = "Unable to parse 'data': attempt to access JSON non-array as array for input 'x'";
    refuses_data("FP32", "[1]", "1", array);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let check = |datatype: &str, value: &str| {
        let words = format!("Unable to parse 'data': {value} is out of range for {datatype} input 'x'");
        refuses_data(datatype, "[1]", &format!("[{value}]"), &words);
        // The result is the same if the datatype comes after the data.
        let json = with_input(&format!("\"data\":[{value}],\"name\":\"x\",\"shape\":[1],\"datatype\":\"{datatype}\""));
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
    let shape = "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer";
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
    refuses_data("UINT8", &long, "[1]", "shape of input 'x' has more than 64 dimensions");
}

#[test]
fn json_tensors_have_a_size_limit() {
    let limits = Limits { max_json: 200, max_tensors: 2 };
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
