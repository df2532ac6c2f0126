//! Tests of splitting a body into JSON and blobs.

use bytes::Bytes;
use weir_protocol::rest::{Limits, decode_request, parse_header_length};
use weir_protocol::{Code, Coded};

use crate::{inline_data, refused, refuses, with_input};

/// Decodes JSON that announces two blobs, of two and three bytes, followed by `blobs`.
fn split(blobs: &[u8], header_length: Option<usize>) -> (Bytes, Option<usize>) {
    let input = |name: &str, size: usize| {
        format!(
            "{{\"name\":\"{name}\",\"datatype\":\"UINT8\",\"shape\":[{size}],\"parameters\":{{\"binary_data_size\":{size}}}}}"
        )
    };
    let json_input = "{\"name\":\"j\",\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[9]}";
    let json = format!("{{\"inputs\":[{},{json_input},{}]}}", input("a", 2), input("b", 3));
    let length = header_length.unwrap_or(json.len());
    ([json.as_bytes(), blobs].concat().into(), Some(length))
}

#[test]
fn blobs_are_slices_in_order() {
    let (body, length) = split(&[1, 2, 3, 4, 5], None);
    let request = decode_request("m", "3", body.clone(), length, &Limits::DEFAULT).unwrap();
    let data: Vec<&[u8]> = request.inputs.iter().map(|input| inline_data(&input.source)).collect();
    assert_eq!(data, [&[1, 2][..], &[9], &[3, 4, 5]]);
    assert_eq!(data[0].as_ptr(), body[length.unwrap()..].as_ptr());
    assert_eq!(request.version, "3");
}

#[test]
fn blobs_must_be_complete_and_the_last_bytes() {
    let check = |blobs: &[u8], header_length: Option<usize>, words: &str| {
        let (body, length) = split(blobs, header_length);
        refused(decode_request("m", "", body, length, &Limits::DEFAULT), words);
    };
    check(&[1], None, "unexpected size for input 'a', expecting 1 additional bytes for model 'm'");
    check(&[1, 2, 3], None, "unexpected size for input 'b', expecting 2 additional bytes for model 'm'");
    check(&[0; 6], None, "unexpected additional input data for model 'm'");
    check(&[], Some(10_000), "unexpected size for request JSON, expecting 9773 more bytes");
    check(&[], Some(0), "failed to parse the request JSON buffer: The document is empty. at 0");
    let huge = with_input(
        r#""name":"x","datatype":"UINT8","shape":[1],"parameters":{"binary_data_size":18446744073709551615}"#,
    );
    refuses(&huge, "unexpected size for input 'x', expecting 18446744073709551615 additional bytes for model 'm'");
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
    check("13", "inference header size should be in range (0, 12), got: 13");
    check("-1", "inference header size should be in range (0, 12), got: -1");
    check("abc", "Unable to parse Inference-Header-Content-Length, got: abc");
    check("", "Unable to parse Inference-Header-Content-Length, got: ");
    check("1x", "Unable to parse Inference-Header-Content-Length, got: 1x");
    check(
        "99999999999",
        "Unable to parse Inference-Header-Content-Length, value is out of range [ -2147483648, 2147483647 ], got: 99999999999",
    );
    assert_eq!(parse_header_length("13", 12).unwrap_err().code(), Code::InvalidArgument);
}
