//! Answers of the API server, as errors of a cluster.

mod denial;

use kube::core::Status;
use weir_cluster::ClusterError;

pub(crate) use denial::advice;

/// Whether the API server says that there is no such object.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API server says that there is such an object already.
pub(crate) fn is_there_already(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// True if the API server says that another manager holds a field that was to be applied.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "Conflict")
}

/// An object that is not valid stays so: a refusal. What a policy, a quota or another writer does not let pass may pass
/// later: a denial. For whatever else fails the API server is not available.
pub(crate) fn of(subject: &(impl ToString + ?Sized), error: kube::Error) -> ClusterError {
    match error {
        kube::Error::Api(status) if is_invalid(&status) => ClusterError::refused(subject.to_string(), status.message),
        kube::Error::Api(status) if is_denied(&status) => {
            ClusterError::denied(subject.to_string(), advice(&status.message))
        }
        error => unavailable(error),
    }
}

pub(crate) fn unavailable(error: kube::Error) -> ClusterError {
    ClusterError::Unavailable { what: "the Kubernetes API server".to_owned(), source: error.into() }
}

/// Checks whether the API server refuses the object itself. It answers 500 for one that it cannot merge, such as a pod with two
/// volumes of one name.
fn is_invalid(status: &Status) -> bool {
    matches!(status.code, 400 | 413 | 422)
        || (status.code == 500 && status.message.contains("failed to create typed patch object"))
}

/// 404 is the namespace's: an object that is not there is none of the errors that come here. A webhook that cannot be
/// called is a 500. An API server that has too much to do says 429, and nothing about the object.
fn is_denied(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 404 | 409)
        || (status.code == 500 && status.message.contains("failed calling webhook"))
}

/// Words for what JSON cannot hold, such as a number that is none.
pub(crate) fn unwritable(subject: &(impl ToString + ?Sized), error: serde_json::Error) -> ClusterError {
    ClusterError::refused(subject.to_string(), format!("cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: u16) -> ClusterError {
        let status = Status::failure("no", "Because").with_code(code);
        of("digits", kube::Error::Api(status.boxed()))
    }

    #[test]
    fn an_object_with_two_volumes_of_one_name_is_refused() {
        let message = "failed to create typed patch object (team/a; apps/v1, Kind=Deployment): \
            .spec.template.spec.volumes: duplicate entries for key [name=\"kserve-pvc-source\"]";
        let status = Status::failure(message, "").with_code(500);
        let error = of("digits", kube::Error::Api(status.boxed()));
        assert!(matches!(error, ClusterError::Refused { .. }), "{error}");
    }

    #[test]
    fn an_api_server_with_too_much_to_do_denies_nothing() {
        for code in [429, 500, 503, 504] {
            let error = answered(code);
            assert!(matches!(error, ClusterError::Unavailable { .. }), "{code}");
        }
        for code in [401, 403, 404, 409] {
            let error = answered(code);
            assert!(matches!(error, ClusterError::Denied { .. }), "{code}");
        }
        for code in [400, 413, 422] {
            let error = answered(code);
            assert!(matches!(error, ClusterError::Refused { .. }), "{code}");
        }
    }
}
