//! Limits on a port's connections.

use std::time::Duration;

use crate::bounds::http2_limits::MAX_STREAMS;
use crate::{Pace, Upload};

/// Limits on a port's connections, and timeouts for their clients.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of connections; further ones wait in the kernel's backlog.
    pub total: usize,
    /// Maximum number of connections of one client, which is an IPv4 address or an IPv6 /64 network; further ones are
    /// closed.
    pub per_client: usize,
    /// Idle timeout: the longest time before the first request, between two requests, and for receiving a request head.
    pub idle: Duration,
    /// Longest time in which a client accepts no byte of a response, or sends no byte of a body.
    pub stall: Duration,
    /// Minimum rate of an upload, and of a response that a client is slow to read.
    pub pace: Pace,
}

impl ConnectionLimits {
    /// Number of concurrent HTTP/2 requests that a client may have per connection that it may have. Most clients have
    /// one or a few requests on each connection; a gateway has many on each, but few connections.
    const STREAMS: usize = 4;

    /// Divisor of `total` for the default of `per_client`: one client may have a quarter of the connections, so it
    /// takes four clients to fill a port.
    const SHARE: usize = 4;

    /// Returns the default of [`per_client`](Self::per_client) for a port that allows `total` connections.
    #[must_use]
    pub const fn share_of(total: usize) -> usize {
        total.div_ceil(Self::SHARE)
    }

    /// Returns the number of concurrent HTTP/2 requests that one client may have on all of its connections. It is the
    /// number that one connection accepts, or four for each connection that the client may have, whichever is more.
    #[must_use]
    pub fn streams_per_client(&self) -> usize {
        (self.per_client * Self::STREAMS).max(MAX_STREAMS as usize)
    }

    /// Returns the tracker of a new upload under these limits.
    #[must_use]
    pub fn upload(&self) -> Upload {
        Upload::new(self.stall, self.pace)
    }
}
