//! Reads request bodies chunk by chunk, from clients that may stall.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use weir_serve::{BodyEnd, Pace, Upload};

use crate::clock;
use crate::error::ServeError;

/// Bytes reserved for a body or a message before it arrives. They hold a common image tensor (3 × 224 × 224 FP32 is
/// 588 KiB) in one piece, and limit the cost of a client that announces a large body and sends little.
pub(crate) const RESERVED: usize = 1 << 20;

/// Limits on a request body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits<'a> {
    pub(crate) size: usize,
    /// Longest pause between two chunks.
    pub(crate) idle: Duration,
    /// Minimum average rate after a grace period.
    pub(crate) pace: Pace,
    pub(crate) end: BodyEnd,
    /// Cancelled when the server stops.
    pub(crate) stop: &'a CancellationToken,
}

impl BodyLimits<'_> {
    /// Starts to time the upload of a body.
    pub(crate) fn upload(&self) -> Upload {
        Upload::new(self.idle, self.pace)
    }
}

/// Reads the next chunk of an upload; `None` at the end.
///
/// # Errors
/// [`ServeError::TooSlow`] for a body that stalls or arrives too slowly, [`ServeError::Invalid`] for one that breaks
/// off.
pub(crate) async fn next_chunk(
    body: &mut Incoming,
    upload: &mut Upload,
    limits: &BodyLimits<'_>,
) -> Result<Option<Bytes>, ServeError> {
    loop {
        let frame = tokio::select! {
            biased;
            frame = body.frame() => frame,
            error = stalled(upload, limits.stop) => return Err(error),
        };
        match frame {
            None => {
                let ended = limits.end.check(body).map(|()| None);
                return ended.map_err(|error| ServeError::Invalid(error.to_string()));
            }
            Some(Err(error)) => {
                return Err(ServeError::Invalid(format!("request body broke off: {error}")));
            }
            // Trailers are ignored.
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    upload.add(data.len());
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Longest pause after the server has begun to stop: several round trips of a slow network, so that idle clients do not
/// delay the exit.
const IDLE_WHILE_STOPPING: Duration = Duration::from_secs(2);

/// Returns when a pause has become too long. `TooSlow` allows the client to retry; a stopping server returns `Invalid`
/// instead.
async fn stalled(upload: &mut Upload, stop: &CancellationToken) -> ServeError {
    let pause = upload.longest_wait(clock::now());
    let stopping = async {
        stop.cancelled().await;
        tokio::time::sleep(IDLE_WHILE_STOPPING).await;
    };
    tokio::select! {
        () = tokio::time::sleep(pause) => ServeError::TooSlow(pause),
        () = stopping => {
            let pause = IDLE_WHILE_STOPPING.as_secs_f32();
            ServeError::Invalid(format!("request body stalled for {pause} s"))
        }
    }
}
