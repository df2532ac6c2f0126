//! Fields that a manager has applied to an object, as the API server stores them: the fields of the manager's entry in
//! `managedFields` with their values. Pure.
//!
//! A manager that overwrites a field takes its ownership over. So if the owned fields have the wanted values, no other
//! manager has changed or removed any of them, and applying them again would write nothing.

use std::hash::{DefaultHasher, Hash, Hasher};

use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value};

/// Operation of a server-side apply in an entry of `managedFields`.
const APPLY: &str = "Apply";

/// Returns a digest of the fields that a manager has applied to a stored object, with their values.
pub(crate) fn held<K: Resource + Serialize>(stored: &K, manager: &str) -> u64 {
    let mut entries = stored.managed_fields().iter();
    let entry = entries.find(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some(APPLY)
            && entry.subresource.is_none()
    });
    let fields = entry.and_then(|entry| entry.fields_v1.as_ref());
    let object = serde_json::to_value(stored).unwrap_or_default();
    digest(&fields.map_or(Value::Null, |fields| owned_part(&object, &fields.0)))
}

/// Returns the digest that [`held`] will return for an object once it is applied.
pub(crate) fn wanted(object: &Value) -> u64 {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        // These fields identify the object, and no manager owns them.
        for field in ["name", "namespace", "uid"] {
            metadata.remove(field);
        }
    }
    digest(&object)
}

/// Returns the part of a value that these fields name.
fn owned_part(value: &Value, fields: &Value) -> Value {
    let none = Map::new();
    let fields = fields.as_object().unwrap_or(&none);
    match value {
        // A list or map that is owned as a whole (atomic).
        whole if fields.is_empty() => whole.clone(),
        Value::Object(map) => {
            let named = fields.iter().filter_map(|(field, below)| {
                let name = field.strip_prefix("f:")?;
                Some((name.to_owned(), owned_part(map.get(name)?, below)))
            });
            Value::Object(named.collect())
        }
        Value::Array(items) => {
            let named = items.iter().filter_map(|item| {
                let below = fields.iter().find(|(field, _)| names_item(field, item))?.1;
                Some(owned_part(item, below))
            });
            Value::Array(named.collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Returns true if a field, such as `k:{"name":"http"}`, names this item of a list.
fn names_item(field: &str, item: &Value) -> bool {
    if let Some(value) = field.strip_prefix("v:") {
        return serde_json::from_str::<Value>(value).is_ok_and(|value| value == *item);
    }
    let keys = field.strip_prefix("k:").map(serde_json::from_str::<Value>);
    let Some(Ok(Value::Object(keys))) = keys else {
        return false;
    };
    keys.iter().all(|(key, value)| item.get(key) == Some(value))
}

/// Returns a digest that does not depend on the order of fields. It is valid within this process only: another version
/// of the program may hash differently.
fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    hash(value, &mut hasher);
    hasher.finish()
}

fn hash(value: &Value, into: &mut DefaultHasher) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            "{".hash(into);
            for (name, value) in fields {
                name.hash(into);
                hash(value, into);
            }
            "}".hash(into);
        }
        Value::Array(items) => {
            "[".hash(into);
            items.iter().for_each(|item| hash(item, into));
            "]".hash(into);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            value.to_string().hash(into);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Returns the fields of a Deployment as they are applied.
    fn applied() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "team", "labels": {"app": "d"}},
            "spec": {
                "selector": {"matchLabels": {"app": "d"}},
                "template": {"spec": {
                    "containers": [
                        {"name": "server", "image": "example/server:1", "args": ["--a", "--b"], "ports": [{"containerPort": 8080}]},
                        {"name": "proxy", "image": "example/proxy:1"},
                    ],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                }},
            },
        })
    }

    /// Returns the entry of `managedFields` that the API server makes of [`applied`].
    fn fields() -> Value {
        json!({
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:selector": {},
                "f:template": {"f:spec": {
                    "f:containers": {
                        "k:{\"name\":\"proxy\"}": {".": {}, "f:name": {}, "f:image": {}},
                        "k:{\"name\":\"server\"}": {
                            ".": {}, "f:name": {}, "f:image": {}, "f:args": {},
                            "f:ports": {"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                        },
                    },
                    "f:volumes": {"k:{\"name\":\"tmp\"}": {".": {}, "f:emptyDir": {}, "f:name": {}}},
                }},
            },
        })
    }

    /// Returns the object as it is stored, with the fields that the API server and other managers add.
    fn stored() -> Value {
        let mut stored = applied();
        stored["metadata"]["uid"] = "u".into();
        stored["metadata"]["annotations"] = json!({"note": "theirs"});
        stored["metadata"]["managedFields"] = json!([
            {"manager": "other", "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            {"manager": "us", "operation": "Apply", "fieldsV1": fields()},
        ]);
        stored["spec"]["replicas"] = 3.into();
        let pod = &mut stored["spec"]["template"]["spec"];
        pod["restartPolicy"] = "Always".into();
        pod["containers"][0]["ports"][0]["protocol"] = "TCP".into();
        stored["status"] = json!({"replicas": 2});
        stored
    }

    fn digest_of(stored: Value) -> u64 {
        held(&serde_json::from_value::<Deployment>(stored).unwrap(), "us")
    }

    #[test]
    fn the_digest_ignores_fields_that_others_add() {
        assert_eq!(digest_of(stored()), wanted(&applied()));
        let mut scaled = stored();
        scaled["spec"]["replicas"] = 9.into();
        assert_eq!(digest_of(scaled), wanted(&applied()));
    }

    #[test]
    fn a_field_taken_over_or_wanted_differently_changes_the_digest() {
        let mut taken = stored();
        let ours = &mut taken["metadata"]["managedFields"][1]["fieldsV1"];
        ours["f:metadata"] = json!({});
        assert_ne!(digest_of(taken), wanted(&applied()));
        let mut more = applied();
        more["metadata"]["labels"]["team"] = "a".into();
        assert_ne!(digest_of(stored()), wanted(&more));
        let mut less = applied();
        less["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("args");
        assert_ne!(digest_of(stored()), wanted(&less));
    }

    #[test]
    fn an_object_that_was_never_applied_has_no_owned_fields() {
        let mut others = stored();
        others["metadata"]["managedFields"] = json!([]);
        assert_ne!(digest_of(others), wanted(&applied()));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Returns the fields of everything that a value has below maps. Lists are owned as a whole.
    fn all_fields(value: &Value) -> Value {
        let Some(map) = value.as_object() else {
            return json!({});
        };
        let named = map.iter().map(|(name, value)| (format!("f:{name}"), all_fields(value)));
        Value::Object(named.collect())
    }

    proptest! {
        #[test]
        fn digests_are_equal_exactly_if_values_are(one in value(), other in value()) {
            prop_assert_eq!(digest(&one) == digest(&other), one == other);
        }

        #[test]
        fn the_part_of_all_fields_is_the_whole(one in value()) {
            prop_assert_eq!(owned_part(&one, &all_fields(&one)), one);
        }
    }
}
