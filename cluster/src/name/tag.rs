//! Tags: names under which single revisions of a service are reachable.

use std::fmt;
use std::sync::Arc;

use super::label::{self, First, MAX_LABEL};
use crate::ClusterError;

/// A name for one revision of a service, such as `latest`, `prev` or that of a canary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(Arc<str>);

impl Tag {
    /// Parses a tag: a DNS label that begins with a letter, like a canary's name.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the text is not such a label.
    pub fn new(tag: &str) -> Result<Self, ClusterError> {
        label::check("tag", tag, First::Letter, MAX_LABEL)?;
        Ok(Self(tag.into()))
    }

    /// The text of the tag.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
