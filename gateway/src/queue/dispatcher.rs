//! Dispatches one revision's requests to its replicas: a value without clock, locks or IO.
//!
//! ```text
//!   enter ──► granted a credit │ queued │ refused │ handed over to another gateway
//!   settle, update, report, serve ──► dequeued: queued requests that are granted something
//!   leave ──► a queued request is removed
//! ```
//!
//! A request is bound to a replica only when the replica has a credit for it, so no request waits behind a slow replica
//! while another is free. Requests of one client are served first come, first served; a retried request keeps its
//! sequence number. Several clients share the replicas and the queue by their weights.

mod clients;
mod endpoint;
mod handover;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Instant;

use smallvec::SmallVec;

use crate::queue::QueueLimit;
use crate::queue::concurrency::{ConcurrencyLimit, Usage};
use crate::queue::partition::{GatewaySet, Ownership};
use crate::queue::shares::{Charge, ClientShare, Shares};
use crate::queue::verdict::Outcome;
use endpoint::Endpoint;
pub(crate) use endpoint::{EndpointId, EndpointSpec, EndpointState};
pub(crate) use handover::HANDOVER;
use handover::{Allocation, Handover};

/// Request for a credit of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DispatchRequest {
    /// Sequence number of a retried request; `None` for a new one.
    pub(crate) sequence: Option<u64>,
    /// Bytes of the request's body.
    pub(crate) bytes: usize,
    /// Time after which the request is no longer dispatched.
    pub(crate) deadline: Option<Instant>,
    /// Sender of the request: a client or a gateway.
    pub(crate) origin: Origin,
    pub(crate) task: Task,
    /// The client that is charged for the request.
    pub(crate) share: ClientShare,
}

/// Task of a request, as far as its path shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Generation of text, which servers do for many requests at once.
    GenerateText,
    Other,
}

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Client,
    /// Another gateway, which considers this one the owner of the queue.
    Gateway,
}

/// Result of a request that enters the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission<R> {
    Granted(Granted<R>),
    /// The request waits, with this sequence number.
    Queued(u64),
    /// Another gateway owns the queue.
    HandOver,
    /// Another gateway owns the queue, but the request has been handed over once already.
    NotOwner,
    /// The queue is full and holds these requests.
    Full(QueueLimit),
    /// The queue is full, holds these requests, and the client already uses its share of it.
    OverShare(QueueLimit),
}

/// A credit for one request at a replica, which must be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted<R> {
    /// Endpoint with which the credit is settled.
    pub(crate) id: EndpointId,
    /// The request's sequence number.
    pub(crate) sequence: u64,
    pub(crate) replica: R,
    /// Cost of the request for its client; `None` as long as no client has a name.
    pub(crate) charge: Option<Charge>,
}

/// Result of a queued request that leaves the queue.
#[derive(Debug)]
pub(crate) enum Dequeued<R, W> {
    Granted(W, Granted<R>),
    /// Another gateway owns the queue now.
    HandOver(W),
    /// Another gateway owns the queue, but the request has been handed over once already.
    NotOwner(W),
    /// The request's deadline has passed.
    Expired(W),
    /// The queue is full, and the request was the newest of the client that is furthest above its share.
    Displaced(W),
}

/// Requests that leave the queue together. Usually there is one, because one credit was given back.
pub(crate) type DequeuedList<R, W> = SmallVec<[Dequeued<R, W>; 1]>;

/// The queue and the replicas of one revision. `R` is a replica, `W` a queued request.
#[derive(Debug)]
pub(crate) struct Dispatcher<R, W> {
    limit: QueueLimit,
    gateways: GatewaySet,
    handover: Handover,
    endpoints: Vec<Endpoint<R>>,
    /// The smallest limit that was measured for a replica; `None` as long as none is known.
    learned: Option<u32>,
    /// Generation of text, once a request for generated text has arrived.
    task: Task,
    waiting: BTreeMap<u64, Queued<W>>,
    /// Shares of the clients; `None` as long as no client has a name.
    shares: Option<Box<Shares>>,
    /// Requests that had to leave the full queue.
    displaced: Vec<W>,
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
    share: ClientShare,
}

