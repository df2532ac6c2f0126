//! Why a cluster does not do what it is asked.

use std::error::Error;

/// What a caller can act on: correct the input, or try again.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A name that cannot be one. Correct it.
    #[error("{what} {value:?}: {because}")]
    Name {
        /// Which kind of name, such as "service name".
        what: &'static str,
        /// The name as given.
        value: String,
        /// What it breaks.
        because: String,
    },
    /// No such revision runs here.
    #[error("no revision {name}; there are: {known}")]
    UnknownRevision {
        /// The one asked for, with its namespace.
        name: String,
        /// Those there are, or "none".
        known: String,
    },
    /// What was asked for can never run here as it is. Correct it.
    #[error("{subject}: {because}")]
    Refused {
        /// What it is about, by name.
        subject: String,
        /// What is wrong, a clause.
        because: String,
    },
    /// The cluster did not do it this time. Try again.
    #[error("{what} is not available")]
    Unavailable {
        /// Who did not answer.
        what: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ClusterError {
    /// A refusal of `subject`, because of `because`.
    #[must_use]
    pub fn refused(subject: impl ToString, because: impl Into<String>) -> Self {
        Self::Refused {
            subject: subject.to_string(),
            because: because.into(),
        }
    }

    pub(crate) fn name(what: &'static str, value: &str, because: impl Into<String>) -> Self {
        Self::Name {
            what,
            value: value.to_owned(),
            because: because.into(),
        }
    }
}
