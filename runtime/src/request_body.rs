//! Request bodies as they arrive, piece by piece, from clients that may stall.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::error::ServeError;

/// What a request body may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits<'a> {
    pub(crate) size: usize,
    /// Longest pause between two pieces.
    pub(crate) idle: Duration,
    /// Cancelled when the server ends.
    pub(crate) stop: &'a CancellationToken,
}

/// The next piece; nothing at the end.
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
            // Trailers carry nothing for us.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Once the server ends, a client who sends nothing is not waited for as long as others: it would hold
/// up the end. Some round trips of a slow network.
const IDLE_AT_THE_END: Duration = Duration::from_secs(2);

/// Returns when a pause has become too long, and how long that was.
async fn stalled(limits: BodyLimits<'_>) -> Duration {
    let ending = async {
        limits.stop.cancelled().await;
        tokio::time::sleep(IDLE_AT_THE_END).await;
    };
    tokio::select! {
        () = tokio::time::sleep(limits.idle) => limits.idle,
        () = ending => IDLE_AT_THE_END,
    }
}
