//! Read access to a dispatcher's state.

use std::time::Instant;

use super::{Dispatcher, EndpointId, Ownership, QueueLimit};

impl<R: Clone + PartialEq, W> Dispatcher<R, W> {
    /// Limit of queued requests.
    pub(crate) fn limit(&self) -> QueueLimit {
        self.limit
    }

    /// Number and bytes of queued requests.
    pub(crate) fn queued(&self) -> QueueLimit {
        QueueLimit { requests: self.waiting.len(), bytes: self.bytes }
    }

    /// Number of queued requests before this sequence number.
    pub(crate) fn ahead(&self, sequence: u64) -> usize {
        self.waiting.range(..sequence).count()
    }

    /// The request that waits longest.
    pub(crate) fn oldest(&self) -> Option<&W> {
        self.waiting.first_key_value().map(|(_, waiter)| &waiter.waiter)
    }

    /// Whether some replica takes requests, at least in a moment.
    pub(crate) fn is_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// A replica that takes requests, at least in a moment.
    pub(crate) fn open_replica(&self) -> Option<&R> {
        self.open().next().map(|endpoint| &endpoint.replica)
    }

    /// How many replicas take requests; `None` where another gateway has the queue.
    pub(crate) fn serving(&self) -> Option<usize> {
        match self.ownership() {
            Ownership::NonOwner(_) => None,
            Ownership::Sharing | Ownership::Owner => Some(self.open().count()),
        }
    }

    /// When the first replica that rests takes requests again.
    pub(crate) fn next_readmission(&self, now: Instant) -> Option<Instant> {
        let ejections = self.endpoints.iter().filter_map(|endpoint| endpoint.ejected_until);
        ejections.filter(|until| *until > now).min()
    }

    /// The replicas, each with its requests in flight and the most it may have.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = (&R, u32, u32)> {
        let endpoints = self.endpoints.iter();
        endpoints.map(|endpoint| (&endpoint.replica, endpoint.in_flight, self.allowed(endpoint)))
    }

    /// Requests that may be at the replicas at once, those that take none now left out.
    pub(crate) fn credits(&self) -> u32 {
        let allowed = self.open().map(|endpoint| self.allowed(endpoint));
        allowed.fold(0, u32::saturating_add)
    }

    /// The key of a replica, to report its capacity with.
    pub(crate) fn id_of(&self, replica: &R) -> Option<EndpointId> {
        let endpoint = self.endpoints.iter().find(|endpoint| endpoint.replica == *replica);
        endpoint.map(|endpoint| endpoint.id)
    }
}
