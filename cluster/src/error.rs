//! Errors of cluster operations.

use std::error::Error;

/// Error of a cluster operation. The variant says whether the caller should correct the input or retry.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A name is invalid; the caller must correct it.
    #[error("{what} {value:?}: {because}")]
    Name {
        /// Kind of name, such as "service name".
        what: &'static str,
        /// The name as given.
        value: String,
        /// The broken rule, as a clause.
        because: String,
    },
    /// The cluster has no revision of this name.
    #[error("unknown revision {name}")]
    UnknownRevision {
        /// The requested revision, with its namespace.
        name: String,
    },
    /// The cluster can never fulfil this request; the caller must correct it.
    #[error("{subject}: {because}")]
    Refused {
        /// Name of the object that the request is about.
        subject: String,
        /// The broken rule, as a clause.
        because: String,
    },
    /// A quota, an admission webhook or missing permissions deny the request for now; the caller retries it.
    #[error("{subject}: {because}")]
    Denied {
        /// Name of the object that the request is about.
        subject: String,
        /// The component that denies the request and the remedy, as a clause.
        because: String,
    },
    /// The cluster did not respond or failed temporarily; the caller retries.
    #[error("{what} is not available")]
    Unavailable {
        /// Name of the component that did not respond.
        what: String,
        /// The underlying error from the cluster.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ClusterError {
    /// Returns a refusal of `subject`; `because` is the broken rule, as a clause.
    #[must_use]
    pub fn refused(subject: impl ToString, because: impl Into<String>) -> Self {
        Self::Refused { subject: subject.to_string(), because: because.into() }
    }

    /// Returns a temporary denial of a request about `subject`; `because` is a clause with the cause and the remedy.
    #[must_use]
    pub fn denied(subject: impl ToString, because: impl Into<String>) -> Self {
        Self::Denied { subject: subject.to_string(), because: because.into() }
    }

    pub(crate) fn name(what: &'static str, value: &str, because: impl Into<String>) -> Self {
        Self::Name { what, value: value.to_owned(), because: because.into() }
    }
}
