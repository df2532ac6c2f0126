//! Tests of reading the model's name without decoding the message.

use proptest::prelude::*;
use prost::Message;
use weir_protocol::grpc::{NameField, PEEK_LIMIT, find_model_name};

use super::{input, request};

#[test]
fn the_model_name_is_found_at_the_start_of_a_message() {
    let body = request(vec![input("x", "INT8", &[1])], &[b"a"]).encode_to_vec();
    let field = NameField::of("ModelInfer").unwrap();
    let find = |field, body: &[u8]| find_model_name(field, body);
    assert_eq!(find(field, &body).as_deref(), Some("m"));
    // A message that is cut off behind the name has it nevertheless.
    assert_eq!(find(field, &body[..body.len() - 1]).as_deref(), Some("m"));
    for (broken, name) in [(&body[..2], None), (b"", None), (b"\x0a\x01\xff", None), (b"\x0a\x01a\x0f", Some("a"))] {
        assert_eq!(find(field, broken).as_deref(), name, "{broken:?}");
    }
    let load = NameField::of("RepositoryModelLoad").unwrap();
    assert_eq!(find(load, b"\x0a\x04repo\x12\x01m").as_deref(), Some("m"));
    assert_eq!(NameField::of("ServerLive"), None);
}

#[test]
fn a_name_that_is_too_long_is_not_read() {
    let mut long = request(vec![], &[]);
    long.model_name = "m".repeat(PEEK_LIMIT + 1);
    let field = NameField::of("ModelInfer").unwrap();
    assert_eq!(find_model_name(field, &long.encode_to_vec()[..]), None);
}

#[test]
fn a_name_behind_long_fields_is_found() {
    let field = NameField::of("ModelInfer").unwrap();
    let named = request(vec![], &[]).encode_to_vec();
    let mut long = request(vec![input("x", "INT8", &[9000])], &[&[7; 9000]]);
    long.model_name.clear();
    let body = [long.encode_to_vec(), named].concat();
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
    fn the_search_agrees_with_the_decoder(name in "[a-z]{0,12}", id in ".{0,40}") {
        let mut sent = request(vec![input("x", "INT8", &[1])], &[b"a"]);
        sent.model_name = name.clone();
        sent.id = id;
        let found = find_model_name(NameField::of("ModelInfer").unwrap(), &sent.encode_to_vec()[..]);
        prop_assert_eq!(found.unwrap_or_default(), name);
    }
}
