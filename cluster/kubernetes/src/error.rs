//! Answers of the API server, as errors of a cluster.

use kube::core::Status;
use weir_cluster::ClusterError;

/// Whether the API server says that there is no such object.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// An object that is not valid stays so: a refusal. Whatever else fails may pass another time.
pub(crate) fn of(subject: &impl ToString, error: kube::Error) -> ClusterError {
    match error {
        kube::Error::Api(status) if is_invalid(&status) => {
            ClusterError::refused(subject.to_string(), status.message)
        }
        error => unavailable(error),
    }
}

pub(crate) fn unavailable(error: kube::Error) -> ClusterError {
    ClusterError::Unavailable {
        what: "the Kubernetes API server".to_owned(),
        source: error.into(),
    }
}

fn is_invalid(status: &Status) -> bool {
    matches!(status.code, 400 | 422)
}

/// Words for what JSON cannot hold, such as a number that is none.
pub(crate) fn unwritable(subject: &impl ToString, error: serde_json::Error) -> ClusterError {
    ClusterError::refused(subject.to_string(), format!("cannot be written: {error}"))
}
