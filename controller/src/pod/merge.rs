//! Laying one part of a pod over another, as Kubernetes' strategic merge does.

use serde_json::Value;

/// Lists whose items are known by a field, and that field. All others are replaced as a whole.
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

/// Lays `above` over `below`: mappings field by field, keyed lists item by item, the rest as a whole.
/// An empty list of containers is none.
pub(super) fn lay_over(below: &mut Value, above: Value) {
    let (Value::Object(fields), Value::Object(above)) = (below, above) else {
        return;
    };
    for (name, value) in above {
        let key = KEYED
            .iter()
            .find(|(list, _)| *list == name)
            .map(|(_, key)| *key);
        match (fields.get_mut(&name), key) {
            (Some(Value::Array(old)), Some(key)) => lay_items(old, value, key),
            (Some(old @ Value::Object(_)), _) if value.is_object() => lay_over(old, value),
            (Some(_) | None, _) => {
                fields.insert(name, value);
            }
        }
    }
}

fn lay_items(below: &mut Vec<Value>, above: Value, key: &str) {
    let Value::Array(above) = above else { return };
    for item in above {
        match below.iter_mut().find(|old| old.get(key) == item.get(key)) {
            Some(old) => lay_over(old, item),
            None => below.push(item),
        }
    }
}

/// Arguments add up: the runtime's, then the model's.
pub(super) fn join_args(below: &Value, above: &mut Value) {
    let Some(Value::Array(first)) = below.get("args") else {
        return;
    };
    if let Some(Value::Array(then)) = above.get_mut("args") {
        let joined = first.iter().chain(&*then).cloned().collect();
        *then = joined;
    }
}
