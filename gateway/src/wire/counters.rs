//! Counters of the port's requests.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::GatewayError;
use crate::wire::protocol::Protocol;

/// Counts of the port's requests since the gateway started, regardless of their outcome.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    pub(crate) http: AtomicU64,
    pub(crate) grpc: AtomicU64,
    pub(crate) unrouted: AtomicU64,
    pub(crate) replays: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) batched: AtomicU64,
}

impl RequestCounters {
    pub(crate) fn count(&self, protocol: Protocol) {
        let counter = match protocol {
            Protocol::Http => &self.http,
            Protocol::Grpc => &self.grpc,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was not routed because of `error`, if it matches no revision.
    pub(crate) fn count_unrouted(&self, error: &GatewayError) {
        self.unrouted.fetch_add(u64::from(error.is_unrouted()), Ordering::Relaxed);
    }

    /// Counts a batch of this many requests.
    pub(crate) fn count_batch(&self, members: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.batched.fetch_add(members as u64, Ordering::Relaxed);
    }

    /// Counts a retry of a request.
    pub(crate) fn count_retry(&self) {
        self.replays.fetch_add(1, Ordering::Relaxed);
    }
}