impl<R: Clone + PartialEq, W> Dispatcher<R, W> {
    /// Creates a dispatcher without replicas.
    pub(crate) fn new(limit: QueueLimit) -> Self {
        Self {
            limit,
            gateways: GatewaySet::ALONE,
            handover: Handover::default(),
            endpoints: Vec::new(),
            learned: None,
            task: Task::Other,
            waiting: BTreeMap::new(),
            shares: None,
            displaced: Vec::new(),
            bytes: 0,
            next_sequence: 0,
            next_id: 0,
            grants: 0,
        }
    }

    /// Grants a request a credit, or queues it. `waiter` is called only if the request is queued.
    pub(crate) fn enter(&mut self, request: DispatchRequest, now: Instant, waiter: impl FnOnce() -> W) -> Admission<R> {
        // The limit of an engine is high enough for all gateways to share it, so it is set before the owner is asked for.
        self.note_task(request.task);
        match (self.ownership(), request.origin) {
            (Ownership::NonOwner, Origin::Client) => return Admission::HandOver,
            (Ownership::NonOwner, Origin::Gateway) => return Admission::NotOwner,
            (Ownership::Sharing | Ownership::Owner, _) => {}
        }
        self.handover.pass(now);
        self.note_client(request.share.client, now);
        self.note_supply(now);
        let is_new = request.sequence.is_none();
        let sequence = request.sequence.unwrap_or(self.next_sequence);
        let is_next = self.is_next(request.share, sequence, now);
        if is_next && let Some(granted) = self.grant(request.share, sequence, now) {
            self.next_sequence = self.next_sequence.max(sequence + 1);
            return Admission::Granted(granted);
        }
        if is_new && !self.make_room(&request, now) {
            let (has_others, queued) = (self.has_other_clients(request.share.client), self.queued());
            return if has_others { Admission::OverShare(queued) } else { Admission::Full(queued) };
        }
        self.next_sequence = self.next_sequence.max(sequence + 1);
        let DispatchRequest { bytes, deadline, origin, share, .. } = request;
        self.add_waiting(sequence, Queued { waiter: waiter(), bytes, deadline, origin, share }, now);
        Admission::Queued(sequence)
    }

    /// Removes a request from the queue, if it is still there.
    pub(crate) fn leave(&mut self, sequence: u64, now: Instant) {
        self.remove_waiting(sequence, now);
    }

    /// Drops all queued requests.
    pub(crate) fn dismiss(&mut self) {
        drop(self.take_waiting());
    }

    /// Takes a credit back, with the outcome of its attempt, and dispatches queued requests.
    pub(crate) fn settle(&mut self, id: EndpointId, outcome: Outcome, now: Instant) -> DequeuedList<R, W> {
        if let Some(index) = self.endpoints.iter().position(|endpoint| endpoint.id == id) {
            let usage = self.usage(index);
            self.endpoints[index].settle(outcome, usage, now);
        }
        self.serve(now)
    }

    /// Lends the credit of a stream that rests to other requests, and dispatches queued ones.
    pub(crate) fn rest(&mut self, id: EndpointId, charge: Option<Charge>, now: Instant) -> DequeuedList<R, W> {
        if let (Some(shares), Some(charge)) = (&mut self.shares, charge) {
            shares.lend(charge, now);
        }
        self.settle(id, Outcome::Abandoned, now)
    }

