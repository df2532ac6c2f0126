//! Error responses in the format of Kubernetes' API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use serde_json::json;

use crate::loads::LoadError;

/// Reason that a request fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The request is malformed: status 400.
    #[error("{0}")]
    Malformed(String),
    /// The object or the metric does not exist: status 404.
    #[error("{0}")]
    NotFound(String),
    /// The load of the service is not available.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The pods cannot be listed: status 503.
    #[error("the pods cannot be listed: {0}")]
    Pods(#[from] kube::Error),
}

impl Failure {
    fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) | Self::Load(LoadError::UnknownService { .. }) => StatusCode::NOT_FOUND,
            Self::Load(LoadError::NotMeasured(_)) | Self::Pods(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = self.status();
        let reason = match status {
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::NOT_FOUND => "NotFound",
            _ => "ServiceUnavailable",
        };
        let body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.to_string(),
            "reason": reason,
            "code": status.as_u16(),
        });
        (status, Json(body)).into_response()
    }
}

/// Returns the response for an unknown path.
pub(super) async fn unknown_path(uri: Uri) -> Failure {
    Failure::NotFound(format!("the metrics APIs have no path {:?}", uri.path()))
}
