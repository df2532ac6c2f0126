//! Read access to a dispatcher's state.

use std::time::Instant;

use super::endpoint::Endpoint;
use super::{Dispatcher, EndpointId, Ownership};
use crate::queue::QueueLimit;

impl<R: Clone + PartialEq, W> Dispatcher<R, W> {
    /// Returns the limit of queued requests.
    pub(crate) fn limit(&self) -> QueueLimit {
        self.limit
    }

    /// Returns the number and the bytes of queued requests.
    pub(crate) fn queued(&self) -> QueueLimit {
        QueueLimit { requests: self.waiting.len(), bytes: self.bytes }
    }

    /// Returns the number of queued requests before this sequence number.
    pub(crate) fn ahead(&self, sequence: u64) -> usize {
        self.waiting.range(..sequence).count()
    }

    /// Returns the request that has waited longest.
    pub(crate) fn oldest(&self) -> Option<&W> {
        self.waiting.first_key_value().map(|(_, waiter)| &waiter.waiter)
    }

    /// Returns true if a replica takes requests, though it may be ejected for a moment.
    pub(crate) fn is_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// Returns a replica that takes requests, though it may be ejected for a moment.
    pub(crate) fn open_replica(&self) -> Option<&R> {
        self.open().next().map(|endpoint| &endpoint.replica)
    }

    /// Returns the number of replicas that take requests; `None` if another gateway owns the queue.
    pub(crate) fn serving(&self) -> Option<usize> {
        match self.ownership() {
            Ownership::NonOwner => None,
            Ownership::Sharing | Ownership::Owner => Some(self.open().count()),
        }
    }

    /// Returns the time at which the next ejected replica is readmitted; `None` if none is ejected.
    pub(crate) fn next_readmission(&self, now: Instant) -> Option<Instant> {
        let ejections = self.endpoints.iter().filter_map(|endpoint| endpoint.ejected_until);
        ejections.filter(|until| *until > now).min()
    }

    /// Returns the replicas, each with its requests in flight and the most that it may have.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&R, u32, u32)> {
        let allocation = self.allocation();
        self.endpoints.iter().map(move |endpoint| {
            let allowed = self.allowed_of(allocation, endpoint.credits.limit(), endpoint.offset);
            (&endpoint.replica, endpoint.in_flight, allowed)
        })
    }

    /// Returns the number of requests that this gateway may have at all open replicas together. A replica that is not
    /// measured yet counts as an engine, so that the autoscaler does not start replicas because of a first low limit.
    pub(crate) fn credits(&self) -> u32 {
        let allocation = self.allocation();
        let allowed =
            |endpoint: &Endpoint<R>| self.allowed_of(allocation, endpoint.credits.expected(), endpoint.offset);
        self.open().map(allowed).fold(0, u32::saturating_add)
    }

    /// Returns the measured limit of a replica; `None` if it is configured, reported or unknown, or the replica has left.
    pub(crate) fn measured_limit(&self, id: EndpointId) -> Option<u32> {
        self.endpoints.iter().find(|endpoint| endpoint.id == id)?.credits.measured()
    }

    /// Returns the endpoint's ID of a replica, with which its capacity is reported.
    pub(crate) fn id_of(&self, replica: &R) -> Option<EndpointId> {
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.replica == *replica);
        endpoint.map(|endpoint| endpoint.id)
    }
}
