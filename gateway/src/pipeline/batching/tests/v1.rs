//! Tests of V1 over HTTP.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::template::{BodyKind, Template};

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        Just(Value::Null),
    ];
    scalar.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(".{0,3}", inner, 0..3)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

fn body(value: &Value) -> Bytes {
    serde_json::to_vec_pretty(value).unwrap().into()
}

proptest! {
    #[test]
    fn predictions_return_to_their_requests(
        entries in proptest::collection::vec(proptest::collection::vec(values(), 1..4), 1..5),
    ) {
        let bodies: Vec<Template> = entries
            .iter()
            .map(|rows| json!({"signature_name": "s", "instances": rows, "k": 1}))
            .map(|value| Template::v1(body(&value), BodyKind::Request).unwrap())
            .collect();
        let merged = Template::merge(&bodies.iter().collect::<Vec<_>>());
        let merged: Value = serde_json::from_slice(&merged.json).unwrap();
        let all = entries.concat();
        prop_assert_eq!(merged, json!({"signature_name": "s", "instances": &all, "k": 1}));
        let answer = body(&json!({"predictions": &all, "model": "m"}));
        let answer = Template::v1(answer, BodyKind::Response).unwrap();
        prop_assert_eq!(answer.rows, all.len());
        let mut at = 0;
        for rows in &entries {
            let cut = answer.slice(&(at..at + rows.len()), None);
            at += rows.len();
            let cut: Value = serde_json::from_slice(&cut.json).unwrap();
            prop_assert_eq!(cut, json!({"predictions": rows, "model": "m"}));
        }
    }
}

fn parse(text: &'static str) -> Option<Template> {
    Template::v1(Bytes::from_static(text.as_bytes()), BodyKind::Request)
}

#[test]
fn instances_of_other_shapes_and_bodies_with_other_fields_do_not_merge() {
    let plain = parse(r#"{"instances":[[1,2],[3,4]]}"#).unwrap().batch_key();
    assert_eq!(parse(r#"{"instances":[[5,6.5]]}"#).unwrap().batch_key(), plain);
    for other in [
        r#"{"instances":[[1,2,3]]}"#,
        r#"{"instances":[[[1,2]]]}"#,
        r#"{"instances":[1]}"#,
        r#"{"instances":[[1,2]],"signature_name":"s"}"#,
    ] {
        assert_ne!(parse(other).unwrap().batch_key(), plain, "{other}");
    }
}

#[test]
fn bodies_without_instances_are_not_merged() {
    for text in [
        "",
        "[]",
        "{}",
        r#"{"instances":[]}"#,
        r#"{"instances":{"a":1}}"#,
        r#"{"inputs":[[1]]}"#,
        r#"{"instances":[1,]}"#,
        r#"{"instances":[1]} x"#,
        r#"{"instances":[1],"instances":[2]}"#,
    ] {
        assert!(parse(text).is_none(), "{text}");
    }
}

#[test]
fn a_request_with_too_many_rows_shares_no_batch() {
    let body = |key: &str| Bytes::from(format!("{{\"{key}\":[{}0]}}", "0,".repeat(1 << 16)));
    assert!(Template::v1(body("instances"), BodyKind::Request).is_none());
    let response = Template::v1(body("predictions"), BodyKind::Response).unwrap();
    assert_eq!(response.rows, (1 << 16) + 1);
    let shape = "[70000,1]";
    let data = format!("[{}0]", "0,".repeat(69_999));
    let text = format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":{shape},"data":{data}}}]}}"#);
    let refused = Template::v2(text.into(), Bytes::new(), BodyKind::Request).unwrap_err();
    assert_eq!(refused, "it has over 65536 rows");
}
