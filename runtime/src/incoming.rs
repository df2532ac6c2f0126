//! A request before it is submitted: its body, its bytes in shared memory, and the limits on both.

pub(crate) mod charged_bytes;
pub(crate) mod compression;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod restriction;
pub(crate) mod shared_memory;

use crate::error::ServeError;

/// Runs work on a large request or response on a thread that may block. On a reactor thread it would delay all other
/// connections.
///
/// # Errors
/// [`ServeError::Model`] if `work` panics.
pub(crate) async fn off_reactor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ServeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ServeError::Model(format!("the server failed on this request: {error}")))
}
