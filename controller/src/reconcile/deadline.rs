//! The deadline of calls to the cluster and the source.

use std::future::Future;
use std::time::Duration;

use crate::error::ControllerError;

/// Longest wait for one answer: a healthy API server needs less, and the next reconciliation asks again.
const DEADLINE: Duration = Duration::from_secs(10);

/// Waits for an answer. `call` is for the error, as in `applying the service`.
pub(super) async fn in_time<T, E: Into<ControllerError>>(
    call: &'static str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(ControllerError::Deadline {
            call,
            limit: DEADLINE,
        }),
    }
}
