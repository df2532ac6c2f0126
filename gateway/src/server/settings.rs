//! Settings that all connections of the port share.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_ops::socket::{Lifetime, StreamExecutor};

use crate::port::Encryption;

/// Settings and shutdown signal that all connections of the port share.
pub(super) struct ServerSettings {
    pub(super) streams: StreamExecutor,
    /// Longest time for a request's head, idle time before it included.
    pub(super) header_timeout: Duration,
    pub(super) encryption: Encryption,
    /// Cancelled when the port shuts down.
    pub(super) stop: CancellationToken,
}

impl ServerSettings {
    /// Bounds of the life of an HTTP/2 connection.
    pub(super) fn lifetime(&self) -> Lifetime<'_> {
        Lifetime {
            idle: self.header_timeout,
            stop: &self.stop,
            late_requests: Duration::ZERO,
        }
    }
}

/// The error type that hyper's services and bodies convert into.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
