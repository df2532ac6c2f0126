//! YAML as Kubernetes reads it, with the position of every value.

mod compose;
mod scalar;

pub(crate) use compose::{Document, Syntax, documents};
pub(crate) use scalar::{Scalar, Value};

use crate::diagnostic::Position;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) content: Content,
}

/// A scalar, list or mapping.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping with its position and value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) position: Position,
    pub(crate) value: Node,
}

impl Node {
    /// Returns the value of a key; `None` if this is not a mapping or has no such key.
    pub(crate) fn field(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Content::List(_) | Content::Scalar(_) => None,
        }
        .map(|entry| &entry.value)
    }

    /// Returns the text if this is a text scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(scalar) => scalar.text(),
            Content::List(_) | Content::Map(_) => None,
        }
    }

    /// Returns true if the value is null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(scalar) if scalar.value == Value::Null)
    }

    /// Describes the value for an error message.
    pub(crate) fn described(&self) -> String {
        match &self.content {
            Content::Scalar(scalar) => scalar.described(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
        }
    }

    /// Converts the value to JSON.
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
