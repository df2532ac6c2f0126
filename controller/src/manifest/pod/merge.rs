//! Merging of pod parts, like Kubernetes' strategic merge patch. If fields exclude each other, only the upper part's
//! stays.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Lists that are merged item by item, with the field that identifies an item. Other lists are replaced as a whole.
const KEYED: [(&str, &str); 8] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("env", "name"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("resourceClaims", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
];

/// Fields that hold exactly one kind of probe or lifecycle action.
const CALLS: [&str; 5] = ["livenessProbe", "postStart", "preStop", "readinessProbe", "startupProbe"];

/// Mutually exclusive fields of [`CALLS`].
const WAYS: [&str; 5] = ["exec", "grpc", "httpGet", "sleep", "tcpSocket"];

/// Merges `above` into `below`: mappings field by field, keyed lists item by item, the rest as a whole.
pub(super) fn merge(below: &mut Value, above: Value) {
    let (Value::Object(fields), Value::Object(above)) = (below, above) else {
        return;
    };
    for (name, value) in above {
        let list = KEYED.iter().find(|(list, _)| *list == name);
        match (fields.get_mut(&name), list) {
            (Some(Value::Array(old)), Some(list)) => merge_items(old, value, *list),
            (Some(old @ Value::Object(_)), _) if value.is_object() => {
                merge_named(&name, old, value);
            }
            (Some(_) | None, _) => {
                fields.insert(name, value);
            }
        }
    }
}

fn merge_items(below: &mut Vec<Value>, above: Value, (list, key): (&str, &str)) {
    let Value::Array(above) = above else { return };
    // If two items of `below` have the same key, an item of `above` is merged into the first.
    let mut places = HashMap::new();
    for (i, old) in below.iter().enumerate() {
        places.entry(identity(old, key)).or_insert(i);
    }
    for item in above {
        let next = below.len();
        let place = *places.entry(identity(&item, key)).or_insert(next);
        match below.get_mut(place) {
            Some(old) => merge_named(list, old, item),
            None => below.push(item),
        }
    }
}

/// Returns an item's key as JSON; None for an item without a key.
fn identity(item: &Value, key: &str) -> Option<String> {
    item.get(key).map(Value::to_string)
}

/// Merges a mapping, or an item of a list, that has this name. A field of the lower one is removed if the upper one has
/// another field of a mutually exclusive group: sources of a volume or of a variable's value, or kinds of probe.
fn merge_named(name: &str, below: &mut Value, above: Value) {
    if let (Value::Object(old), Value::Object(new)) = (&mut *below, &above) {
        let excludes = |field: &str| match name {
            "env" | "volumes" => field != "name",
            _ => CALLS.contains(&name) && WAYS.contains(&field),
        };
        if is_other(old, new, excludes) || name == "env" {
            old.retain(|field, _| !excludes(field));
        }
    }
    merge(below, above);
}

/// Returns true if the new mapping has a mutually exclusive field that the old one lacks.
fn is_other(old: &Map<String, Value>, new: &Map<String, Value>, excludes: impl Fn(&str) -> bool) -> bool {
    let mut fields = new.keys();
    fields.any(|field| excludes(field) && !old.contains_key(field))
}

/// Prepends the runtime's arguments to the model's.
pub(super) fn join_args(below: &Value, above: &mut Value) {
    let Some(Value::Array(first)) = below.get("args") else {
        return;
    };
    if let Some(Value::Array(then)) = above.get_mut("args") {
        let joined = first.iter().chain(&*then).cloned().collect();
        *then = joined;
    }
}
