//! Why a gateway's reports are not to be had.

use std::time::Duration;

use weir_cluster::{ClusterError, RevisionName};

/// Why a gateway's reports are not to be had. All but a passing trouble of the network is a mistake of
/// the gateway, or of whoever answers in its place.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// It cannot be reached.
    #[error("cannot reach it: {0}")]
    Unreached(String),
    /// It answered with an error, or the connection broke.
    #[error("{}: {}", .0.code(), .0.message())]
    Broken(Box<tonic::Status>),
    /// It ended the watch.
    #[error("it ended the watch")]
    Ended,
    /// It says nothing.
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    /// A report names what is no revision.
    #[error("its report is wrong")]
    Name(#[from] ClusterError),
    /// A report has more of something than can be.
    #[error("its report has {count} {what}; at most {most} are believed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// So many.
        count: usize,
        /// The most that are believed.
        most: usize,
    },
    /// A report names a revision twice.
    #[error("its report names {0} twice")]
    Twice(RevisionName),
    /// A number is larger than it can be.
    #[error("its report of {revision} says {what} {value}; at most {most} are believed")]
    TooLarge {
        /// Whose number.
        revision: RevisionName,
        /// Which number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// The most that is believed.
        most: u64,
    },
    /// A histogram has buckets that there are not.
    #[error("its report of {revision} has a histogram with bucket {last}; the last is {most}")]
    Bucket {
        /// Whose histogram.
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
