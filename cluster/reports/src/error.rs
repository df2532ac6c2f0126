//! Errors of a watch of a gateway's reports.

use std::time::Duration;

use weir_cluster::{ClusterError, RevisionName};

/// Failure of a watch of a gateway's reports. Except for transient network failures, each is a defect of the gateway or
/// of another server at its address.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No connection could be made.
    #[error("cannot connect: {0}")]
    ConnectFailed(String),
    /// The gateway returned an error, or the connection broke.
    #[error("{}: {}", .0.code(), .0.message())]
    Broken(Box<tonic::Status>),
    /// The gateway ended the watch.
    #[error("the gateway ended the watch")]
    Ended,
    /// No report arrived within this time.
    #[error("no report for {0:?}")]
    Silent(Duration),
    /// A report has an invalid revision name.
    #[error("invalid report")]
    Name(#[from] ClusterError),
    /// A report has more entries of one kind than are accepted.
    #[error("invalid report: {count} {what}, at most {most} are accepted")]
    TooMany {
        /// Plural name of the entries.
        what: &'static str,
        /// Number of entries in the report.
        count: usize,
        /// Maximum number that is accepted.
        most: usize,
    },
    /// A report names a revision twice.
    #[error("invalid report: {0} is listed twice")]
    DuplicateRevision(RevisionName),
    /// A number is larger than accepted.
    #[error("invalid report of {revision}: {what} is {value}, at most {most} is accepted")]
    TooLarge {
        /// The revision that the number belongs to.
        revision: RevisionName,
        /// Name of the number.
        what: &'static str,
        /// Value of the number.
        value: u64,
        /// Maximum value that is accepted.
        most: u64,
    },
    /// A histogram has counts for buckets that do not exist.
    #[error("invalid report of {revision}: a histogram has bucket {last}, the last is {most}")]
    Bucket {
        /// The revision that the number belongs to.
        revision: RevisionName,
        /// Index of the last bucket with a count.
        last: usize,
        /// Index of the last existing bucket.
        most: usize,
    },
}

impl RemoteError {
    pub(crate) fn broken(status: tonic::Status) -> Self {
        Self::Broken(Box::new(status))
    }
}
