//! Replacement of placeholders such as `{{.Name}}` in a runtime's pod by values of the service.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::manifest::service::DEFAULT_NAMESPACE;

/// Replaces the placeholders in every string of a JSON value.
pub(super) fn fill(value: &mut Value, object: &ObjectMeta) -> Result<(), String> {
    match value {
        Value::String(text) if text.contains("{{") => *text = filled(text, object)?,
        Value::Array(items) => {
            for item in items {
                fill(item, object)?;
            }
        }
        Value::Object(fields) => {
            for (_, field) in fields.iter_mut() {
                fill(field, object)?;
            }
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn filled(text: &str, object: &ObjectMeta) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, behind)) = after.split_once("}}") else {
            return Err(format!("unclosed placeholder in `{text}`: add `}}}}`"));
        };
        out.push_str(before);
        out.push_str(&value(name.trim(), object)?);
        rest = behind;
    }
    Ok(out + rest)
}

fn value(name: &str, object: &ObjectMeta) -> Result<String, String> {
    let from = |map: &Option<std::collections::BTreeMap<String, String>>, key: &str| {
        map.as_ref().and_then(|map| map.get(key)).cloned()
    };
    let found = match name.split_once('.') {
        Some(("", "Name")) => object.name.clone(),
        Some(("", "Namespace")) => {
            let namespace = object.namespace.clone();
            let written = namespace.filter(|namespace| !namespace.is_empty());
            Some(written.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()))
        }
        Some(("", field)) => match field.split_once('.') {
            Some(("Labels", key)) => from(&object.labels, key),
            Some(("Annotations", key)) => from(&object.annotations, key),
            Some(_) | None => None,
        },
        Some(_) | None => None,
    };
    let known = ".Name, .Namespace, and .Labels.KEY and .Annotations.KEY that the service has";
    found.ok_or_else(|| format!("unknown placeholder `{{{{{name}}}}}`; known: {known}"))
}
