//! Tags: the names of a service's revisions that are reachable by themselves.

use std::fmt;
use std::sync::Arc;

use super::label::{self, First, MAX_LABEL};
use crate::ClusterError;

/// A name for one revision of a service, such as `latest`, `prev` or that of a canary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(Arc<str>);

impl Tag {
    /// Reads one: a DNS label that begins with a letter, as a canary's name.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when it is none.
    pub fn new(tag: &str) -> Result<Self, ClusterError> {
        label::check("tag", tag, First::Letter, MAX_LABEL)?;
        Ok(Self(tag.into()))
    }

    /// The tag as it is written.
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
