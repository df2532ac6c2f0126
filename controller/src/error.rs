//! Errors of the control plane.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use weir_cluster::ClusterError;

/// Error of the controller that a caller can act on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A path that cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or directory, as given.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A directory whose changes cannot be watched.
    #[error("cannot watch {path} for changes: {source}")]
    Watch {
        /// The file or directory, as given.
        path: PathBuf,
        /// The watcher's error, such as a limit on inotify watches.
        source: notify::Error,
    },
    /// The cluster refused a change, or is unavailable.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A call that did not finish in time; it is retried.
    #[error("{call} timed out after {limit:?}")]
    Deadline {
        /// Description of the call, as in `applying the service`.
        call: &'static str,
        /// The time limit of the call.
        limit: Duration,
    },
}
