//! Order and places of queued requests of several clients. Without a client that has a name, requests are served first
//! come, first served, and no shares are kept.

use std::time::{Duration, Instant};

use weir_access::ClientId;

use super::{Dequeued, DequeuedList, DispatchRequest, Dispatcher, Queued};
use crate::queue::shares::{Charge, ClientShare, Entrant, Shares, Supply};

/// Time after which it is checked again whether clients still need the credits that are kept free for them. It is short
/// compared with the time for which they are kept.
const REVIEW: Duration = Duration::from_millis(250);

impl<R: Clone + PartialEq, W> Dispatcher<R, W> {
    /// Corrects the charge of a request that has left its replica. `took` is the time for which it was there; `None` if
    /// that is not known.
    pub(crate) fn charge(&mut self, charge: Option<Charge>, took: Option<Duration>, now: Instant) {
        if let (Some(shares), Some(charge)) = (&mut self.shares, charge) {
            shares.settle(charge, took, now);
        }
    }

    /// Returns the requests that had to leave the full queue since the last call.
    pub(crate) fn displaced(&mut self) -> DequeuedList<R, W> {
        std::mem::take(&mut self.displaced).into_iter().map(Dequeued::Displaced).collect()
    }

    /// Begins to keep shares with the first client that has a name.
    pub(super) fn note_client(&mut self, client: ClientId, now: Instant) {
        if self.shares.is_some() || client == ClientId::ANONYMOUS {
            return;
        }
        let mut shares = Box::<Shares>::default();
        for (sequence, waiter) in &self.waiting {
            shares.add(waiter.share, *sequence, waiter.bytes, now);
        }
        self.shares = Some(shares);
    }

    /// Updates the number of credits that clients share. If the limit of one of the replicas is measured, no credit is
    /// kept free for other clients, because a limit is measured under full use.
    pub(super) fn note_supply(&mut self, now: Instant) {
        if self.shares.is_none() {
            return;
        }
        let supply = self.supply(now);
        if let Some(shares) = &mut self.shares {
            shares.set_supply(supply, now);
        }
    }

    /// Returns the credits of the replicas that take requests; `None` if a limit among them is measured.
    fn supply(&self, now: Instant) -> Option<Supply> {
        let allocation = self.allocation();
        let mut supply = Supply { total: 0, free: 0 };
        for endpoint in self.endpoints.iter().filter(|endpoint| endpoint.is_available(now)) {
            if endpoint.credits.is_measured() {
                return None;
            }
            let allowed = self.allowed_of(allocation, endpoint.credits.limit(), endpoint.offset);
            supply.total = supply.total.saturating_add(allowed);
            supply.free = supply.free.saturating_add(allowed.saturating_sub(endpoint.in_flight));
        }
        Some(supply)
    }

    /// Returns the next time at which it has to be checked if the waiting requests may have the credits that are kept
    /// free for other clients; `None` if nothing is kept free.
    pub(crate) fn next_review(&self, now: Instant) -> Option<Instant> {
        let shares = self.shares.as_ref().filter(|shares| shares.has_free_credits());
        shares.filter(|_| !self.waiting.is_empty()).map(|_| now + REVIEW)
    }

    /// Returns true if a request that enters would be served before all that wait.
    pub(super) fn is_next(&self, share: ClientShare, sequence: u64, now: Instant) -> bool {
        match &self.shares {
            Some(shares) => shares.precedes(share, sequence, now),
            None => self.waiting.first_key_value().is_none_or(|(first, _)| sequence < *first),
        }
    }

    /// Returns the queued request that is served next.
    pub(super) fn next_waiting(&mut self, now: Instant) -> Option<(u64, &Queued<W>)> {
        self.note_supply(now);
        let Some(shares) = &self.shares else {
            return self.waiting.first_key_value().map(|(sequence, waiter)| (*sequence, waiter));
        };
        let sequence = shares.next(now)?;
        self.waiting.get(&sequence).map(|waiter| (sequence, waiter))
    }

    pub(super) fn add_waiting(&mut self, sequence: u64, waiter: Queued<W>, now: Instant) {
        self.bytes += waiter.bytes;
        if let Some(shares) = &mut self.shares {
            shares.add(waiter.share, sequence, waiter.bytes, now);
        }
        self.waiting.insert(sequence, waiter);
    }

    pub(super) fn remove_waiting(&mut self, sequence: u64, now: Instant) -> Option<Queued<W>> {
        let waiter = self.waiting.remove(&sequence)?;
        self.bytes -= waiter.bytes;
        if let Some(shares) = &mut self.shares {
            shares.remove(waiter.share, sequence, now);
        }
        Some(waiter)
    }

    /// Removes all queued requests, in the order in which they arrived.
    pub(super) fn take_waiting(&mut self) -> impl Iterator<Item = Queued<W>> + use<R, W> {
        self.bytes = 0;
        if let Some(shares) = &mut self.shares {
            shares.clear();
        }
        std::mem::take(&mut self.waiting).into_values()
    }

    /// Returns true if the queue has room for a request, after requests of clients above their share have left it.
    pub(super) fn make_room(&mut self, request: &DispatchRequest, now: Instant) -> bool {
        if self.has_capacity(request.bytes) {
            return true;
        }
        let (content, limit) = (self.queued(), self.limit);
        let entrant = Entrant { share: request.share, bytes: request.bytes, at: now };
        let Some(shares) = &mut self.shares else {
            return false;
        };
        let Some(left) = shares.make_room(entrant, content, limit) else {
            return false;
        };
        for sequence in left {
            if let Some(waiter) = self.waiting.remove(&sequence) {
                self.bytes -= waiter.bytes;
                self.displaced.push(waiter.waiter);
            }
        }
        true
    }

    /// Returns true if clients other than this one wait, so that a full queue is one of shares.
    pub(super) fn has_other_clients(&self, client: ClientId) -> bool {
        self.shares.as_ref().is_some_and(|shares| shares.has_others(client))
    }
}
