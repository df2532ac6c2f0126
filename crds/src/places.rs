//! Where the fields of an object are written.

use std::collections::BTreeMap;

use crate::mistake::Place;
use crate::yaml::{Content, Node};

/// Where the fields of an object are written, so that what is found wrong with it later can still be
/// shown in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    file: String,
    by_path: BTreeMap<String, Place>,
}

impl Places {
    pub(crate) fn of(file: &str, node: &Node) -> Self {
        let mut places = Self {
            file: file.to_owned(),
            by_path: BTreeMap::new(),
        };
        places.note(String::new(), node);
        places
    }

    /// What the text was called.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where that field is written, or the nearest that encloses it: a default is nowhere.
    #[must_use]
    pub fn of_field(&self, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.by_path.get(path) {
                return Some(*place);
            }
            if path.is_empty() {
                return None;
            }
            path = enclosing(path);
        }
    }

    fn note(&mut self, path: String, node: &Node) {
        match &node.content {
            Content::Scalar(_) => {}
            Content::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.note(item_path(&path, i), item);
                }
            }
            Content::Map(entries) => {
                for entry in entries {
                    let below = field_path(&path, &entry.key);
                    self.by_path.insert(below.clone(), entry.place);
                    self.note(below, &entry.value);
                }
            }
        }
        // A field is where its key is; only items and documents are where their value is.
        self.by_path.entry(path).or_insert(node.place);
    }
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
