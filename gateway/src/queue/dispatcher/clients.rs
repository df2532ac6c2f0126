//! Order and places of queued requests of several clients. Without a client that has a name, requests are served first
//! come, first served, and no shares are kept.

use std::time::Duration;

use super::{Dequeued, DequeuedList, DispatchRequest, Dispatcher, Queued};
use crate::queue::shares::{Charge, ClientId, ClientShare, Shares};

impl<R: Clone + PartialEq, W> Dispatcher<R, W> {
    /// Corrects the charge of a request that has left its replica. `took` is the time for which it was there; `None` if
    /// that is not known.
    pub(crate) fn charge(&mut self, charge: Option<Charge>, took: Option<Duration>) {
        if let (Some(shares), Some(charge)) = (&mut self.shares, charge) {
            shares.settle(charge, took);
        }
    }

    /// Returns the requests that had to leave the full queue since the last call.
    pub(crate) fn displaced(&mut self) -> DequeuedList<R, W> {
        std::mem::take(&mut self.displaced).into_iter().map(Dequeued::Displaced).collect()
    }

    /// Begins to keep shares with the first client that has a name.
    pub(super) fn note_client(&mut self, client: ClientId) {
        if self.shares.is_some() || client == ClientId::ANONYMOUS {
            return;
        }
        let mut shares = Box::<Shares>::default();
        for (sequence, waiter) in &self.waiting {
            shares.add(waiter.share, *sequence, waiter.bytes);
        }
        self.shares = Some(shares);
    }

    /// Returns true if a request that enters would be served before all that wait.
    pub(super) fn is_next(&self, share: ClientShare, sequence: u64) -> bool {
        match &self.shares {
            Some(shares) => shares.precedes(share, sequence),
            None => self.waiting.first_key_value().is_none_or(|(first, _)| sequence < *first),
        }
    }

    /// Returns the queued request that is served next.
    pub(super) fn next_waiting(&self) -> Option<(u64, &Queued<W>)> {
        let Some(shares) = &self.shares else {
            return self.waiting.first_key_value().map(|(sequence, waiter)| (*sequence, waiter));
        };
        let sequence = shares.next()?;
        self.waiting.get(&sequence).map(|waiter| (sequence, waiter))
    }

    pub(super) fn add_waiting(&mut self, sequence: u64, waiter: Queued<W>) {
        self.bytes += waiter.bytes;
        if let Some(shares) = &mut self.shares {
            shares.add(waiter.share, sequence, waiter.bytes);
        }
        self.waiting.insert(sequence, waiter);
    }

    pub(super) fn remove_waiting(&mut self, sequence: u64) -> Option<Queued<W>> {
        let waiter = self.waiting.remove(&sequence)?;
        self.bytes -= waiter.bytes;
        if let Some(shares) = &mut self.shares {
            shares.remove(waiter.share, sequence);
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
    pub(super) fn make_room(&mut self, request: &DispatchRequest) -> bool {
        if self.has_capacity(request.bytes) {
            return true;
        }
        let (content, limit) = (self.queued(), self.limit);
        let Some(shares) = &mut self.shares else {
            return false;
        };
        let Some(left) = shares.make_room(request.share, request.bytes, content, limit) else {
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
