//! Merging of pod parts, as Kubernetes' strategic merge patch does.

use serde_json::Value;

/// Lists merged item by item, and the field that identifies an item. Other lists are replaced as a whole.
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

/// Merges `above` into `below`: mappings field by field, keyed lists item by item, the rest as a whole.
pub(super) fn merge(below: &mut Value, above: Value) {
    let (Value::Object(fields), Value::Object(above)) = (below, above) else {
        return;
    };
    for (name, value) in above {
        let key = KEYED
            .iter()
            .find(|(list, _)| *list == name)
            .map(|(_, key)| *key);
        match (fields.get_mut(&name), key) {
            (Some(Value::Array(old)), Some(key)) => merge_items(old, value, key),
            (Some(old @ Value::Object(_)), _) if value.is_object() => merge(old, value),
            (Some(_) | None, _) => {
                fields.insert(name, value);
            }
        }
    }
}

fn merge_items(below: &mut Vec<Value>, above: Value, key: &str) {
    let Value::Array(above) = above else { return };
    for item in above {
        match below.iter_mut().find(|old| old.get(key) == item.get(key)) {
            Some(old) => merge(old, item),
            None => below.push(item),
        }
    }
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
