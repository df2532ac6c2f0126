//! Connections of clients that have as many as they may, for the moment in which one of those may end.
//!
//! A client that closes a connection and opens the next is not over its share, though the port may hear of the new one
//! first: on a busy machine the end of a connection is seen when its task runs next.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::ConnectionLimits;
use super::places::{Place, PortPlaces};

/// The longest wait for an end that has reached this machine already: some turns of a runtime whose machine has ten
/// times as much to do as it can.
const LONGEST: Duration = Duration::from_secs(1);

/// The most connections that wait: a file descriptor each, beside those that have places.
const MOST: usize = 64;

/// A connection that waits for a place.
#[derive(Debug)]
pub(super) struct Waiting<S> {
    stream: S,
    client: IpAddr,
    until: Instant,
}

/// A port's connections that wait for places.
#[derive(Debug)]
pub(super) struct Overflow<S> {
    waiting: Mutex<Vec<Waiting<S>>>,
    most: usize,
}

impl<S> Waiting<S> {
    /// A connection of the client at that address.
    pub(super) fn new(stream: S, client: IpAddr) -> Self {
        Self { stream, client, until: Instant::now() + LONGEST }
    }
}

impl<S> Overflow<S> {
    /// Room for half of what one client may have, as many as it may close and open again at once.
    pub(super) fn beside(limits: &ConnectionLimits) -> Self {
        Self { waiting: Mutex::default(), most: limits.per_client.div_ceil(2).min(MOST) }
    }

    /// Lets a connection wait; false, and it is closed, if there is no room.
    pub(super) fn enter(&self, connection: Waiting<S>) -> bool {
        let mut waiting = self.waiting.lock();
        let has_room = waiting.len() < self.most;
        if has_room {
            waiting.push(connection);
        }
        has_room
    }

    /// Takes the first that may have a place now, and closes those that have waited for too long.
    pub(super) fn admit(&self, places: &PortPlaces) -> Option<(S, Place)> {
        let mut waiting = self.waiting.lock();
        let admitted = waiting.iter().enumerate().find_map(|(index, one)| Some((index, places.try_give(one.client)?)));
        if let Some((index, place)) = admitted {
            return Some((waiting.remove(index).stream, place));
        }
        let now = Instant::now();
        waiting.retain(|one| now < one.until);
        None
    }

    /// Waits until one that waits may have a place, or has waited for too long; for ever if none waits. Cancel safe.
    pub(super) async fn changed(&self, places: &PortPlaces) {
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