    /// Counts a stream that goes on at a replica, even if all credits are in use, because a stream cannot move to
    /// another replica.
    pub(crate) fn resume(&mut self, id: EndpointId, charge: Option<Charge>, now: Instant) {
        if let (Some(shares), Some(charge)) = (&mut self.shares, charge) {
            shares.take_back(charge, now);
        }
        if let Some(endpoint) = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id) {
            endpoint.in_flight += 1;
        }
    }

    /// Returns true if the limit of this replica is measured; false if the replica has left.
    pub(crate) fn has_measured_limit(&self, id: EndpointId) -> bool {
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.id == id);
        endpoint.is_some_and(|endpoint| endpoint.credits.is_measured())
    }

    /// Applies the capacity that a replica reports.
    pub(crate) fn report(&mut self, id: EndpointId, capacity: u32, now: Instant) -> DequeuedList<R, W> {
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.id == id);
        match endpoint.filter(|endpoint| endpoint.credits.limit() != capacity) {
            Some(endpoint) => endpoint.credits.report(capacity),
            None => return DequeuedList::new(),
        }
        self.serve(now)
    }

    /// Starts the limits of the replicas about which nothing is known with the one that the owner of the queue has
    /// measured at one of them. A gateway that hands all its requests over measures none itself.
    pub(crate) fn learn(&mut self, limit: u32) {
        self.learned = Some(limit);
        let unknown = self.endpoints.iter_mut().filter(|endpoint| endpoint.credits.measured().is_none());
        unknown.for_each(|endpoint| endpoint.credits.learn(limit));
    }

    /// Uses no credits before `at`; with `None`, uses them at once.
    pub(crate) fn start(&mut self, at: Option<Instant>) {
        self.handover.start(at);
    }

    /// Returns the next time at which this gateway gains credits from another gateway.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        self.handover.next_end()
    }

    /// Replaces limits and replicas. Also returns the removed replicas, whose requests are lost.
    pub(crate) fn update(
        &mut self,
        limit: QueueLimit,
        gateways: GatewaySet,
        replicas: Vec<EndpointSpec<R>>,
        now: Instant,
    ) -> (Vec<R>, DequeuedList<R, W>) {
        let before = (self.gateways, self.limits());
        (self.limit, self.gateways) = (limit, gateways);
        let measured = self.endpoints.iter().filter_map(|endpoint| endpoint.credits.measured());
        self.learned = measured.min().or(self.learned);
        let mut old = std::mem::take(&mut self.endpoints);
        for spec in replicas {
            let same = old.iter().position(|endpoint| endpoint.replica == spec.replica);
            let endpoint = match same {
                Some(index) => old.swap_remove(index).changed(spec),
                None => self.new_endpoint(spec),
            };
            self.endpoints.push(endpoint);
        }
        let from = Allocation::new(before.0, before.1.or(self.least()).unwrap_or(0));
        self.handover.change(from, self.allocation(), now);
        let lost = old.into_iter().map(|endpoint| endpoint.replica).collect();
        (lost, self.serve(now))
    }

    /// Grants credits to queued requests in their order.
    pub(crate) fn serve(&mut self, now: Instant) -> DequeuedList<R, W> {
        self.handover.pass(now);
        let mut dequeued = DequeuedList::new();
        if self.waiting.is_empty() {
            return dequeued;
        }
        self.grow(now);
        if self.ownership() == Ownership::NonOwner {
            dequeued.extend(self.take_waiting().map(|waiter| match waiter.origin {
                Origin::Client => Dequeued::HandOver(waiter.waiter),
                Origin::Gateway => Dequeued::NotOwner(waiter.waiter),
            }));
            return dequeued;
        }
        while let Some((sequence, waiter)) = self.next_waiting(now) {
            let share = waiter.share;
            let is_late = waiter.deadline.is_some_and(|deadline| deadline <= now);
            let granted = if is_late {
                None
            } else {
                match self.grant(share, sequence, now) {
                    Some(granted) => Some(granted),
                    None => break,
                }
            };
            let Some(waiter) = self.remove_waiting(sequence, now) else {
                break;
            };
            dequeued.push(match granted {
                Some(granted) => Dequeued::Granted(waiter.waiter, granted),
                None => Dequeued::Expired(waiter.waiter),
            });
        }
        dequeued
    }

    /// Returns the next time at which the limit of a replica grows because it has answered nothing while requests wait.
    pub(crate) fn next_growth(&self) -> Option<Instant> {
        if self.waiting.is_empty() {
            return None;
        }
        self.endpoints.iter().filter_map(|endpoint| self.growth(endpoint)).min()
    }

    /// Enlarges the limits of the replicas that have answered nothing for too long.
    fn grow(&mut self, now: Instant) {
        for index in 0..self.endpoints.len() {
            if self.growth(&self.endpoints[index]).is_some_and(|at| at <= now) {
                self.endpoints[index].credits.grow(now);
            }
        }
    }

    /// Returns the time at which a replica's limit grows without an answer; `None` if the replica is not full.
    fn growth(&self, endpoint: &Endpoint<R>) -> Option<Instant> {
        let at = endpoint.credits.grows_at().filter(|_| endpoint.state == EndpointState::Open)?;
        (endpoint.in_flight >= self.allowed(endpoint).max(1)).then_some(at)
    }

    fn new_endpoint(&mut self, spec: EndpointSpec<R>) -> Endpoint<R> {
        self.next_id += 1;
        let mut endpoint = Endpoint::new(self.next_id, spec);
        if let Some(limit) = self.learned {
            endpoint.credits.learn(limit);
        }
        if self.task == Task::GenerateText {
            endpoint.credits.expect_engine();
        }
        endpoint
    }

    fn note_task(&mut self, task: Task) {
        if (self.task, task) == (Task::Other, Task::GenerateText) {
            self.task = task;
            self.endpoints.iter_mut().for_each(|endpoint| endpoint.credits.expect_engine());
        }
    }

    /// Replaces the limit; queued requests stay.
    pub(crate) fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    fn has_capacity(&self, bytes: usize) -> bool {
        self.waiting.len() < self.limit.requests && self.bytes.saturating_add(bytes) <= self.limit.bytes
    }

    fn allocation(&self) -> Allocation {
        Allocation::new(self.gateways, self.limits().unwrap_or(0))
    }

    fn ownership(&self) -> Ownership {
        self.allocation().ownership
    }

    /// Returns the sum of the limits of all open replicas; `None` without an open replica.
    fn limits(&self) -> Option<u32> {
        let limits = self.open().map(|endpoint| endpoint.credits.limit());
        limits.reduce(u32::saturating_add)
    }

    /// Returns the smallest limit of an open replica; `None` without one. The state of the cluster that another gateway
    /// has may contain that replica alone.
    fn least(&self) -> Option<u32> {
        self.open().map(|endpoint| endpoint.credits.limit()).min()
    }

    /// Returns true if another replica than this one takes requests, and did not fail the last one that it had.
    pub(crate) fn others_work(&self, id: EndpointId) -> bool {
        self.open().any(|endpoint| endpoint.id != id && !endpoint.has_failed())
    }

    fn open(&self) -> impl Iterator<Item = &Endpoint<R>> {
        let endpoints = self.endpoints.iter();
        endpoints.filter(|endpoint| endpoint.state == EndpointState::Open)
    }

    fn allowed(&self, endpoint: &Endpoint<R>) -> u32 {
        self.allowed_of(self.allocation(), endpoint.credits.limit(), endpoint.offset)
    }

    /// Returns how many requests this gateway may have at a replica whose limit is `limit`. `allocation` is that of
    /// [`Self::allocation`], which a caller computes once for all replicas.
    fn allowed_of(&self, allocation: Allocation, limit: u32, offset: u32) -> u32 {
        allocation.allowed(limit, offset).min(self.handover.allowed(limit, offset))
    }

    /// Grants a credit of the least loaded replica; among equals, of the one whose last grant is the oldest.
    fn grant(&mut self, share: ClientShare, sequence: u64, now: Instant) -> Option<Granted<R>> {
        let allocation = self.allocation();
        let free = |endpoint: &Endpoint<R>| {
            let allowed = self.allowed_of(allocation, endpoint.credits.limit(), endpoint.offset);
            let is_free = endpoint.is_available(now) && endpoint.in_flight < allowed;
            is_free.then(|| endpoint.load())
        };
        let endpoints = self.endpoints.iter().enumerate();
        let best = endpoints.filter_map(|(i, endpoint)| Some((free(endpoint)?, endpoint.granted, i)));
        let (_, _, index) = best.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        self.grants += 1;
        let endpoint = &mut self.endpoints[index];
        endpoint.in_flight += 1;
        endpoint.granted = self.grants;
        let charge = self.shares.as_mut().map(|shares| shares.begin(share, sequence, now));
        let granted = Granted { id: endpoint.id, sequence, replica: endpoint.replica.clone(), charge };
        let usage = self.usage(index);
        self.endpoints[index].credits.sent(usage, now);
        Some(granted)
    }

    /// Returns this gateway's requests at the replica with this index. The share is computed only if it is needed,
    /// because that takes a pass over all replicas.
    fn usage(&self, index: usize) -> Usage {
        let endpoint = &self.endpoints[index];
        let in_flight = endpoint.in_flight;
        match &endpoint.credits {
            ConcurrencyLimit::Configured(limit) | ConcurrencyLimit::Reported(limit) => {
                Usage { in_flight, allowed: *limit, gateways: 1 }
            }
            ConcurrencyLimit::Measured(_) => {
                let allocation = self.allocation();
                let allowed = self.allowed_of(allocation, endpoint.credits.limit(), endpoint.offset);
                Usage { in_flight, allowed, gateways: allocation.gateways() }
            }
        }
    }
}
