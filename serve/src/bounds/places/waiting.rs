//! Connections of clients that have reached their limit, which wait briefly because another connection of the client
//! may be about to end.
//!
//! A client that closes a connection and opens the next does not exceed its limit, but the port may see the new
//! connection first. On a busy machine, the end of a connection is noticed only when its task runs next.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ConnectionLimits;
use crate::bounds::places::{Place, PortPlaces};
use crate::clock;

/// Longest wait for a place. When the new connection is accepted, the end of the client's earlier connection has
/// already reached this machine, and only the task of that connection has yet to run. One second covers several polls
/// of a runtime under ten times the load that it can handle.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of connections that wait; each uses a file descriptor in addition to those of the connections with
/// places.
const MAX_WAITING: usize = 64;

/// A connection that waits for a place.
#[derive(Debug)]
pub(crate) struct Waiting<S> {
    stream: S,
    client: IpAddr,
    until: Instant,
}

/// The waiting connections of a port.
#[derive(Debug)]
pub(crate) struct Overflow<S> {
    waiting: Mutex<Vec<Waiting<S>>>,
    most: usize,
}

impl<S> Waiting<S> {
    /// Wraps a connection of the client at that address.
    pub(crate) fn new(stream: S, client: IpAddr) -> Self {
        Self { stream, client, until: clock::now() + MAX_WAIT }
    }
}

impl<S> Overflow<S> {
    /// Returns an empty queue with room for half the connections that one client may have, because a client may replace
    /// that many at once; [`MAX_WAITING`] is the maximum.
    pub(crate) fn new(limits: &ConnectionLimits) -> Self {
        Self { waiting: Mutex::default(), most: limits.per_client.div_ceil(2).min(MAX_WAITING) }
    }

    /// Lets a connection wait. Returns false, and closes the connection, if the queue is full.
    pub(crate) fn enter(&self, connection: Waiting<S>) -> bool {
        let mut waiting = self.waiting.lock();
        let has_room = waiting.len() < self.most;
        if has_room {
            waiting.push(connection);
        }
        has_room
    }

    /// Takes the first connection that may have a place now. If there is none, closes those that have waited for too
    /// long.
    pub(crate) fn admit(&self, places: &PortPlaces) -> Option<(S, Place)> {
        let mut waiting = self.waiting.lock();
        let admitted = waiting.iter().enumerate().find_map(|(index, one)| Some((index, places.try_give(one.client)?)));
        if let Some((index, place)) = admitted {
            return Some((waiting.remove(index).stream, place));
        }
        let now = clock::now();
        waiting.retain(|one| now < one.until);
        None
    }

    /// Waits until a waiting connection may get a place or has waited for too long; waits forever if there is none.
    /// Cancel safe.
    pub(crate) async fn changed(&self, places: &PortPlaces) {
        let first = self.waiting.lock().iter().map(|one| one.until).min();
        let Some(first) = first else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = places.freed() => {}
            () = tokio::time::sleep_until(first) => {}
        }
    }
}
