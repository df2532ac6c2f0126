//! Requests that gateways have at single replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests at one replica. They compare by streams first: a short request ends before its replica does, a stream may
/// not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaLoad {
    /// Responses of unknown length that the replica is sending, such as streams of tokens.
    pub streams: u32,
    /// Requests that were sent to the replica and have not ended, those of `streams` included.
    pub requests: u32,
}

/// Loads by the replicas' names; a replica that is not listed has no requests.
pub type ReplicaLoads = BTreeMap<Arc<str>, ReplicaLoad>;

/// Adds other loads of the same replicas, such as those of another gateway.
pub(crate) fn add(to: &mut ReplicaLoads, other: &ReplicaLoads) {
    for (name, load) in other {
        let sum = to.entry(name.clone()).or_default();
        sum.streams = sum.streams.saturating_add(load.streams);
        sum.requests = sum.requests.saturating_add(load.requests);
    }
}
