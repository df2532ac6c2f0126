//! Errors of a cluster.

use std::error::Error;

/// Error of a cluster. A caller can correct the input, or try again.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// An invalid name: correct it.
    #[error("{what} {value:?}: {because}")]
    Name {
        /// Which kind of name, such as "service name".
        what: &'static str,
        /// The name as given.
        value: String,
        /// The rule that it breaks, a clause.
        because: String,
    },
    /// No such revision exists here.
    #[error("unknown revision {name}; known revisions: {known}")]
    UnknownRevision {
        /// The one asked for, with its namespace.
        name: String,
        /// Existing revisions, or "none".
        known: String,
    },
    /// A request that can never be fulfilled here: correct it.
    #[error("{subject}: {because}")]
    Refused {
        /// Name of what the request is about.
        subject: String,
        /// The rule that it breaks, a clause.
        because: String,
    },
    /// A request that is not allowed for now, by a quota, an admission webhook or missing rights: it is tried again.
    #[error("{subject}: {because}")]
    Denied {
        /// Name of what the request is about.
        subject: String,
        /// The one that denies it and what to do, a clause.
        because: String,
    },
    /// The cluster did not do it this time: try again.
    #[error("{what} is not available")]
    Unavailable {
        /// Name of what did not answer.
        what: String,
        /// Cause, as the cluster gave it.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ClusterError {
    /// A refusal of `subject`, because of `because`.
    #[must_use]
    pub fn refused(subject: impl ToString, because: impl Into<String>) -> Self {
        Self::Refused { subject: subject.to_string(), because: because.into() }
    }

    /// A denial for now of what `subject` asks for, because of `because`.
    #[must_use]
    pub fn denied(subject: impl ToString, because: impl Into<String>) -> Self {
        Self::Denied { subject: subject.to_string(), because: because.into() }
    }

    pub(crate) fn name(what: &'static str, value: &str, because: impl Into<String>) -> Self {
        Self::Name { what, value: value.to_owned(), because: because.into() }
    }
}
