//! V1.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::template::{Side, Template};

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
    fn predictions_come_back_to_whom_they_belong(
        entries in proptest::collection::vec(proptest::collection::vec(values(), 1..4), 1..5),
    ) {
        let bodies: Vec<Template> = entries
            .iter()
            .map(|rows| json!({"signature_name": "s", "instances": rows, "k": 1}))
            .map(|value| Template::v1(body(&value), Side::Request).unwrap())
            .collect();
        let merged = Template::merge(&bodies.iter().collect::<Vec<_>>());
        let merged: Value = serde_json::from_slice(&merged.json).unwrap();
        let all = entries.concat();
        prop_assert_eq!(merged, json!({"signature_name": "s", "instances": &all, "k": 1}));
        let answer = body(&json!({"predictions": &all, "model": "m"}));
        let answer = Template::v1(answer, Side::Response).unwrap();
        prop_assert_eq!(answer.rows, all.len());
        let mut at = 0;
        for rows in &entries {
            let cut = answer.cut(&(at..at + rows.len()), None);
            at += rows.len();
            let cut: Value = serde_json::from_slice(&cut.json).unwrap();
            prop_assert_eq!(cut, json!({"predictions": rows, "model": "m"}));
        }
    }
}

fn parse(text: &'static str) -> Option<Template> {
    Template::v1(Bytes::from_static(text.as_bytes()), Side::Request)
}

#[test]
fn instances_of_other_widths_and_bodies_with_more_stay_apart() {
    let plain = parse(r#"{"instances":[[1,2],[3,4]]}"#).unwrap().likeness();
    assert_eq!(
        parse(r#"{"instances":[[5,6.5]]}"#).unwrap().likeness(),
        plain
    );
    for other in [
        r#"{"instances":[[1,2,3]]}"#,
        r#"{"instances":[[[1,2]]]}"#,
        r#"{"instances":[1]}"#,
        r#"{"instances":[[1,2]],"signature_name":"s"}"#,
    ] {
        assert_ne!(parse(other).unwrap().likeness(), plain, "{other}");
    }
}

#[test]
fn what_has_no_instances_is_left_alone() {
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
