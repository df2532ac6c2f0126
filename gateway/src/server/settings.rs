//! Settings that all connections of the port share.

use std::fmt::Display;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weir_ops::failure_log::FailureLog;
use weir_serve::{Lifetime, StreamExecutor};

use crate::clock::now;
use crate::port::Encryption;

/// Settings and shutdown signal that all connections of the port share.
pub(super) struct ServerSettings {
    pub(super) streams: StreamExecutor,
    /// Longest time from the end of the last request until the next head is complete, idle time included.
    pub(super) header_timeout: Duration,
    pub(super) encryption: Encryption,
    /// Cancelled when the port shuts down.
    pub(super) stop: CancellationToken,
    /// Causes of refused heads that were logged, each with its time.
    pub(super) refusals: Mutex<FailureLog>,
}

impl ServerSettings {
    /// Logs that a head was refused, unless a refusal with the same cause was logged within the last minute.
    pub(super) fn log_refusal(&self, cause: &'static str, reason: &dyn Display) {
        if let Some(left_out) = self.refusals.lock().note(cause, now()) {
            tracing::warn!(cause, left_out, reason = %reason, "a request was refused before it was read");
        }
    }

    /// Returns the timeouts of an HTTP/2 connection.
    pub(super) fn lifetime(&self) -> Lifetime<'_> {
        Lifetime { idle: self.header_timeout, stop: &self.stop, late_requests: Duration::ZERO }
    }
}

/// The error type that hyper's services and bodies convert into.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
