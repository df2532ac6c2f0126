//! The nested structure of inputs and outputs, which torch calls a pytree.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::ExportedError;
use crate::format::schema::NamedTuple;

/// Largest size of all paths of a tree together, in bytes. A path repeats the keys of the containers around its leaf.
const MOST_BYTES: usize = 16 << 20;

/// A step from a value to one of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Entry of a dict or field of a named tuple.
    Key(String),
    /// Element of a tuple or list.
    Position(usize),
}

impl Step {
    fn bytes(&self) -> usize {
        match self {
            Self::Key(key) => size_of::<Self>() + key.len(),
            Self::Position(_) => size_of::<Self>(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Spec {
    #[serde(rename = "type")]
    kind: Option<String>,
    context: Option<Value>,
    #[serde(default)]
    children_spec: Vec<Spec>,
}

/// Returns the path of each leaf of a tree in its serialised form: steps joined by dots, in which positions begin with
/// `#`. The path of a tree that is a leaf itself is empty.
///
/// # Errors
/// [`ExportedError::Schema`] if the text is no tree.
pub fn paths(text: &str) -> Result<Vec<String>, ExportedError> {
    Ok(leaves(text, &HashMap::new())?.iter().map(|path| joined(path)).collect())
}

/// Returns the path of each leaf of a tree in its serialised form, `[1, {"type": …}]`.
pub(crate) fn leaves(text: &str, tuples: &HashMap<String, NamedTuple>) -> Result<Vec<Vec<Step>>, ExportedError> {
    let (_, root): (Value, Spec) = serde_json::from_str(text).map_err(ExportedError::schema)?;
    let mut visit = Visit { tuples, path: Vec::new(), found: Vec::new(), bytes: 0 };
    visit.leaves(&root)?;
    Ok(visit.found)
}

/// A walk through a tree.
struct Visit<'a> {
    tuples: &'a HashMap<String, NamedTuple>,
    path: Vec<Step>,
    found: Vec<Vec<Step>>,
    /// Size of the paths that are found.
    bytes: usize,
}

impl Visit<'_> {
    fn leaves(&mut self, spec: &Spec) -> Result<(), ExportedError> {
        let Some(kind) = &spec.kind else { return self.leaf() };
        let children = &spec.children_spec;
        let keys = keys(kind, spec.context.as_ref(), self.tuples, children.len());
        for (index, child) in children.iter().enumerate() {
            self.path.push(keys.get(index).map_or(Step::Position(index), |key| Step::Key(key.clone())));
            self.leaves(child)?;
            self.path.pop();
        }
        Ok(())
    }

    fn leaf(&mut self) -> Result<(), ExportedError> {
        self.bytes += self.path.iter().map(Step::bytes).sum::<usize>();
        if self.bytes > MOST_BYTES {
            return Err(ExportedError::Schema("the names of its inputs or outputs are too long".to_owned()));
        }
        self.found.push(self.path.clone());
        Ok(())
    }
}

/// Returns the names of a container's parts, up to `count`; none for a tuple or a list.
fn keys(kind: &str, context: Option<&Value>, tuples: &HashMap<String, NamedTuple>, count: usize) -> Vec<String> {
    let context = match context {
        // The context of built-in containers is JSON text inside the JSON text.
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        Some(other) => other.clone(),
        None => Value::Null,
    };
    if kind.ends_with("namedtuple") {
        let name = match &context {
            Value::String(name) => Some(name.as_str()),
            Value::Object(fields) => fields.values().find_map(Value::as_str),
            _ => None,
        };
        let tuple = name.and_then(|name| tuples.get(name));
        return tuple.map(|tuple| tuple.field_names.iter().take(count).cloned().collect()).unwrap_or_default();
    }
    let text = |value: &Value| match value {
        Value::String(key) => Some(key.clone()),
        Value::Number(key) => Some(key.to_string()),
        _ => None,
    };
    let list = |value: &Value| value.as_array().and_then(|keys| keys.iter().map(text).collect::<Option<Vec<_>>>());
    match &context {
        Value::Array(parts) => list(&context).or_else(|| parts.iter().find_map(list)).unwrap_or_default(),
        Value::Object(fields) => fields.values().find_map(list).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Returns the path with its steps joined by dots; positions begin with `#`.
pub(crate) fn joined(path: &[Step]) -> String {
    let step = |step: &Step| match step {
        Step::Key(key) if key.starts_with('#') => format!("#{key}"),
        Step::Key(key) => key.clone(),
        Step::Position(index) => format!("#{index}"),
    };
    path.iter().map(step).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_are_found_by_keys_and_positions() {
        let text = r#"[1, {"type": "builtins.dict", "context": "[\"a\", \"b\"]", "children_spec": [
            {"type": null, "context": null, "children_spec": []},
            {"type": "builtins.tuple", "context": "null", "children_spec": [
                {"type": null, "context": null, "children_spec": []},
                {"type": null, "context": null, "children_spec": []}]}]}]"#;
        let found: Vec<String> = leaves(text, &HashMap::new()).unwrap().iter().map(|path| joined(path)).collect();
        assert_eq!(found, ["a", "b.#0", "b.#1"]);
    }

    #[test]
    fn fields_of_named_tuples_are_keys() {
        let fields = NamedTuple { field_names: vec!["mean".to_owned()] };
        let tuples = HashMap::from([("m.Both".to_owned(), fields)]);
        let text = r#"[1, {"type": "collections.namedtuple", "context": "\"m.Both\"",
                           "children_spec": [{"type": null, "context": null}]}]"#;
        assert_eq!(leaves(text, &tuples).unwrap(), [vec![Step::Key("mean".to_owned())]]);
    }

    #[test]
    fn a_key_around_many_leaves_is_not_copied_without_bound() {
        let tree = |key: usize, leaves: usize| {
            let leaves = vec![r#"{"type": null}"#; leaves].join(",");
            let inner = format!(r#"{{"type": "builtins.tuple", "context": "null", "children_spec": [{leaves}]}}"#);
            let key = "k".repeat(key);
            format!(r#"[1, {{"type": "builtins.dict", "context": "[\"{key}\"]", "children_spec": [{inner}]}}]"#)
        };
        assert_eq!(leaves(&tree(100, 1000), &HashMap::new()).unwrap().len(), 1000);
        let refused = leaves(&tree(20_000, 1000), &HashMap::new()).unwrap_err().to_string();
        assert!(refused.contains("names of its inputs or outputs are too long"), "{refused}");
    }

    #[test]
    fn an_output_class_of_transformers_has_its_keys() {
        let text = r#"[1, {"type": "transformers.modeling_outputs.BaseModelOutput",
                           "context": "[\"last_hidden_state\"]", "children_spec": [{"type": null, "context": null}]}]"#;
        assert_eq!(joined(&leaves(text, &HashMap::new()).unwrap()[0]), "last_hidden_state");
    }
}
