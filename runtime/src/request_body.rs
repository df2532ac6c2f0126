//! Request bodies, read chunk by chunk from clients that may stall.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::error::ServeError;

/// Limits on a request body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits<'a> {
    pub(crate) size: usize,
    /// Longest pause between two chunks.
    pub(crate) idle: Duration,
    /// Cancelled when the server stops.
    pub(crate) stop: &'a CancellationToken,
}

/// Reads the next chunk; `None` at the end.
///
/// # Errors
/// [`ServeError::Invalid`] for a body that breaks off or stalls.
pub(crate) async fn next_chunk(
    body: &mut Incoming,
    limits: BodyLimits<'_>,
) -> Result<Option<Bytes>, ServeError> {
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            pause = stalled(limits) => {
                return Err(ServeError::Invalid(format!(
                    "request body stalled for {} s",
                    pause.as_secs_f32()
                )));
            }
        };
        match frame {
            None => return Ok(None),
            Some(Err(error)) => {
                return Err(ServeError::Invalid(format!(
                    "request body broke off: {error}"
                )));
            }
            // Trailers are not used.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Longest pause once the server stops, so that idle clients do not delay its exit: some round trips of a
/// slow network.
const IDLE_WHILE_STOPPING: Duration = Duration::from_secs(2);

/// Returns when a pause has become too long, and how long that was.
async fn stalled(limits: BodyLimits<'_>) -> Duration {
    let stopping = async {
        limits.stop.cancelled().await;
        tokio::time::sleep(IDLE_WHILE_STOPPING).await;
    };
    tokio::select! {
        () = tokio::time::sleep(limits.idle) => limits.idle,
        () = stopping => IDLE_WHILE_STOPPING,
    }
}
