//! One revision's requests and the places that its replicas have for them, as a value.
//!
//! ```text
//!   enter ──► a credit at once │ a place in the queue │ refused │ hand over to another gateway
//!   settle, update, report, serve ──► turns: those who wait and now get something
//!   leave ──► a place in the queue becomes free
//! ```
//!
//! A request binds to a replica only when one has a credit for it, so none waits behind a slow one while
//! another is free. First come, first served; who comes back because a replica was lost keeps its place.

mod endpoint;
mod handover;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Instant;

use smallvec::SmallVec;

use crate::queue::partition::{GatewaySet, Ownership};
use crate::queue::verdict::Outcome;
use endpoint::Endpoint;
pub(crate) use endpoint::{EndpointId, EndpointSpec, EndpointState};
pub(crate) use handover::HANDOVER;
use handover::{Allocation, Handover};

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimit {
    /// Requests.
    pub(crate) requests: usize,
    /// Bytes of their bodies together.
    pub(crate) bytes: usize,
}

/// A request that wants a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchRequest {
    /// Its place in the order, if it had one before.
    pub(crate) sequence: Option<u64>,
    /// Bytes of its body.
    pub(crate) bytes: usize,
    /// After this it needs no answer any more.
    pub(crate) deadline: Option<Instant>,
    /// Whether another gateway handed it over.
    pub(crate) origin: Origin,
}

/// Who brought a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client.
    Client,
    /// Another gateway, which holds this one to be the owner of the queue.
    Gateway,
}

/// What a request gets when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission<R> {
    /// A credit.
    Granted(Granted<R>),
    /// A place in the queue.
    Queued(u64),
    /// Another gateway, by its index, has the queue.
    HandOver(u32),
    /// Another gateway has the queue, but this request was handed over already.
    NotOwner,
    /// So many wait, with so many bytes, that it may not.
    Full(QueueLimit),
}

/// Permission to have one more request at a replica. Must be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted<R> {
    /// To settle it with.
    pub(crate) id: EndpointId,
    /// The request's place in the order.
    pub(crate) sequence: u64,
    /// The replica.
    pub(crate) replica: R,
}

/// What one who waited gets.
#[derive(Debug)]
pub(crate) enum Dequeued<R, W> {
    /// A credit.
    Granted(W, Granted<R>),
    /// Another gateway, by its index, has the queue now.
    HandOver(W, u32),
    /// The same, but the request was handed over already.
    NotOwner(W),
    /// Nothing: its deadline has passed.
    Expired(W),
}

/// Mostly one credit is given back and one taken.
pub(crate) type DequeuedList<R, W> = SmallVec<[Dequeued<R, W>; 1]>;

/// The queue and the replicas of one revision. `R` is a replica, `W` who waits.
#[derive(Debug)]
pub(crate) struct Dispatcher<R, W> {
    limit: QueueLimit,
    gateways: GatewaySet,
    handover: Handover,
    endpoints: Vec<Endpoint<R>>,
    waiting: BTreeMap<u64, Queued<W>>,
    bytes: usize,
    next_sequence: u64,
    next_id: u64,
    grants: u64,
}

#[derive(Debug)]
struct Queued<W> {
    waiter: W,
    bytes: usize,
    deadline: Option<Instant>,
    origin: Origin,
}

impl<R: Clone + PartialEq, W> Dispatcher<R, W> {
    /// Without replicas.
    pub(crate) fn new(limit: QueueLimit) -> Self {
        Self {
            limit,
            gateways: GatewaySet::ALONE,
            handover: Handover::default(),
            endpoints: Vec::new(),
            waiting: BTreeMap::new(),
            bytes: 0,
            next_sequence: 0,
            next_id: 0,
            grants: 0,
        }
    }

    /// Takes a request in. `waiter` is asked for only if it has to wait.
    pub(crate) fn enter(
        &mut self,
        request: DispatchRequest,
        now: Instant,
        waiter: impl FnOnce() -> W,
    ) -> Admission<R> {
        match (self.ownership(), request.origin) {
            (Ownership::NonOwner(owner), Origin::Client) => return Admission::HandOver(owner),
            (Ownership::NonOwner(_), Origin::Gateway) => return Admission::NotOwner,
            (Ownership::Sharing | Ownership::Owner, _) => {}
        }
        self.handover.pass(now);
        let is_new = request.sequence.is_none();
        let sequence = request.sequence.unwrap_or(self.next_sequence);
        let is_first = self.waiting.first_key_value();
        let is_first = is_first.is_none_or(|(first, _)| sequence < *first);
        if is_first && let Some(granted) = self.grant(sequence, now) {
            self.next_sequence = self.next_sequence.max(sequence + 1);
            return Admission::Granted(granted);
        }
        if is_new && !self.has_capacity(request.bytes) {
            return Admission::Full(self.queued());
        }
        self.next_sequence = self.next_sequence.max(sequence + 1);
        self.bytes += request.bytes;
        let waiter = Queued {
            waiter: waiter(),
            bytes: request.bytes,
            deadline: request.deadline,
            origin: request.origin,
        };
        self.waiting.insert(sequence, waiter);
        Admission::Queued(sequence)
    }

    /// Gives up a place in the queue. Nothing happens if it is no longer taken.
    pub(crate) fn leave(&mut self, sequence: u64) {
        if let Some(waiter) = self.waiting.remove(&sequence) {
            self.bytes -= waiter.bytes;
        }
    }

    /// Sends away all who wait.
    pub(crate) fn dismiss(&mut self) {
        self.bytes = 0;
        self.waiting.clear();
    }

