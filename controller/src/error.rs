//! Why the control plane does not go on.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use weir_cluster::ClusterError;

/// What a caller can act on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// What is declared has mistakes, one a line, each with its place. Correct them.
    #[error("{}", .0.join("\n"))]
    InvalidManifests(Vec<String>),
    /// A path that cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder whose changes cannot be watched.
    #[error("cannot watch {path} for changes: {source}")]
    Watch {
        /// Which.
        path: PathBuf,
        /// Why.
        source: notify::Error,
    },
    /// The cluster refused, or is not available.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Nobody answered in time. Try again.
    #[error("{what} took longer than {limit:?}")]
    Deadline {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
    },
}
