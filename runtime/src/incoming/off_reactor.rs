//! Runs work on large requests and responses on a separate thread: on a reactor thread it would delay all other
//! connections.

use crate::error::ServeError;

/// Runs `work` on a thread that may block.
///
/// # Errors
/// [`ServeError::Model`] if `work` panics.
pub(crate) async fn off_reactor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ServeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ServeError::Model(format!("the server failed on this request: {error}")))
}
