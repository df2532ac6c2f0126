use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn tokens(content_type: &str, pieces: &[&[u8]]) -> u64 {
    let mut scan = UsageScan::of(content_type.as_bytes()).unwrap();
    pieces.iter().for_each(|piece| scan.push(piece));
    scan.tokens()
}

fn of_json(text: &str) -> u64 {
    tokens("application/json; charset=utf-8", &[text.as_bytes()])
}

fn of_events(text: &str) -> u64 {
    tokens("text/event-stream", &[text.as_bytes()])
}

const USAGE: &str = r#"{"prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21}"#;

#[test]
fn tokens_are_read_from_responses_of_several_apis() {
    for (text, expected) in [
        (format!(r#"{{"id": "x", "choices": [{{"message": {{"content": "a"}}}}], "usage": {USAGE}}}"#), 21),
        (r#"{"data":[{"embedding":[1.5,-2e3]}],"usage":{"prompt_tokens":8,"total_tokens":8}}"#.to_owned(), 8),
        (r#"{"content":[],"usage":{"input_tokens":25,"output_tokens":15}}"#.to_owned(), 40),
        (format!(r#"{{"type":"response.completed","response":{{"output":[],"usage":{USAGE}}}}}"#), 21),
        (r#"{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"total_tokens":5},"total_tokens":7}}"#.to_owned(), 7),
        (r#"{"usage":null,"choices":[]}"#.to_owned(), 0),
        (r#"{"outputs":[{"data":[1,2,3]}]}"#.to_owned(), 0),
    ] {
        assert_eq!(of_json(&text), expected, "{text}");
    }
}

/// Most of a response is text of the model, and some may be text of the client: neither must count as usage.
#[test]
fn what_looks_like_usage_elsewhere_is_none() {
    let text = json!({"usage": {"total_tokens": 7}}).to_string();
    for value in [
        json!({"choices": [{"message": {"content": text}}]}),
        json!({"choices": [{"usage": {"total_tokens": 7}}]}),
        json!({"choices": {"usage": {"total_tokens": 7}}}),
        json!({"message": [{"usage": {"total_tokens": 7}}]}),
        json!([{"total_tokens": 7}]),
        json!({"usage": [7, {"total_tokens": 7}]}),
        json!({"usage": {"total_tokens": "7"}}),
        json!({"usage": {"a": "total_tokens", "b": 7}}),
        json!({"a\"usage": {"total_tokens": 7}}),
    ] {
        assert_eq!(of_json(&value.to_string()), 0, "{value}");
    }
}

#[test]
fn numbers_that_count_nothing_are_ignored() {
    for (number, expected) in [("-7", 0), ("7.5", 0), ("7e2", 0), ("99999999999999999999999", u64::MAX), ("7", 7)] {
        assert_eq!(of_json(&format!(r#"{{"usage":{{"total_tokens":{number}}}}}"#)), expected, "{number}");
    }
}

#[test]
fn tokens_of_a_stream_are_those_of_its_last_event() {
    let chunk = r#"data: {"choices":[{"delta":{"content":"a"}}],"usage":null}"#;
    let text = format!("{chunk}\n\n{chunk}\r\n\r\ndata: {{\"choices\":[],\"usage\":{USAGE}}}\n\ndata: [DONE]\n\n");
    assert_eq!(of_events(&text), 21);
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1}}}"#;
    let delta = r#"{"type":"message_delta","usage":{"output_tokens":15}}"#;
    let text = format!("event: message_start\ndata: {start}\n\nevent: message_delta\ndata:{delta}\n\n");
    assert_eq!(of_events(&text), 40);
}

/// A client that requests no usage, or disconnects before it arrives, is charged for the events that it received.
#[test]
fn without_a_total_each_event_is_a_token() {
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    assert_eq!(of_events(&format!(": ping\n\n{}data: [DONE]\n\n", chunk.repeat(5))), 5);
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":2,"output_tokens":1}}}"#;
    assert_eq!(of_events(&format!("data: {start}\n\n{}", chunk.repeat(5))), 6);
}

#[test]
fn other_media_types_have_no_usage() {
    for content_type in ["", "text/plain", "application/octet-stream", "application/jsonl"] {
        assert!(UsageScan::of(content_type.as_bytes()).is_none(), "{content_type}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z\"\\\\{}:,\u{e9}]{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof!["(usage|message|response|total_tokens|input_tokens|output_tokens)", "[a-z\"]{0,3}"];
    leaf.prop_recursive(5, 64, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Returns the tokens of a value that is parsed as a whole.
fn parsed(value: &Value) -> u64 {
    let number = |usage: &Value, name: &str| usage.get(name).and_then(Value::as_u64);
    let places = ["/response/usage", "/message/usage", "/usage"];
    let mut all = Usage::default();
    for usage in places.iter().filter_map(|place| value.pointer(place)) {
        all.total = number(usage, "total_tokens").or(all.total);
        all.input = number(usage, "input_tokens").unwrap_or(all.input);
        all.output = number(usage, "output_tokens").unwrap_or(all.output);
    }
    all.tokens(0)
}

proptest! {
    #[test]
    fn every_text_has_the_tokens_of_its_parsed_value_however_it_arrives(value in any_json(), size in 1_usize..9) {
        // If a text has several usages, the last one counts, and a parsed value has lost the order of its fields.
        prop_assume!(["/response/usage", "/message/usage", "/usage"].iter().filter(|at| value.pointer(at).is_some()).count() < 2);
        let text = value.to_string();
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(tokens("application/json", &pieces), parsed(&value));
    }

    #[test]
    fn a_stream_has_the_tokens_of_its_events_however_it_arrives(
        values in proptest::collection::vec(any_json(), 0..5),
        size in 1_usize..9,
    ) {
        let text: String = values.iter().map(|value| format!("data: {value}\n\n")).collect();
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(tokens("text/event-stream", &pieces), of_events(&text));
    }

    #[test]
    fn no_bytes_panic(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..20)) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        tokens("application/json", &pieces);
        tokens("text/event-stream", &pieces);
    }
}
