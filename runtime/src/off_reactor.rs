//! Work on large requests and answers, on a thread of its own: on the reactor's it would hold up all other connections.

use crate::error::ServeError;

/// Does the work on a thread that may block.
///
/// # Errors
/// [`ServeError::Model`] if it panics.
pub(crate) async fn off_reactor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ServeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ServeError::Model(format!("the server failed on this request: {error}")))
}
