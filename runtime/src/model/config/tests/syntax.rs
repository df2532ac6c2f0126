//! Tests of the two forms of a configuration, text and JSON.

use super::{ORIGIN, read, refusal, tensor, usual};
use crate::model::config::{ModelConfig, to_json};

#[test]
fn equivalent_spellings_are_parsed_alike() {
    let plain = read(&usual(""));
    assert_eq!(plain.inputs, [tensor("x", &[-1])]);
    assert_eq!(plain.outputs, [tensor("y", &[4])]);
    assert_eq!((plain.name.as_str(), plain.max_batch_size), ("m", Some(8)));
    let others = [
        // Messages in angle brackets with colons before them, separators and comments.
        "# a comment\nbackend: 'echo', max_batch_size: 0x8;
         input: < name: 'x' data_type: TYPE_FP32 dims: -1 > # another
         output < name: 'y' data_type: TYPE_FP32 dims: 4 >",
        "\u{feff}backend:'echo'max_batch_size:8 input[{name:'x'data_type:TYPE_FP32 dims[-1]}]
         output # why not
         [ { name: 'y' data_type: TYPE_FP32 dims: 4 } ]",
        // Lists of messages, repeated scalars, strings in pieces and enums by number.
        "backend: \"ec\" \"ho\" max_batch_size: 010
         input: [ { name: \"x\", data_type: 11, dims: [ -1 ] } ]
         output [ { name: \"\\x79\" data_type: TYPE_FP32 dims: [ 4 ] } ]",
    ];
    for text in others {
        assert_eq!(read(text), plain, "{text}");
    }
}

#[test]
fn json_is_parsed_like_text() {
    let json = r#"{"backend": "echo", "max_batch_size": 8,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["-1"]}],
        "output": [{"name": "y", "dataType": 11, "dims": [4]}]}"#;
    assert_eq!(ModelConfig::from_json(json, ORIGIN).unwrap(), read(&usual("")));
}

#[test]
fn maps_in_braces_without_entries_are_empty() {
    let plain = read(&usual(""));
    for field in ["cc_model_filenames", "metric_tags", "parameters"] {
        assert_eq!(read(&usual(&format!("{field}: {{}}"))), plain, "{field}");
        assert_eq!(read(&usual(&format!("{field} {{ }} {field} {{ }}"))), plain, "{field}");
    }
    let named = read(&usual("metric_tags {} metric_tags { key: 'team' value: 'a' }"));
    assert_eq!(named.metric_tags["_team"], "a");
}

#[test]
fn the_output_of_the_config_endpoint_can_be_parsed_again() {
    let printed = String::from_utf8(to_json(&read(&usual("")).proto).unwrap()).unwrap();
    assert!(printed.contains("\"cc_model_filenames\":{}"), "{printed}");
    assert_eq!(ModelConfig::from_json(&printed, ORIGIN).unwrap(), read(&usual("")));
}

#[test]
fn syntax_errors_have_a_position_and_a_suggestion() {
    let cases = [
        (
            "backend: 'echo'\n  max_batchsize: 8",
            "config.pbtxt:2:3: field 'max_batchsize' not found for message \
             'inference.ModelConfig'; did you mean 'max_batch_size'?",
        ),
        (
            "input { data_type: FP32 }",
            "config.pbtxt:1:20: value 'FP32' was not found for enum 'inference.DataType'; did you \
             mean 'TYPE_FP32'?",
        ),
        (
            "input { data_type: type_strng }",
            "config.pbtxt:1:20: value 'type_strng' was not found for enum 'inference.DataType'; \
             did you mean 'TYPE_STRING'?",
        ),
        (
            "zzzzzzzzzzzzzz: 1",
            "config.pbtxt:1:1: field 'zzzzzzzzzzzzzz' not found for message \
             'inference.ModelConfig'",
        ),
        ("max_batch_size: 'eight'", "config.pbtxt:1:17: expected an integer, but found '\"eight\"'"),
        ("input {", "config.pbtxt:1:8: expected '}' or a field name, but reached end of input"),
        ("backend: 'é", "config.pbtxt:1:12: expected"),
        (
            "dynamic_batching { } sequence_batching { }",
            "config.pbtxt:1:40: a value is already set for oneof 'scheduling_choice'",
        ),
    ];
    for (text, sentence) in cases {
        let refusal = refusal(text);
        assert!(refusal.starts_with(sentence), "{refusal}\n{sentence}");
    }
}

#[test]
fn deep_and_huge_texts_are_refused_before_they_are_parsed() {
    let deep = "[a/inference.ModelConfig] {".repeat(100_000);
    assert!(refusal(&deep[..1 << 20]).ends_with("nested deeper than 32 levels"));
    let huge = format!("name: '{}'", "a".repeat(1 << 20));
    assert_eq!(refusal(&huge), "config.pbtxt: larger than 1048576 bytes");
    let many = format!("{{\"backend\": \"echo\", \"input\": [{{}}{}]}}", ",{}".repeat(1 << 19));
    let error = ModelConfig::from_json(&many, ORIGIN).unwrap_err();
    assert_eq!(error.to_string(), "config.pbtxt: larger than 1048576 bytes");
    // Brackets in strings and comments do not count.
    let quoted = format!("# {0}\nbackend: 'echo' name: \"{0}\"", "{".repeat(100));
    assert_eq!(read(&quoted).name.len(), 100);
}

#[test]
fn json_errors_have_a_position_and_a_suggestion() {
    let cases = [
        (
            "{\"max_batchsize\": 1}",
            "config.pbtxt:1:16: unrecognized field name 'max_batchsize'; did you mean \
             'max_batch_size'?",
        ),
        (
            "{\"input\": [{\"data_typ\": 1}]}",
            "config.pbtxt:1:22: unrecognized field name 'data_typ'; did you mean 'data_type'?",
        ),
        // Statistics have a field with a similar name, but configurations do not.
        ("{\"queu\": 1}", "config.pbtxt:1:7: unrecognized field name 'queu'"),
        ("{\"foo\": 1}", "config.pbtxt:1:6: unrecognized field name 'foo'"),
        ("{\"name\": 1}", "config.pbtxt:1:10: invalid type: integer `1`, expected a string"),
        ("{} x", "config.pbtxt:1:4: trailing characters"),
        ("[]", "config.pbtxt:1:0: invalid type: sequence, expected a map"),
        ("", "config.pbtxt:1:0: EOF while parsing a value"),
    ];
    for (json, sentence) in cases {
        let error = ModelConfig::from_json(json, ORIGIN).unwrap_err();
        assert_eq!(error.to_string(), sentence);
    }
}
