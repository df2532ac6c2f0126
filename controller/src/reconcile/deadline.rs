//! Deadlines of calls to the cluster and the source.

use std::future::Future;
use std::time::Duration;

use crate::error::ControllerError;

/// Deadline of one call: a healthy API server needs less, and the next reconciliation retries.
const DEADLINE: Duration = Duration::from_secs(10);

/// Deadline for loading everything that is stored: 600 pages of histories at ten per second, which is a slow rate.
const DEADLINE_OF_ALL: Duration = Duration::from_secs(60);

/// Waits for the answer to a call about every service, with its longer deadline.
pub(super) async fn in_time_for_all<T, E: Into<ControllerError>>(
    call: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    within(DEADLINE_OF_ALL, call, answer).await
}

/// Waits for the answer to a call. `call` is for the error, as in `applying the service`.
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
