//! Where the fields of an object are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostic::Position;
use crate::yaml::{Content, Node};

/// Where the fields of an object are written, so that what is found wrong with it later can still be
/// shown in the file. Clones share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans(Arc<Written>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Written {
    file: String,
    /// By path, in order: it is made once, and kept for as long as the object.
    fields: Box<[(Box<str>, Position)]>,
}

type ByPath = BTreeMap<String, Position>;

impl Spans {
    pub(crate) fn of(file: &str, node: &Node) -> Self {
        let mut by_path = ByPath::new();
        note(&mut by_path, String::new(), node);
        let fields = by_path.into_iter();
        Self(Arc::new(Written {
            file: file.to_owned(),
            fields: fields
                .map(|(path, position)| (path.into(), position))
                .collect(),
        }))
    }

    /// What the text was called.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Where that field is written, or the nearest that encloses it: a default is nowhere.
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

fn note(by_path: &mut ByPath, path: String, node: &Node) {
    match &node.content {
        Content::Scalar(_) => {}
        Content::List(items) => {
            for (i, item) in items.iter().enumerate() {
                note(by_path, item_path(&path, i), item);
            }
        }
        Content::Map(entries) => {
            for entry in entries {
                let below = field_path(&path, &entry.key);
                by_path.insert(below.clone(), entry.position);
                note(by_path, below, &entry.value);
            }
        }
    }
    // A field is where its key is; only items and documents are where their value is.
    by_path.entry(path).or_insert(node.position);
}

/// Path of a field below `path`. A key that is no plain word is put in brackets, as Kubernetes does.
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

/// Path of an item of the list at `path`.
pub(crate) fn item_path(path: &str, i: usize) -> String {
    format!("{path}[{i}]")
}

/// The path without its last step.
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
    fn steps_outwards() {
        let path = field_path("metadata.annotations", "weir.dev/rollout");
        assert_eq!(path, "metadata.annotations[weir.dev/rollout]");
        assert_eq!(enclosing(&path), "metadata.annotations");
        assert_eq!(enclosing("spec.canary[2]"), "spec.canary");
        assert_eq!(enclosing("spec.canary"), "spec");
        assert_eq!(enclosing("spec"), "");
    }
}
