//! Parsers for the settings of the init containers that download models.

use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::Value;
use weir_crds::quantity_value;

/// Parses the resources of a container.
pub(super) fn resources(text: &str) -> Result<ResourceRequirements, String> {
    let advised =
        |error: serde_json::Error| format!("{error}: write, for example, {{\"limits\": {{\"memory\": \"2Gi\"}}}}");
    let value = serde_json::from_str(text).map_err(advised)?;
    let parsed: ResourceRequirements = serde_json::from_value(with_texts(value)).map_err(advised)?;
    let amounts = [&parsed.requests, &parsed.limits].into_iter().flatten().flatten();
    for (resource, amount) in amounts {
        if quantity_value(&amount.0).is_none_or(|amount| amount < 0.0) {
            return Err(format!("{resource}: {:?} is not a quantity: write, for example, 500m or 2Gi", amount.0));
        }
    }
    Ok(parsed)
}

/// Returns a value whose numbers are texts, as quantities are in JSON.
fn with_texts(value: Value) -> Value {
    match value {
        Value::Number(number) => number.to_string().into(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, with_texts(field))).collect(),
        other @ (Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_)) => other,
    }
}

/// Parses a variable and its value, which may contain `=` and may be empty.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("{text:?} has no value: write NAME=VALUE"))?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("{name:?} is not the name of a variable: write NAME=VALUE"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_json() {
        let read = resources(r#"{"limits": {"memory": "2Gi"}, "requests": {"cpu": 1}}"#).unwrap();
        assert_eq!(read.limits.unwrap()["memory"].0, "2Gi");
        assert_eq!(read.requests.unwrap()["cpu"].0, "1");
        for wrong in ["memory=2Gi", r#"{"limits": {"memory": "lots"}}"#, r#"{"requests": {"cpu": "-1"}}"#] {
            assert!(resources(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_variable_has_a_name_and_a_value() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(variable("HTTPS_PROXY=http://proxy:3128/?a=b"), pair("HTTPS_PROXY", "http://proxy:3128/?a=b"));
        assert_eq!(variable("NO_PROXY="), pair("NO_PROXY", ""));
        for wrong in ["NO_PROXY", "=value", "A B=value"] {
            assert!(variable(wrong).is_err(), "{wrong}");
        }
    }
}
