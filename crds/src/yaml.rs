//! YAML as Kubernetes reads it, with the position of every value.

mod compose;
mod scalar;

pub(crate) use compose::documents;
pub(crate) use scalar::{Scalar, Value};

use crate::diagnostic::Position;

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) content: Content,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping, where it begins, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) position: Position,
    pub(crate) value: Node,
}

impl Node {
    /// The value of a key, if this is a mapping that has it.
    pub(crate) fn field(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Content::List(_) | Content::Scalar(_) => None,
        }
        .map(|entry| &entry.value)
    }

    /// The text, if this is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(scalar) => scalar.text(),
            Content::List(_) | Content::Map(_) => None,
        }
    }

    /// Whether nothing is written here.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(scalar) if scalar.value == Value::Null)
    }

    /// What is written here, for a sentence.
    pub(crate) fn described(&self) -> String {
        match &self.content {
            Content::Scalar(scalar) => scalar.described(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The same value in JSON.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match &self.content {
            Content::Scalar(scalar) => scalar.to_json(),
            Content::List(items) => items.iter().map(Node::to_json).collect(),
            Content::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
        }
    }
}
