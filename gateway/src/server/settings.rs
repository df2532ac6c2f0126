//! Settings that all connections of the port share.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::streams::StreamExecutor;

/// Settings and shutdown signal that all connections of the port share.
pub(super) struct ServerSettings {
    pub(super) streams: StreamExecutor,
    /// Longest time for a request's head, idle time before it included.
    pub(super) header_timeout: Duration,
    /// Cancelled when the port shuts down.
    pub(super) stop: CancellationToken,
}

/// The error type that hyper's services and bodies convert into.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
