//! Answers of the API server as [`ClusterError`]s.

mod denial;

use kube::core::Status;
use weir_cluster::ClusterError;

pub(crate) use denial::advice;

/// Returns true if the API server answers that the object does not exist.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Returns true if the API server answers that the object exists already.
pub(crate) fn is_there_already(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "AlreadyExists")
}

/// Returns true if the API server answers that another manager owns an applied field.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == "Conflict")
}

/// Turns an error of the API server into one of a cluster. An invalid object stays invalid: a refusal. A write that a
/// policy, a quota or another writer forbids may be allowed later: a denial. Any other failure means that the API
/// server is unavailable.
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

/// Returns true if the API server refuses the object itself. It answers 500 for one that it cannot merge, such as a pod
/// with two volumes of one name.
fn is_invalid(status: &Status) -> bool {
    matches!(status.code, 400 | 413 | 422)
        || (status.code == 500 && status.message.contains("failed to create typed patch object"))
}

/// Returns true if the write may be allowed later. A 404 here means that the namespace is missing, because a missing
/// object is handled before. A webhook that cannot be called is a 500. An overloaded API server answers 429, which says
/// nothing about the object.
fn is_denied(status: &Status) -> bool {
    matches!(status.code, 401 | 403 | 404 | 409)
        || (status.code == 500 && status.message.contains("failed calling webhook"))
}

/// Refuses an object that cannot be encoded as JSON, such as one with a number that is NaN.
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
    fn an_overloaded_api_server_denies_nothing() {
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
