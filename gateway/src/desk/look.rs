//! What a desk tells of itself.

use std::time::Instant;

use super::{Desk, Room, SeatKey, Standing};

impl<R: Clone + PartialEq, W> Desk<R, W> {
    /// How much may wait.
    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// What waits.
    pub(crate) fn queued(&self) -> Room {
        Room {
            requests: self.waiting.len(),
            bytes: self.bytes,
        }
    }

    /// How many wait before this place.
    pub(crate) fn ahead(&self, place: u64) -> usize {
        self.waiting.range(..place).count()
    }

    /// Who waits longest.
    pub(crate) fn oldest(&self) -> Option<&W> {
        self.waiting
            .first_key_value()
            .map(|(_, waiter)| &waiter.who)
    }

    /// Whether some replica takes requests, at least in a moment.
    pub(crate) fn is_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// How many replicas take requests; `None` where another gateway has the queue.
    pub(crate) fn serving(&self) -> Option<usize> {
        match self.standing() {
            Standing::Guest(_) => None,
            Standing::Sharer | Standing::Owner => Some(self.open().count()),
        }
    }

    /// When the first replica that rests takes requests again.
    pub(crate) fn next_rested(&self, now: Instant) -> Option<Instant> {
        let rests = self.seats.iter().filter_map(|seat| seat.rest_until);
        rests.filter(|until| *until > now).min()
    }

    /// The replicas, each with its requests in flight and the most it may have.
    pub(crate) fn seats(&self) -> impl Iterator<Item = (&R, u32, u32)> {
        let seats = self.seats.iter();
        seats.map(|seat| (&seat.replica, seat.in_flight, self.allowed(seat)))
    }

    /// Requests that may be at the replicas at once, those that take none now left out.
    pub(crate) fn credits(&self) -> u32 {
        let allowed = self.open().map(|seat| self.allowed(seat));
        allowed.fold(0, u32::saturating_add)
    }

    /// The key of a replica, to report its capacity with.
    pub(crate) fn key_of(&self, replica: &R) -> Option<SeatKey> {
        let seat = self.seats.iter().find(|seat| seat.replica == *replica);
        seat.map(|seat| seat.key)
    }
}
