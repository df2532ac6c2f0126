//! Errors of the cluster on this machine.

use std::io;

use weir_cluster::ClusterError;

pub(crate) fn unavailable(reason: String) -> ClusterError {
    ClusterError::Unavailable {
        what: "the cluster on this machine".to_owned(),
        source: io::Error::other(reason).into(),
    }
}
