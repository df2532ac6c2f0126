//! The deadline of calls to the cluster and the source.

use std::future::Future;
use std::time::Duration;

use crate::error::ControllerError;

/// Longest wait for one answer: a healthy API server needs less, and the next reconciliation asks again.
const DEADLINE: Duration = Duration::from_secs(10);

/// Longest wait for everything that is stored: ten pages of histories a second is slow.
const DEADLINE_OF_ALL: Duration = Duration::from_secs(60);

/// Waits for an answer that is about every service.
pub(super) async fn in_time_for_all<T, E: Into<ControllerError>>(
    call: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    within(DEADLINE_OF_ALL, call, answer).await
}

/// Waits for an answer. `call` is for the error, as in `applying the service`.
pub(super) async fn in_time<T, E: Into<ControllerError>>(
    call: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    within(DEADLINE, call, answer).await
}

async fn within<T, E: Into<ControllerError>>(
    limit: Duration,
    call: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(ControllerError::Deadline { call, limit }),
    }
}