    /// Takes a credit back and says what became of the request.
    pub(crate) fn settle(
        &mut self,
        id: EndpointId,
        outcome: Outcome,
        now: Instant,
    ) -> DequeuedList<R, W> {
        if let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id) {
            endpoint.settle(outcome, now);
        }
        self.serve(now)
    }

    /// Notes how many requests at once a replica says it takes.
    pub(crate) fn report(
        &mut self,
        id: EndpointId,
        capacity: u32,
        now: Instant,
    ) -> DequeuedList<R, W> {
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id);
        match endpoint.filter(|endpoint| endpoint.credits.limit() != capacity) {
            Some(endpoint) => endpoint.credits.report(capacity),
            None => return DequeuedList::new(),
        }
        self.serve(now)
    }

    /// Before this time it may use no credits.
    pub(crate) fn start(&mut self, at: Option<Instant>) {
        self.handover.start(at);
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        self.handover.next_end()
    }

    /// Brings the replicas in line with what there is. Returns those that are gone, too: what they had is
    /// lost.
    pub(crate) fn update(
        &mut self,
        limit: QueueLimit,
        gateways: GatewaySet,
        replicas: Vec<EndpointSpec<R>>,
        now: Instant,
    ) -> (Vec<R>, DequeuedList<R, W>) {
        let before = (self.gateways, self.limits());
        (self.limit, self.gateways) = (limit, gateways);
        let mut old = std::mem::take(&mut self.endpoints);
        for spec in replicas {
            let same = old
                .iter()
                .position(|endpoint| endpoint.replica == spec.replica);
            let endpoint = match same {
                Some(index) => old.swap_remove(index).changed(spec),
                None => {
                    self.next_id += 1;
                    Endpoint::new(self.next_id, spec)
                }
            };
            self.endpoints.push(endpoint);
        }
        let from = Allocation::new(before.0, before.1.or(self.least()).unwrap_or(0));
        self.handover.change(from, self.allocation(), now);
        let lost = old.into_iter().map(|endpoint| endpoint.replica).collect();
        (lost, self.serve(now))
    }

    /// Gives credits to those who wait, as long as there are any.
    pub(crate) fn serve(&mut self, now: Instant) -> DequeuedList<R, W> {
        self.handover.pass(now);
        let mut dequeued = DequeuedList::new();
        if self.waiting.is_empty() {
            return dequeued;
        }
        if let Ownership::NonOwner(owner) = self.ownership() {
            self.bytes = 0;
            let all = std::mem::take(&mut self.waiting);
            dequeued.extend(all.into_values().map(|waiter| match waiter.origin {
                Origin::Client => Dequeued::HandOver(waiter.waiter, owner),
                Origin::Gateway => Dequeued::NotOwner(waiter.waiter),
            }));
            return dequeued;
        }
        while let Some((sequence, waiter)) = self.waiting.first_key_value() {
            let sequence = *sequence;
            let is_late = waiter.deadline.is_some_and(|deadline| deadline <= now);
            let granted = match is_late {
                true => None,
                false => match self.grant(sequence, now) {
                    Some(granted) => Some(granted),
                    None => break,
                },
            };
            let Some((_, waiter)) = self.waiting.pop_first() else {
                break;
            };
            self.bytes -= waiter.bytes;
            dequeued.push(match granted {
                Some(granted) => Dequeued::Granted(waiter.waiter, granted),
                None => Dequeued::Expired(waiter.waiter),
            });
        }
        dequeued
    }

    /// So much may wait from now on; what waits already goes on waiting.
    pub(crate) fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    fn has_capacity(&self, bytes: usize) -> bool {
        self.waiting.len() < self.limit.requests
            && self.bytes.saturating_add(bytes) <= self.limit.bytes
    }

    fn allocation(&self) -> Allocation {
        Allocation::new(self.gateways, self.limits().unwrap_or(0))
    }

    fn ownership(&self) -> Ownership {
        self.allocation().ownership
    }

    /// What open replicas take at once, all together; none without any.
    fn limits(&self) -> Option<u32> {
        let limits = self.open().map(|endpoint| endpoint.credits.limit());
        limits.reduce(u32::saturating_add)
    }

    /// The same when only one of them was open: others may have met it alone.
    fn least(&self) -> Option<u32> {
        self.open().map(|endpoint| endpoint.credits.limit()).min()
    }

    fn open(&self) -> impl Iterator<Item = &Endpoint<R>> {
        let endpoints = self.endpoints.iter();
        endpoints.filter(|endpoint| endpoint.state == EndpointState::Open)
    }

    fn allowed(&self, endpoint: &Endpoint<R>) -> u32 {
        let (limit, offset) = (endpoint.credits.limit(), endpoint.offset);
        let allowed = self.allocation().allowed(limit, offset);
        allowed.min(self.handover.allowed(limit, offset))
    }

    /// A credit of the replica that has the least to do for its size, the one first that had the last
    /// request longest ago.
    fn grant(&mut self, sequence: u64, now: Instant) -> Option<Granted<R>> {
        let free = |endpoint: &Endpoint<R>| {
            let is_free = endpoint.is_available(now) && endpoint.in_flight < self.allowed(endpoint);
            is_free.then(|| endpoint.load())
        };
        let endpoints = self.endpoints.iter().enumerate();
        let best =
            endpoints.filter_map(|(i, endpoint)| Some((free(endpoint)?, endpoint.granted, i)));
        let (_, _, index) = best.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        self.grants += 1;
        let endpoint = &mut self.endpoints[index];
        endpoint.in_flight += 1;
        endpoint.granted = self.grants;
        Some(Granted {
            id: endpoint.id,
            sequence,
            replica: endpoint.replica.clone(),
        })
    }
}
