//! The identity of workloads: workloads with the same identity are one revision.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::canonical_form::canonical_form;
use super::{PodTemplate, Storage};

/// Hash of what shapes a revision's pods, the template and the storage: 16 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(Arc<str>);

/// Number of bytes of the hash that are kept: 64 bits distinguish the few revisions of one service, and fit a
/// Kubernetes label.
const LENGTH: usize = 8;

impl Identity {
    /// Reads a stored identity, for instance from a label.
    #[must_use]
    pub fn from_label(label: &str) -> Self {
        Self(label.into())
    }

    pub(super) fn of(template: &PodTemplate, storage: &[Storage]) -> Self {
        let mounts: Vec<_> = storage.iter().map(|s| (&*s.uri, &*s.mount_path)).collect();
        Self::of_value(json!({ "template": template.read(), "storage": mounts }))
    }

    /// Hashes a value independently of the order of its fields.
    #[must_use]
    pub fn of_value(value: Value) -> Self {
        let hash = Sha256::digest(sorted(value).to_string());
        let digits = hash[..LENGTH].iter().map(|byte| format!("{byte:02x}"));
        Self(digits.collect::<String>().into())
    }

    /// Hashes the canonical form of a value with the fields of a pod: texts with the same meaning have the same hash.
    #[must_use]
    pub fn of_canonical_form(pod: Value) -> Self {
        Self::of_value(canonical_form(pod))
    }

    /// The 16 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Sorts the keys at every depth, so that the order of fields in a library's structs does not matter.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(k, v)| (k, sorted(v))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
    }
}
