//! Tests of reading the model's name without decoding the message.

use proptest::prelude::*;
use prost::Message;
use weir_protocol::grpc::{NameField, PEEK_LIMIT, Peek, find_model_name, peek_model_name};

use super::{input, request};

#[test]
fn the_model_name_is_found_at_the_start_of_a_message() {
    let body = request(vec![input("x", "INT8", &[1])], &[b"a"]).encode_to_vec();
    let field = NameField::of("ModelInfer").unwrap();
    assert_eq!(peek_model_name(field, &body), Peek::Found("m"));
    assert_eq!(peek_model_name(field, &body[..2]), Peek::Truncated);
    assert_eq!(peek_model_name(field, &[]), Peek::Absent);
    assert_eq!(peek_model_name(field, b"\x0a\x01\xff"), Peek::Malformed);
    assert_eq!(peek_model_name(field, b"\x0f"), Peek::Malformed);
    assert_eq!(peek_model_name(field, &[0xff; 11]), Peek::Malformed);
    let load = NameField::of("RepositoryModelLoad").unwrap();
    assert_eq!(peek_model_name(load, b"\x0a\x04repo\x12\x01m"), Peek::Found("m"));
    assert_eq!(NameField::of("ServerLive"), None);
}

#[test]
fn a_name_beyond_the_limit_is_truncated() {
    let mut body = vec![0x1a, 0x80, 0x40];
    body.resize(3 + 8192, b'i');
    body.extend_from_slice(b"\x0a\x01m");
    assert!(body.len() > PEEK_LIMIT);
    let field = NameField::of("ModelInfer").unwrap();
    assert_eq!(peek_model_name(field, &body), Peek::Truncated);
}

#[test]
fn a_name_behind_long_fields_is_found() {
    let field = NameField::of("ModelInfer").unwrap();
    let named = request(vec![], &[]).encode_to_vec();
    let mut long = request(vec![input("x", "INT8", &[9000])], &[&[7; 9000]]);
    long.model_name.clear();
    let body = [long.encode_to_vec(), named].concat();
    assert_eq!(peek_model_name(field, &body), Peek::Truncated);
    assert_eq!(find_model_name(field, &body[..]).as_deref(), Some("m"));
    // If the message is cut off anywhere before its end, no name is found.
    for end in [0, 1, 4000, body.len() - 1] {
        assert_eq!(find_model_name(field, &body[..end]), None, "{end}");
    }
    assert_eq!(find_model_name(field, &b"\x0a\x01a\x0a\x01b"[..]).as_deref(), Some("b"));
    for broken in [&b"\x0a\x01\xff"[..], b"\x0f", &[0xff; 11]] {
        assert_eq!(find_model_name(field, broken), None, "{broken:?}");
    }
}

proptest! {
    #[test]
    fn peek_agrees_with_the_decoder(name in "[a-z]{0,12}", id in ".{0,40}") {
        let mut sent = request(vec![input("x", "INT8", &[1])], &[b"a"]);
        sent.model_name = name.clone();
        sent.id = id;
        let body = sent.encode_to_vec();
        let found = peek_model_name(NameField::of("ModelInfer").unwrap(), &body);
        let expected = if name.is_empty() { Peek::Absent } else { Peek::Found(&name) };
        prop_assert_eq!(found, expected);
    }
}
