//! Limits on a port's connections.

use std::time::Duration;

use super::{Pace, Upload};
use crate::http2::MAX_STREAMS;

/// Limits on the connections of a port, and on the waits for their clients.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at once; further ones wait in the kernel's backlog.
    pub total: usize,
    /// Connections at once of one client, an IPv4 address or an IPv6 network of 64 bits; further ones are closed.
    pub per_client: usize,
    /// The longest time without a request: before the first, between two, and for the head of one.
    pub idle: Duration,
    /// The longest time in which a client takes no byte of what is written to it, or in which it sends none of
    /// a body.
    pub stall: Duration,
    /// The least rate of a body, and of a response that a client is slow to take.
    pub pace: Pace,
}

impl ConnectionLimits {
    /// Requests over HTTP/2 of one client at once, for each connection that it may have. Most clients have one or a few
    /// on each; a gateway has many on one, and few connections.
    const STREAMS: usize = 4;

    /// The share of the places that one client has by default: four hosts are needed to fill a port.
    const SHARE: usize = 4;

    /// The default for [`per_client`](Self::per_client) where that many connections are allowed.
    #[must_use]
    pub const fn share_of(total: usize) -> usize {
        total.div_ceil(Self::SHARE)
    }

    /// Requests over HTTP/2 that one client may have at once, on all of its connections: as many as one connection takes,
    /// or four for each connection that it may have.
    pub(super) fn streams_per_client(&self) -> usize {
        (self.per_client * Self::STREAMS).max(MAX_STREAMS as usize)
    }

    /// An upload on such a connection, which begins.
    #[must_use]
    pub fn upload(&self) -> Upload {
        Upload::new(self.stall, self.pace)
    }
}
