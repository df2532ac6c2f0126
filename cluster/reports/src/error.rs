//! Errors of a watch of a gateway's reports.

use std::time::Duration;

use weir_cluster::{ClusterError, RevisionName};

/// Failure of a watch of a gateway's reports. All but passing trouble of the network is a mistake of
/// the gateway, or of what answers in its place.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No connection could be made.
    #[error("cannot connect: {0}")]
    ConnectFailed(String),
    /// The gateway answered with an error, or the connection broke.
    #[error("{}: {}", .0.code(), .0.message())]
    Broken(Box<tonic::Status>),
    /// The gateway ended the watch.
    #[error("the gateway ended the watch")]
    Ended,
    /// No report came in time.
    #[error("no report for {0:?}")]
    Silent(Duration),
    /// A report has an invalid revision name.
    #[error("invalid report")]
    Name(#[from] ClusterError),
    /// A report has more of something than can be.
    #[error("invalid report: {count} {what}, at most {most} are accepted")]
    TooMany {
        /// The plural of what there is too much of.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// A report names a revision twice.
    #[error("invalid report: {0} is listed twice")]
    DuplicateRevision(RevisionName),
    /// A number is larger than it can be.
    #[error("invalid report of {revision}: {what} is {value}, at most {most} is accepted")]
    TooLarge {
        /// The revision that is reported.
        revision: RevisionName,
        /// Name of the number.
        what: &'static str,
        /// Value of the number.
        value: u64,
        /// The largest that is accepted.
        most: u64,
    },
    /// A histogram has buckets that there are not.
    #[error("invalid report of {revision}: a histogram has bucket {last}, the last is {most}")]
    Bucket {
        /// The revision that is reported.
        revision: RevisionName,
        /// The last bucket that it fills.
        last: usize,
        /// The last there is.
        most: usize,
    },
}

impl RemoteError {
    pub(crate) fn broken(status: tonic::Status) -> Self {
        Self::Broken(Box::new(status))
    }
}
