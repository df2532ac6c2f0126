//! Positions of an object's fields in its file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostic::Position;
use crate::yaml::{Content, Node};

/// Positions of an object's fields in its file, for errors that are found after reading. Clones share the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Arc<Written>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    file: String,
    /// Positions sorted by the path of the field.
    fields: Box<[(Box<str>, Position)]>,
}

type ByPath = BTreeMap<String, Position>;

impl Spans {
    pub(crate) fn of(file: &str, node: &Node) -> Self {
        let mut by_path = ByPath::new();
        record(&mut by_path, String::new(), node);
        let fields = by_path.into_iter();
        Self(Arc::new(Written {
            file: file.to_owned(),
            fields: fields.map(|(path, position)| (path.into(), position)).collect(),
        }))
    }

    /// Name of the file, as given to [`crate::read`].
    #[must_use]
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Returns the position of a field, or of the innermost enclosing one if the field itself is not written.
    #[must_use]
    pub fn of_field(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            let fields = &self.0.fields;
            if let Ok(at) = fields.binary_search_by(|(field, _)| (**field).cmp(path)) {
                return Some(fields[at].1);
            }
            if path.is_empty() {
                return None;
            }
            path = enclosing(path);
        }
    }
}

fn record(by_path: &mut ByPath, path: String, node: &Node) {
    match &node.content {
        Content::Scalar(_) => {}
        Content::List(items) => {
            for (i, item) in items.iter().enumerate() {
                record(by_path, item_path(&path, i), item);
            }
        }
        Content::Map(entries) => {
            for entry in entries {
                let below = field_path(&path, &entry.key);
                by_path.insert(below.clone(), entry.position);
                record(by_path, below, &entry.value);
            }
        }
    }
    // A field has the position of its key; items and documents have the position of their value.
    by_path.entry(path).or_insert(node.position);
}

/// Returns the path of a field below `path`. A key with other characters is put in brackets, as in Kubernetes.
pub(crate) fn field_path(path: &str, key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.chars().all(plain) {
        format!("{path}[{key}]")
    } else if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Returns the path of an item of the list at `path`.
pub(crate) fn item_path(path: &str, i: usize) -> String {
    format!("{path}[{i}]")
}

/// Returns the path without its last step.
fn enclosing(path: &str) -> &str {
    let end = match path.strip_suffix(']') {
        Some(inside) => inside.rfind('['),
        None => path.rfind('.'),
    };
    &path[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::{enclosing, field_path};

    #[test]
    fn enclosing_removes_the_last_step() {
        let path = field_path("metadata.annotations", "weir.dev/rollout");
        assert_eq!(path, "metadata.annotations[weir.dev/rollout]");
        assert_eq!(enclosing(&path), "metadata.annotations");
        assert_eq!(enclosing("spec.canary[2]"), "spec.canary");
        assert_eq!(enclosing("spec.canary"), "spec");
        assert_eq!(enclosing("spec"), "");
    }
}
